"""The processing job for one rule from a file: its environment, and the reading of its exit message.

A reader of the outcome trusts the job's environment, which start_evaluation set. The rule's code can influence the
exit message of its own job and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluationStatus, TrainingJob
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Severity

ISSUE_PREFIX = "RuleEvaluationConditionMet: "  # beginning of the exit messages of AWS's own rule containers
CLEAN_PREFIX = "No issue found"
# Exit codes of a container that could not write its exit message: they hold the outcome all the same.
CLEAN_CODE = 40
ISSUE_CODES = {Severity.INFO: 41, Severity.WARNING: 42, Severity.CRITICAL: 43}
MOST_JOBS = 20  # largest number for one run: CreateTrainingJob accepts as many rules
MOST_VALUE_CHARACTERS = 256  # API_CreateProcessingJob: of each value of Environment

RUN, CONFIGURATION, RULE, ACTIONS, PLACE = (
    "TRACKSIDE_RUN",
    "TRACKSIDE_RULE_CONFIGURATION",
    "TRACKSIDE_RULE",
    "TRACKSIDE_ACTIONS",
    "TRACKSIDE_CUSTOM_RULES_FROM",
)
JOB_NAME, JOB_ARN, JOB_CREATED_AT = "TRAINING_JOB_NAME", "TRAINING_JOB_ARN", "TRAINING_JOB_CREATED_AT"
JOB_CONTINUES = "TRAINING_JOB_CONTINUES"

_EXIT_CODE = re.compile(r"exit code: (?P<code>\d{1,3})\b")
_MET = re.compile(r" at step (?P<step>\d+) resulted in the condition being met\.(?: Severity: (?P<severity>\w+)\.)?")


def lies_below(source: str, place: str) -> bool:
    """Return True if the file at `source` lies below `place`, an s3:// prefix. Below "" lies nothing."""
    root = place.rstrip("/") + "/"
    if not place or not source.startswith(root):
        return False
    return not {"", ".", ".."} & set(source.removeprefix(root).split("/"))


def judged_separately(request: RuleRequest, *, place: str) -> tuple[RuleConfiguration, ...]:
    """Return the rules from files that get processing jobs of their own.

    Only files below `place` are run. At most `MOST_JOBS` rules are returned, for each job costs an instance. A rule
    with a name that is too long for an environment variable is left out.
    """
    found = [
        rule
        for rule in request.rules
        if rule.custom is not None
        and lies_below(rule.custom.source, place)
        and max(len(rule.name), len(rule.custom.class_name)) <= MOST_VALUE_CHARACTERS
    ]
    return tuple(found[:MOST_JOBS])


def job_variables(job: TrainingJob) -> dict[str, str]:
    """Return the variables that name the judged training job in the Environment of a processing job."""
    created_at = {JOB_CREATED_AT: str(job.created_at)} if job.created_at else {}
    continues = {JOB_CONTINUES: job.continues} if job.continues else {}
    return {JOB_NAME: job.name, JOB_ARN: job.arn, **created_at, **continues}


def job_in(environment: Mapping[str, object]) -> TrainingJob:
    """Return the training job that `job_variables` named; with empty texts, one that is not named."""
    names = (JOB_NAME, JOB_ARN, JOB_CREATED_AT, JOB_CONTINUES)
    name, arn, created_at, continues = (str(environment.get(key) or "") for key in names)
    second = int(created_at) if created_at.isdecimal() and len(created_at) < 12 else 0
    return TrainingJob(name, arn, second, continues)


