"""What the rule containers have in common: how they are told what to do, where they write, and how they end.

A container is started in one of two ways. A deployment of Trackside names the run (`TRACKSIDE_RUN`), whose
`rule-request.json` says which rules. SageMaker Debugger starts a container for one rule, each parameter of which is a
variable of its own, beside a folder into which it copies the tensors (contracts: a managed rule container); such a
container judges that rule whatever lies in the run, ends with the first verdict, and writes to a folder of its own.
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

from trackside.contracts.deployment.custom_rule_job import CLEAN_PREFIX, issue_sentence
from trackside.contracts.deployment.evaluators import NOTHING_JUDGED
from trackside.contracts.errors import (
    ConfigurationError,
    KeyNotFoundError,
    Problem,
    StorageError,
    StorageUnavailableError,
)
from trackside.contracts.event import TrainingJob
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import RULE_OUTPUT, TRAINING_JOB_KEY, VERDICTS_KEY, RunLocation, verdicts_key_of
from trackside.contracts.verdict import Outcome, Verdict
from trackside.environment import EvaluatorEnvironment, forget_run, inherited
from trackside.evaluation import exit_codes
from trackside.evaluation.rule_request_file import names_a_rule, rule_of_environment
from trackside.evaluation.sinks.event_bridge import EventOrigin
from trackside.evaluation.summary import Summary
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

MOST_MESSAGE_BYTES = 1024  # SageMaker keeps the first 1 KB as ExitMessage
START_SECONDS = 300.0  # a wrong network is no outage, and should be told of before the training is over
RETRY_SECONDS = 10.0

T = TypeVar("T")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """What a rule container was asked to do.

    `request` is the one rule that its environment names; None: the run's own request counts. `tensors` and
    `rule_output` say where they lie instead of within `run`; "": within it.
    """

    environment: EvaluatorEnvironment
    run: RunLocation
    processing_job_arn: str = ""
    request: RuleRequest | None = None
    tensors: str = ""
    rule_output: str = ""

    def open_store(self, uri: str) -> Store:
        """The store of one of the places of `run`, wherever that is. Errors: those of `open_store`."""
        elsewhere = {self.run.tensors: self.tensors, self.run.rule_output: self.rule_output}
        return open_store(elsewhere.get(uri) or uri)

    @property
    def origin(self) -> EventOrigin:
        """Whose the verdicts are."""
        job = TrainingJob(name=self.environment.training_job_name, arn=self.environment.training_job_arn)
        return EventOrigin(job=job, run_uri=self.run.uri, evaluation_job_arn=self.processing_job_arn)

    def is_asked_to_end(self, now: float) -> bool:
        """True once the file of SageMaker Debugger's stop signal lies there and its time, and the grace, are over."""
        if not self.environment.stop_file:
            return False
        try:
            said = Path(self.environment.stop_file).read_bytes()[:64]
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            return now >= float(said) + self.environment.stop_grace_seconds
        except ValueError:  # it was asked for; only since when cannot be told
            return True


def run_container(judge: Callable[[Job], Summary], *, message_of: Callable[[Summary], str]) -> int:
    """Reads what is to be done, judges, says the outcome in one sentence; returns the exit code."""
    environment = EvaluatorEnvironment.read()
    ml_root = environment.ml_root
    # Beside those of other runs in the log of one worker, each line says whose it is.
    whose = f"{environment.training_job_name.replace('%', '%%')} " if environment.has_lifeline else ""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s %(levelname)s {whose}%(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)  # it tells for each client where it found credentials
    try:
        job = read_job(ml_root)
        forget_run()
        summary = judge(job)
    except ConfigurationError as error:
        return _fail(ml_root, error, exit_codes.BAD_CONFIGURATION)
    except StorageError as error:
        return _fail(ml_root, error, exit_codes.RUN_UNREADABLE)
    except Exception as error:  # a job that only failed would tell its owner nothing
        _logger.exception("The evaluator broke off")
        write_message(ml_root, f"The evaluator broke off: {type(error).__name__}: {error}")
        return exit_codes.BROKE_OFF
    write_message(ml_root, message_of(summary))
    code = exit_codes.exit_code_of(summary)
    if code == exit_codes.JUDGED and job.request is not None and _was_not_answered(summary):
        return exit_codes.RUN_UNREADABLE  # SageMaker Debugger takes 0 for "no issues found"
    return code


