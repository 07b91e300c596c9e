"""The common part of the rule containers: their task, their output folder, and their exit.

A container is started in one of two ways. A deployment of Trackside names the run (`TRACKSIDE_RUN`), and the run's
`rule-request.json` names the rules. SageMaker Debugger starts a container for one rule, with each parameter in a
variable of its own, beside a folder into which it copies the tensors (contracts: a managed rule container). Such a
container judges that rule whatever the run's request holds, ends with the first verdict, and writes to a folder of its
own.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from trackside.containers.container_user import leave_root
from trackside.containers.event_bridge import EventOrigin
from trackside.contracts.deployment.custom_rule_job import CLEAN_PREFIX, issue_sentence
from trackside.contracts.deployment.evaluators import NOTHING_JUDGED
from trackside.contracts.errors import (
    ConfigurationError,
    KeyNotFoundError,
    Problem,
    StorageError,
    StorageUnavailableError,
)
from trackside.contracts.event import TrainingJob, job_of_identity
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import RULE_OUTPUT, TRAINING_JOB_KEY, VERDICTS_KEY, RunLocation, verdicts_key_of
from trackside.contracts.verdict import Outcome, Verdict
from trackside.environment import EvaluatorEnvironment, forget_run, inherited
from trackside.evaluation import exit_codes
from trackside.evaluation.results.summary import Summary
from trackside.evaluation.rule_request_file import names_a_rule, rule_of_environment
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

MOST_MESSAGE_BYTES = 1024  # SageMaker keeps the first 1 KB as ExitMessage
START_SECONDS = 300.0  # a wrong network is no outage: report it before the training is over
RETRY_SECONDS = 10.0

T = TypeVar("T")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """The task of a rule container.

    environment         variables of the container
    run                 the run to judge
    processing_job_arn  ARN of the processing job that the container is
    request             the one rule that the environment names; None: the run's own request counts
    tensors             location of the tensors if outside `run`, else ""
    profiles            location of the machine's metrics if outside `run`, else ""
    rule_output         location of the verdicts if outside `run`, else ""
    """

    environment: EvaluatorEnvironment
    run: RunLocation
    processing_job_arn: str = ""
    request: RuleRequest | None = None
    tensors: str = ""
    profiles: str = ""
    rule_output: str = ""

    def open_store(self, uri: str) -> Store:
        """Return the store of one of the places of `run`, wherever that place is. Errors: those of `open_store`."""
        elsewhere = {
            self.run.tensors: self.tensors,
            self.run.profiles: self.profiles,
            self.run.rule_output: self.rule_output,
        }
        return open_store(elsewhere.get(uri) or uri)

    @property
    def training_job(self) -> TrainingJob:
        """The training job that is judged."""
        environment = self.environment
        return TrainingJob(
            environment.training_job_name,
            environment.training_job_arn,
            environment.training_job_created_at,
            environment.training_job_continues,
        )

    @property
    def origin(self) -> EventOrigin:
        """The training job, run and processing job that the events name."""
        return EventOrigin(job=self.training_job, run_uri=self.run.uri, evaluation_job_arn=self.processing_job_arn)

    def must_end(self, now: float) -> bool:
        """Return True once SageMaker Debugger's stop file exists and the time in it, plus the grace period, is over."""
        if not self.environment.stop_file:
            return False
        try:
            content = Path(self.environment.stop_file).read_bytes()[:64]
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            return now >= float(content) + self.environment.stop_grace_seconds
        except ValueError:  # the stop was requested, at an unknown time
            return True


