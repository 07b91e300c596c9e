"""Entry point of the evaluator container: a SageMaker processing job that judges one training job.

Contract: configuration from the environment, else from `/opt/ml/config/processingjobconfig.json`; the result in one
sentence in `/opt/ml/output/message`; exit code 0 when everything was judged, else one of `evaluation/exit_codes.py`;
a rule from a file that the request names is not run here, but said not to be evaluated, and the exit code is 2 then.
SIGTERM ends it after what is complete was judged. A restarted job goes on where the last one stopped.
https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError, Problem, StorageError
from trackside.contracts.event import TrainingJob
from trackside.contracts.run_layout import TRAINING_JOB_KEY, RunLocation
from trackside.contracts.verdict import Outcome
from trackside.environment import EvaluatorEnvironment, inherited
from trackside.evaluation import exit_codes
from trackside.evaluation.evaluator import Summary, evaluate
from trackside.evaluation.rule_request_file import read_rule_request
from trackside.evaluation.sinks.event_bridge import EventOrigin, connect_event_bridge
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.evaluation.sinks.sink import Sink
from trackside.evaluation.stop_signal import StopSignal
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

MOST_MESSAGE_BYTES = 1024  # SageMaker keeps the first 1 KB as ExitMessage
ISSUE_PREFIX = "RuleEvaluationConditionMet: "  # what AWS's own rule containers begin with

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """What this container was asked to do."""

    environment: EvaluatorEnvironment
    processing_job_arn: str


def main() -> int:
    """Judges; returns the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)  # it tells for each client where it found credentials
    ml_root = EvaluatorEnvironment.read().ml_root
    try:
        summary = _judge(_read_job(ml_root))
    except ConfigurationError as error:
        return _fail(ml_root, error, exit_codes.BAD_CONFIGURATION)
    except StorageError as error:
        return _fail(ml_root, error, exit_codes.RUN_UNREADABLE)
    _write_message(ml_root, message_of(summary))
    return exit_codes.exit_code_of(summary)


def message_of(summary: Summary) -> str:
    """One sentence for ExitMessage; the first issue leads, as in AWS's own rule containers."""
    trouble = _trouble(summary)
    clean = sum(verdict.outcome is Outcome.CLEAN for verdict in summary.verdicts)
    if summary.issues:
        first = summary.issues[0]
        met = f"Evaluation of the rule {first.configuration_name} at step {first.step} resulted in the condition being"
        return f"{ISSUE_PREFIX}{met} met. {first.message}{trouble}"
    if not summary.has_ended:
        return f"Stopped on request after step {summary.last_step}; no issue found so far.{trouble}"
    if not clean:
        return f"No rule could judge this run.{trouble}"
    return f"No issue found by {clean} of {len(summary.judged)} rules up to step {summary.last_step}.{trouble}"


def _judge(job: Job) -> Summary:
    environment = job.environment
    run = RunLocation(environment.run_uri)
    rule_output = open_store(run.rule_output)
    request = read_rule_request(open_store(run.uri))
    _claim(rule_output, run, environment.training_job_arn)
    with StopSignal() as stop:
        sinks: list[Sink] = [JsonLinesSink(rule_output)]
        if environment.event_bus:
            training_job = TrainingJob(name=environment.training_job_name, arn=environment.training_job_arn)
            origin = EventOrigin(job=training_job, run_uri=run.uri, evaluation_job_arn=job.processing_job_arn)
            sinks.append(connect_event_bridge(bus=environment.event_bus, origin=origin, sleep=stop.sleep))
        return evaluate(
            run,
            request,
            sinks,
            poll_seconds=environment.poll_seconds,
            clock=time.time,
            sleep=stop.sleep,
            should_stop=lambda: stop.is_set,
            # Its role may write what every run's rules said: code that whoever writes a run names is not run with it.
            runs_custom_rules=False,
        )


def _claim(rule_output: Store, run: RunLocation, training_job_arn: str) -> None:
    """One run, one training job: what was said about an earlier job would pass for the verdict on this one.

    Errors: `ConfigurationError` if the run was judged for another job.
    """
    if not training_job_arn:
        return
    try:
        owner = rule_output.get(TRAINING_JOB_KEY).decode("utf-8", errors="replace").strip()
    except KeyNotFoundError:
        rule_output.put(TRAINING_JOB_KEY, training_job_arn.encode())
        return
    if owner != training_job_arn:
        fix = "Give each training job a location of its own, in its tag trackside:run and in TRACKSIDE_RUN."
        raise ConfigurationError([Problem(run.uri, f"is the run of another job, {owner}.", fix)], subject="The run")


def _read_job(ml_root: Path) -> Job:
    """From the environment, completed by the processing job's configuration. Errors: `ConfigurationError`."""
    configuration = _read_configuration(ml_root / "config" / "processingjobconfig.json")
    given = configuration.get("Environment") or {}
    environment = EvaluatorEnvironment.read({**{str(k): str(v) for k, v in given.items()}, **inherited()})
    problems = []
    if not environment.run_uri:
        fix = "Set it to the run's location, s3://bucket/prefix, in the Environment of the processing job."
        problems.append(Problem("TRACKSIDE_RUN", "is not set.", fix))
    if environment.event_bus and not environment.training_job_arn:
        fix = "Set it to the ARN of the training job that is judged: events without it could stop nothing."
        problems.append(Problem("TRAINING_JOB_ARN", "is not set.", fix))
    if problems:
        raise ConfigurationError(problems, subject="The environment of the evaluator")
    return Job(environment, str(configuration.get("ProcessingJobArn") or ""))


def _read_configuration(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _logger.warning("%s cannot be read, so only the environment counts: %s", file, error)
        return {}
    return found if isinstance(found, dict) else {}


def _trouble(summary: Summary) -> str:
    parts: list[str] = []
    unanswered = (verdict for verdict in summary.verdicts if verdict.outcome is Outcome.NOT_EVALUATED)
    parts += [f" Not evaluated: {verdict.configuration_name}. {verdict.message}" for verdict in unanswered]
    if summary.undelivered:
        parts.append(f" {len(summary.undelivered)} verdicts did not reach the event bus; they lie in the run.")
    return "".join(parts)


def _fail(ml_root: Path, error: Exception, code: int) -> int:
    _logger.error("%s", error)
    _write_message(ml_root, str(error))
    return code


def _write_message(ml_root: Path, message: str) -> None:
    whole = message.encode("utf-8", errors="replace")[:MOST_MESSAGE_BYTES].decode("utf-8", errors="ignore")
    file = ml_root / "output" / "message"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(whole, encoding="utf-8")
    except OSError as error:  # the verdicts are out already: a missing sentence must not fail the job
        _logger.warning("The exit message cannot be written to %s: %s", file, error)


if __name__ == "__main__":
    sys.exit(main())