@dataclass(frozen=True)
class CustomRuleJob:
    """The order to judge one rule from a file in one run.

    training_job   the job that is judged
    run_uri        location of its run
    configuration  name of the rule's configuration
    rule           name of the rule's class
    actions        actions to carry out on an issue
    place          s3:// prefix below which files of rules may be run
    """

    training_job: TrainingJob
    run_uri: str
    configuration: str
    rule: str
    actions: tuple[Action, ...] = ()
    place: str = ""

    def to_environment(self) -> dict[str, str]:
        """Return the Environment of the processing job.

        The rule's parameters stay in the run's request, for they may be too long for a variable.
        """
        return {
            RUN: self.run_uri,
            CONFIGURATION: self.configuration,
            RULE: self.rule,
            ACTIONS: ",".join(action.value for action in self.actions),
            PLACE: self.place,
            **job_variables(self.training_job),
        }

    @classmethod
    def from_environment(cls, environment: Mapping[str, object]) -> CustomRuleJob | None:
        """Return the job that `to_environment` described, or None for the environment of another job."""
        given = {str(name): value for name, value in environment.items() if isinstance(value, str)}
        if not all(given.get(name) for name in (RUN, CONFIGURATION, JOB_NAME, JOB_ARN)):
            return None
        known = {action.value: action for action in Action}
        return cls(
            training_job=job_in(given),
            run_uri=given[RUN],
            configuration=given[CONFIGURATION],
            rule=given.get(RULE, ""),
            actions=tuple(known[word] for word in given.get(ACTIONS, "").split(",") if word in known),
            place=given.get(PLACE, ""),
        )


def issue_sentence(*, configuration: str, step: int, message: str, severity: Severity | None = None) -> str:
    """Return the exit message of a job that found an issue, in the form of AWS's own rule containers."""
    met = f"Evaluation of the rule {configuration} at step {step} resulted in the condition being met."
    grave = f" Severity: {severity.value}." if severity else ""
    return f"{ISSUE_PREFIX}{met}{grave} {message}"


@dataclass(frozen=True)
class Ending:
    """The result of such a job for its rule. `step` is the step of the issue, 0 if unknown."""

    status: RuleEvaluationStatus
    details: str
    severity: Severity
    step: int = 0

    def carried_out(self, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        """Return the actions that the severity allows.

        Only a critical issue stops a run, and an issue of severity INFO notifies nobody.
        """
        stops = tuple(action for action in Action if action.unit.stops)
        refused = {Severity.CRITICAL: (), Severity.WARNING: stops, Severity.INFO: (*stops, Action.NOTIFY)}[
            self.severity
        ]
        return tuple(action for action in actions if action not in refused)


def read_ending(*, job_status: str, exit_message: str, failure_reason: str, configuration: str) -> Ending | None:
    """Return the result of a job, or None while it runs.

    A job that neither found an issue nor ruled one out ends in ERROR, never in "no issue".
    """
    if job_status not in {"Completed", "Failed", "Stopped"}:
        return None
    if exit_message.startswith(ISSUE_PREFIX):
        return _issue(exit_message, configuration)
    if job_status == "Failed" and not exit_message:
        code = _EXIT_CODE.search(failure_reason)
        unheard = _unheard(int(code["code"])) if code else None
        if unheard:
            return unheard
    details = exit_message or failure_reason
    if job_status == "Completed" and exit_message.startswith(CLEAN_PREFIX):
        return Ending(RuleEvaluationStatus.NO_ISSUES_FOUND, details, Severity.INFO)
    return Ending(RuleEvaluationStatus.ERROR, details or f"Its job is {job_status} without a word.", Severity.WARNING)


def _unheard(code: int) -> Ending | None:
    """Return the result of a job that could not write its message; None for the code of another end."""
    why = "The container could not write its exit message; the verdict stands in the log of its processing job."
    if code == CLEAN_CODE:
        return Ending(RuleEvaluationStatus.NO_ISSUES_FOUND, f"{CLEAN_PREFIX}. {why}", Severity.INFO)
    found = {number: severity for severity, number in ISSUE_CODES.items()}.get(code)
    return Ending(RuleEvaluationStatus.ISSUES_FOUND, f"An issue was found. {why}", found) if found else None


def _issue(exit_message: str, configuration: str) -> Ending:
    rest = exit_message.removeprefix(ISSUE_PREFIX).removeprefix(f"Evaluation of the rule {configuration}")
    met = _MET.match(rest)
    known = {severity.value: severity for severity in Severity}
    severity = known.get((met["severity"] or "") if met else "", Severity.CRITICAL)
    # A step of more digits than any has is nonsense, and int() of it would be slow.
    step = int(met["step"]) if met and len(met["step"]) < 19 else 0
    message = rest[met.end() :].strip() if met else ""
    return Ending(RuleEvaluationStatus.ISSUES_FOUND, message or exit_message, severity, step)