def run_container(
    judge: Callable[[Job], Summary],
    *,
    message_of: Callable[[Summary], str],
    code_without_message: Callable[[Summary], int | None] = lambda summary: None,
) -> int:
    """Read the task, judge the run, and write the outcome as one sentence. Return the exit code.

    Args:
        judge: Judges the run.
        message_of: Returns the sentence.
        code_without_message: Returns the exit code in place of 0 if the sentence cannot be written; None: 0.
    """
    environment = EvaluatorEnvironment.read()
    ml_root = environment.ml_root
    leave_root(ml_root, user=environment.run_as)
    # The log of one worker mixes several runs: each line names its job.
    job_prefix = f"{environment.training_job_name.replace('%', '%%')} " if environment.has_worker_lease else ""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s %(levelname)s {job_prefix}%(message)s"
    )
    logging.getLogger("botocore").setLevel(logging.WARNING)  # else it logs the origin of credentials
    try:
        job = read_job(ml_root)
        forget_run()
        summary = judge(job)
    except ConfigurationError as error:
        return _fail(ml_root, error, exit_codes.BAD_CONFIGURATION)
    except StorageError as error:
        return _fail(ml_root, error, exit_codes.RUN_UNREADABLE)
    except Exception as error:  # a failed job without a message would not help its owner
        _logger.exception("The evaluator broke off")
        write_message(ml_root, f"The evaluator broke off: {type(error).__name__}: {error}")
        return exit_codes.BROKE_OFF
    is_written = write_message(ml_root, message_of(summary))
    code = exit_codes.exit_code_of(summary)
    if code == exit_codes.JUDGED and not is_written:
        code = code_without_message(summary) or code
    if code == exit_codes.JUDGED and job.request is not None and _has_no_answer(summary):
        return exit_codes.RUN_UNREADABLE  # SageMaker Debugger takes 0 for "no issues found"
    return code