def patiently(
    read: Callable[[], T],
    *,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """What `read` gives, after an outage of the store if need be: once the evaluator looks at the run, it waits by
    itself. Errors: those of `read`; of an outage that lasts longer than `START_SECONDS`.
    """
    give_up_at = clock() + START_SECONDS
    while True:
        try:
            return read()
        except StorageUnavailableError as error:
            if clock() >= give_up_at:
                raise
            _logger.warning("The run cannot be reached at the moment; trying again: %s", error)
            sleep(RETRY_SECONDS)


def read_job(ml_root: Path) -> Job:
    """From the environment, completed by the processing job's configuration.

    Errors: `ConfigurationError` with every problem at once.
    """
    configuration = _read_configuration(ml_root / "config" / "processingjobconfig.json")
    given = configuration.get("Environment")
    given = given if isinstance(given, dict) else {}
    variables = {**{str(k): str(v) for k, v in given.items()}, **inherited()}
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
    tensors, output = str(processing / "input" / "tensors"), str(processing / "output" / "rule")
    return Job(environment, run, processing_job_arn, request, tensors=tensors, rule_output=output)


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
    """The ARN of the training job that the run was judged for before, or "".

    What was said about an earlier job would pass for the verdict on this one. A folder that SageMaker Debugger fills is
    of one job. Errors: `ConfigurationError` if the run
    was judged for another job; those of the store.
    """
    if not job.environment.run_uri:
        return job.environment.training_job_arn
    try:
        owner = (
            open_store(job.run.uri).get(f"{RULE_OUTPUT}/{TRAINING_JOB_KEY}").decode("utf-8", errors="replace").strip()
        )
    except KeyNotFoundError:
        return ""
    ours = job.environment.training_job_arn
    if ours and owner != ours:
        fix = "Give each training job a location of its own, in its tag trackside:run and in TRACKSIDE_RUN."
        raise ConfigurationError([Problem(job.run.uri, f"is the run of another job, {owner}.", fix)], subject="The run")
    return owner


class FirstWord:
    """A sink that notes whether the rule has found an issue or cannot judge: a container for one rule ends then."""

    name = "first-word"

    def __init__(self, rule_output: Store | None = None) -> None:
        """`rule_output`: where an earlier start of the same container may have left it. Errors: the store's."""
        self.was_said = rule_output is not None and _holds_verdict(rule_output)

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Looks at them, and takes all."""
        self.was_said |= bool(verdicts)


def _holds_verdict(rule_output: Store) -> bool:
    try:
        return bool(rule_output.get(VERDICTS_KEY, length=1))
    except KeyNotFoundError:
        return False


def message_of(summary: Summary, *, with_severity: bool = False) -> str:
    """One sentence for ExitMessage; the first issue leads, as in AWS's own rule containers."""
    trouble = _trouble(summary)
    clean = sum(verdict.outcome is Outcome.CLEAN for verdict in summary.verdicts)
    if summary.issues:
        first = summary.issues[0]
        sentence = issue_sentence(
            configuration=first.configuration_name,
            step=first.step,
            message=first.message,
            severity=first.severity if with_severity else None,
        )
        return f"{sentence}{trouble}"
    has_answered = {verdict.configuration_name for verdict in summary.verdicts}
    if not summary.has_ended and not has_answered.issuperset(summary.judged):
        return f"Stopped on request after step {summary.last_step}; no issue found so far.{trouble}"
    if not clean:
        return f"{NOTHING_JUDGED}.{trouble}"
    return f"{CLEAN_PREFIX} by {clean} of {len(summary.judged)} rules up to step {summary.last_step}.{trouble}"


def write_message(ml_root: Path, message: str) -> None:
    """The first 1 KB, cut between characters."""
    whole = message.encode("utf-8", errors="replace")[:MOST_MESSAGE_BYTES].decode("utf-8", errors="ignore")
    file = ml_root / "output" / "message"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(whole, encoding="utf-8")
    except OSError as error:  # the verdicts are out already: a missing sentence must not fail the job
        _logger.warning("The exit message cannot be written to %s: %s", file, error)


def _was_not_answered(summary: Summary) -> bool:
    return summary.has_ended and all(verdict.outcome is Outcome.NOT_EVALUATED for verdict in summary.verdicts)


def _trouble(summary: Summary) -> str:
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
