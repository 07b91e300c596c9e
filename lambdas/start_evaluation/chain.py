"""The successor of an ended evaluator: the next link of its chain, another attempt, or a message to people.

The settings of the ended one are read from its event. Only start_evaluation may pass the evaluators' role, so a
processing job with that role is ours, and so is its environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lambdas.shared.decisions import Nothing
from lambdas.shared.processing_jobs import evaluator_name
from lambdas.start_evaluation.logic import StartEvaluation, processing_job_request
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.deployment.custom_rule_job import CONFIGURATION, JOB_ARN, JOB_NAME, RUN, job_in
from trackside.contracts.deployment.evaluator_ending import EndKind, EvaluatorEnding, ending_key
from trackside.contracts.deployment.evaluators import (
    CONTINUED_PREFIX,
    LINK,
    MAX_RUNTIME,
    MOST_LINKS,
    MOST_RESTARTS,
    RESTARTS,
)
from trackside.contracts.event import REPEATED_SOURCE, TERMINAL_JOB_STATUSES, detail_of, moment
from trackside.contracts.run_layout import RunLocation

# Exit codes of the evaluator (trackside.evaluation.exit_codes) that another attempt would repeat: the request is wrong,
# a rule raises. Verdicts that the bus did not take lie in the run, and the next evaluator delivers them.
FINAL_EXIT_CODES = frozenset({2, 5})
RAN_OUT_SHARE = 0.95  # of its time: SageMaker ended it; no field of the event names that

_EXIT_CODE = re.compile(r"exit code: (?P<code>\d+)")


ReadNote = Callable[[RunLocation, str], EvaluatorEnding | None]


@dataclass(frozen=True)
class EvaluatorEnd:
    """The content of an event about a processing job. Moments are in seconds since the epoch; 0: not given.

    With `is_repeated`, the event comes from a sweep and not from SageMaker.
    """

    name: str
    status: str
    role_arn: str
    environment: Mapping[str, str]
    exit_message: str = ""
    failure_reason: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    max_runtime_seconds: int = 0
    is_repeated: bool = False

    @property
    def ran_out_of_time(self) -> bool:
        """True if SageMaker ended it at its limit, with any status."""
        ran = self.ended_at - self.started_at
        known = bool(self.started_at and self.ended_at and self.max_runtime_seconds)
        return self.status != "Completed" and known and ran >= RAN_OUT_SHARE * self.max_runtime_seconds

    @property
    def will_repeat(self) -> bool:
        """True if another attempt would end in the same way."""
        code = _EXIT_CODE.search(self.failure_reason)
        return code is not None and int(code["code"]) in FINAL_EXIT_CODES

    def counted(self, variable: str, default: int) -> int:
        """Return a number of its environment."""
        text = self.environment.get(variable, "")
        return int(text) if text.isdigit() and len(text) < 9 else default


@dataclass(frozen=True)
class GiveUp:
    """The decision to report that the training job, or one of its rules, is no longer watched."""

    reason: str


def read_end(event: Mapping[str, Any]) -> EvaluatorEnd:
    """Return the content of the event. Errors: `ConfigurationError` for an event of another shape."""
    fields = detail_of(event)
    stopping = fields.mapping("StoppingCondition", {}) if fields.is_object("StoppingCondition") else {}
    given = fields.mapping("Environment", {}) if fields.is_object("Environment") else {}
    limit = stopping.get("MaxRuntimeInSeconds", 0)
    end = EvaluatorEnd(
        name=fields.text("ProcessingJobName"),
        status=fields.text("ProcessingJobStatus"),
        role_arn=fields.text("RoleArn", ""),
        environment={str(name): value for name, value in given.items() if isinstance(value, str)},
        exit_message=fields.text("ExitMessage", ""),
        failure_reason=fields.text("FailureReason", ""),
        started_at=moment(fields, "ProcessingStartTime"),
        ended_at=moment(fields, "ProcessingEndTime"),
        max_runtime_seconds=int(limit) if isinstance(limit, int | float) else 0,
        is_repeated=event.get("source") == REPEATED_SOURCE,
    )
    fields.finish(subject=f"The event {event.get('id', '')!r}")
    return end


@dataclass(frozen=True)
class NotifyOwner:
    """The decision to notify the owner that no rule could judge the run: the event of the end does not contain that."""

    reason: str


def decide_next(
    end: EvaluatorEnd, settings: StartEvaluationSettings, *, read_note: ReadNote
) -> StartEvaluation | GiveUp | NotifyOwner | Nothing:
    """Return the successor, if more is to be judged.

    Its name follows from this one's place in the chain, so that an event delivered twice starts one job.

    Args:
        end: The end of an evaluator.
        settings: Those of the function.
        read_note: Returns the note in a run, at a key within `rule-output`; None without one.
    """
    if end.role_arn != settings.role_arn or not all(end.environment.get(name) for name in (RUN, JOB_NAME, JOB_ARN)):
        return Nothing(f"{end.name} is none of our evaluators.", surprising=True)
    if end.status not in TERMINAL_JOB_STATUSES:
        return Nothing(f"{end.name} is {end.status}.")
    if end.exit_message.startswith(CONTINUED_PREFIX) or end.ran_out_of_time:
        return _successor(end, settings, restarts=0)
    if end.status == "Failed":
        return _after_failure(end, settings)
    if end.status == "Completed" and not end.exit_message:
        return _after_silence(end, settings, read_note)
    was_stopped = end.status == "Stopped"
    what = "was stopped by somebody, so nothing takes its place" if was_stopped else "has done its work"
    return Nothing(f"{end.name} {what}.", surprising=was_stopped)


def _after_silence(
    end: EvaluatorEnd, settings: StartEvaluationSettings, read_note: ReadNote
) -> StartEvaluation | GiveUp | NotifyOwner | Nothing:
    """Decide by the note in the run: the container could not write its exit message."""
    job, run = job_in(end.environment), RunLocation(end.environment[RUN])
    note = read_note(run, ending_key(end.environment.get(CONFIGURATION, "")))
    if note is None or not note.is_of(job, link=end.counted(LINK, 1)):
        return _after_failure(end, settings)  # it may have left something to judge
    if note.kind is EndKind.CONTINUED:
        return _successor(end, settings, restarts=0)
    if note.kind is EndKind.NOTHING_JUDGED:
        return NotifyOwner(note.message)
    return Nothing(f"{end.name} has done its work: {note.message}")


def _after_failure(end: EvaluatorEnd, settings: StartEvaluationSettings) -> StartEvaluation | GiveUp | Nothing:
    restarts = end.counted(RESTARTS, 0)
    if end.will_repeat or restarts >= MOST_RESTARTS:
        return _give_up(end)
    return _successor(end, settings, restarts=restarts + 1)


def _successor(
    end: EvaluatorEnd, settings: StartEvaluationSettings, *, restarts: int
) -> StartEvaluation | GiveUp | Nothing:
    link = end.counted(LINK, 1) + 1
    if link > MOST_LINKS:
        return _give_up(end)
    job, run = job_in(end.environment), RunLocation(end.environment[RUN])
    name = evaluator_name(job, configuration=end.environment.get(CONFIGURATION, ""), link=link)
    environment = {name: value for name, value in end.environment.items() if name not in (LINK, RESTARTS)}
    environment |= {LINK: str(link), MAX_RUNTIME: str(settings.max_runtime_seconds)}
    if restarts:
        environment[RESTARTS] = str(restarts)
    image_uri, role_arn = settings.image_uri, settings.role_arn
    request = processing_job_request(name, job, run, environment, settings, image_uri=image_uri, role_arn=role_arn)
    return StartEvaluation(name, job, run, request, reason=_why(end))


def _give_up(end: EvaluatorEnd) -> GiveUp | Nothing:
    job = end.environment.get(JOB_NAME, "")
    reason = f"{job} is no longer watched by {end.name}: {_why(end)}"
    # People were notified when it ended.
    return Nothing(reason) if end.is_repeated else GiveUp(reason)


def _why(end: EvaluatorEnd) -> str:
    if end.exit_message.startswith(CONTINUED_PREFIX):
        return end.exit_message
    if end.ran_out_of_time:
        return f"its time was over ({end.max_runtime_seconds} s)."
    return f"{end.failure_reason} {end.exit_message}".strip() or f"it is {end.status}, without a word."