def patiently(
    read: Callable[[], T],
    *,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Return the result of `read`, after waiting out an outage of the store.

    For reads before the evaluator itself starts.

    Errors: those of `read`; those of an outage that lasts longer than `START_SECONDS`.
    """
    deadline = clock() + START_SECONDS
    while True:
        try:
            return read()
        except StorageUnavailableError as error:
            if clock() >= deadline:
                raise
            _logger.warning("The run cannot be reached at the moment; trying again: %s", error)
            sleep(RETRY_SECONDS)


def read_job(ml_root: Path) -> Job:
    """Return the task in the environment, completed by the processing job's configuration file.

    Errors: `ConfigurationError` with every problem at once.
    """
    configuration = _read_configuration(ml_root / "config" / "processingjobconfig.json")
    listed = configuration.get("Environment")
    listed = listed if isinstance(listed, dict) else {}
    variables = {**{str(k): str(v) for k, v in listed.items()}, **inherited()}
    environment = EvaluatorEnvironment.read(variables)
    problems = _problems(environment, needs_run=not names_a_rule(variables))
    arn = str(configuration.get("ProcessingJobArn") or "")
    if not names_a_rule(variables):
        if problems:
            raise ConfigurationError(problems, subject="The environment of the evaluator")
        # The stop signal is one of the managed containers; elsewhere the name means nothing.
        return Job(replace(environment, stop_file=""), RunLocation(environment.run_uri), arn)
    try:
        request = rule_of_environment(variables)
    except ConfigurationError as error:
        raise ConfigurationError([*problems, *error.problems], subject="The environment of the rule") from error
    if problems:
        raise ConfigurationError(problems, subject="The environment of the rule")
    return _job_for_one_rule(environment, request, ml_root, processing_job_arn=arn)


def _job_for_one_rule(
    environment: EvaluatorEnvironment, request: RuleRequest, ml_root: Path, *, processing_job_arn: str
) -> Job:
    job_name = environment.training_job_name or environment.training_job_arn.rpartition("/")[2]
    environment = replace(environment, training_job_name=job_name)
    if environment.run_uri:
        run = RunLocation(environment.run_uri)
        folder, _, _ = verdicts_key_of(request.rules[0].name).rpartition("/")
        output = f"{run.rule_output}/{folder}"  # containers of other rules write beside it
        return Job(environment, run, processing_job_arn, request, rule_output=output)
    processing = ml_root / "processing"
    run = RunLocation(str(processing / "input" / (job_name or "run")))
    inputs, output = processing / "input", str(processing / "output" / "rule")
    return Job(
        environment,
        run,
        processing_job_arn,
        request,
        tensors=str(inputs / "tensors"),
        profiles=str(inputs / "profiler"),
        rule_output=output,
    )


def _problems(environment: EvaluatorEnvironment, *, needs_run: bool) -> list[Problem]:
    problems = []
    if needs_run and not environment.run_uri:
        fix = "Set it to the run's location, s3://bucket/prefix, in the Environment of the processing job."
        problems.append(Problem("TRACKSIDE_RUN", "is not set.", fix))
    if environment.event_bus and not environment.training_job_arn:
        fix = "Set it to the ARN of the training job that is judged: events without it could stop nothing."
        problems.append(Problem("TRAINING_JOB_ARN", "is not set.", fix))
    return problems


def _read_configuration(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _logger.warning("%s cannot be read, so only the environment counts: %s", file, error)
        return {}
    return found if isinstance(found, dict) else {}


def check_owner(job: Job) -> str:
    """Return the identity of the training job that the run was judged for before, or "".

    Verdicts on an earlier job would pass for verdicts on this one. A folder that SageMaker Debugger fills belongs to
    one job and is not checked.

    Errors: `ConfigurationError` if the run was judged for another job; those of the store.
    """
    if not job.environment.run_uri:
        return job.training_job.identity
    try:
        owner = (
            open_store(job.run.uri).get(f"{RULE_OUTPUT}/{TRAINING_JOB_KEY}").decode("utf-8", errors="replace").strip()
        )
    except KeyNotFoundError:
        return ""
    ours = job.training_job
    if ours.arn and not job_of_identity(owner).is_same_as(ours):
        fix = "Give each training job a location of its own, in its tag trackside:run and in TRACKSIDE_RUN."
        raise ConfigurationError([Problem(job.run.uri, f"is the run of another job, {owner}.", fix)], subject="The run")
    return owner


class FirstVerdict:
    """A sink that remembers whether any verdict came. A container for one rule ends then."""

    name = "first-word"

    def __init__(self, rule_output: Store | None = None) -> None:
        """Look for a verdict of an earlier start of the same container in `rule_output`. Errors: the store's."""
        self.has_come = rule_output is not None and _holds_verdict(rule_output)

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Remember that verdicts came. Refuses none."""
        self.has_come |= bool(verdicts)


def _holds_verdict(rule_output: Store) -> bool:
    try:
        return bool(rule_output.get(VERDICTS_KEY, length=1))
    except KeyNotFoundError:
        return False


def message_of(summary: Summary, *, with_severity: bool = False) -> str:
    """Return one sentence for ExitMessage. The first issue leads, as in AWS's own rule containers."""
    problems = _problems_sentence(summary)
    clean = sum(verdict.outcome is Outcome.CLEAN for verdict in summary.verdicts)
    if summary.issues:
        first = summary.issues[0]
        sentence = issue_sentence(
            configuration=first.configuration_name,
            step=first.step,
            message=first.message,
            severity=first.severity if with_severity else None,
        )
        return f"{sentence}{problems}"
    has_answered = {verdict.configuration_name for verdict in summary.verdicts}
    if not summary.has_ended and not has_answered.issuperset(summary.judged):
        return f"Stopped on request after step {summary.last_step}; no issue found so far.{problems}"
    if not clean:
        return f"{NOTHING_JUDGED}.{problems}"
    return f"{CLEAN_PREFIX} by {clean} of {len(summary.judged)} rules up to step {summary.last_step}.{problems}"


def write_message(ml_root: Path, message: str) -> bool:
    """Write the first 1 KB of the message, cut between characters. Return False if it cannot be written."""
    whole = message.encode("utf-8", errors="replace")[:MOST_MESSAGE_BYTES].decode("utf-8", errors="ignore")
    file = ml_root / "output" / "message"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(whole, encoding="utf-8")
    except OSError as error:  # the verdicts are out already: a missing sentence must not fail the job
        _logger.warning("The exit message cannot be written to %s: %s", file, error)
        return False
    return True


def _has_no_answer(summary: Summary) -> bool:
    return summary.has_ended and all(verdict.outcome is Outcome.NOT_EVALUATED for verdict in summary.verdicts)


def _problems_sentence(summary: Summary) -> str:
    parts: list[str] = []
    unanswered = (verdict for verdict in summary.verdicts if verdict.outcome is Outcome.NOT_EVALUATED)
    parts += [f" Not evaluated: {verdict.configuration_name}. {verdict.message}" for verdict in unanswered]
    if summary.undelivered:
        parts.append(f" {len(summary.undelivered)} verdicts did not reach the event bus; they lie in the run.")
    return "".join(parts)


def _fail(ml_root: Path, error: Exception, code: int) -> int:
    _logger.error("%s", error)
    write_message(ml_root, str(error))
    return code
