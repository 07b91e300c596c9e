"""Changes that may have been missed: differences of SageMaker and the table, and the events for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from lambdas.reconcile.settings import ReconcileSettings
from trackside.contracts.deployment.run_table import JobRecord
from trackside.contracts.event import AWS_DETAIL_TYPE, PROCESSING_DETAIL_TYPE, REPEATED_SOURCE, TrainingJob

T = TypeVar("T", bound="JobRecord | Listed")

# The fields read of a job; not its hyperparameters or its environment, which may hold secrets.
_DETAIL = (
    "TrainingJobName",
    "TrainingJobArn",
    "TrainingJobStatus",
    "SecondaryStatus",
    "FailureReason",
    "ResourceConfig",
    "StoppingCondition",
    "CreationTime",
    "TrainingStartTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "DebugRuleEvaluationStatuses",
)

# Of an evaluator: its environment holds the settings of the next in its chain, and no secret.
_PROCESSING_DETAIL = (
    "ProcessingJobName",
    "ProcessingJobArn",
    "ProcessingJobStatus",
    "ExitMessage",
    "FailureReason",
    "RoleArn",
    "Environment",
    "StoppingCondition",
    "ProcessingStartTime",
    "ProcessingEndTime",
    "CreationTime",
    "LastModifiedTime",
)


@dataclass(frozen=True)
class Listed:
    """A running training job, as ListTrainingJobs has it."""

    name: str
    arn: str
    created_at: float

    @property
    def job(self) -> TrainingJob:
        """The job."""
        return TrainingJob(self.name, self.arn, int(self.created_at))


@dataclass(frozen=True)
class Doubts:
    """Jobs with a recorded state that may be stale.

    - `may_have_ended`: recorded as running, and not listed
    - `unknown`: listed as running, and not recorded
    - `unjudged`: recorded as running, perhaps without an evaluator
    - `judged_by_debugger`: some of the jobs with statuses in SageMaker itself, others in each sweep
    - `judged_by_us`: some of the jobs with evaluators that should give signs of life, others in each sweep
    - `left`: jobs that the next sweep must look at, in words
    """

    may_have_ended: tuple[JobRecord, ...] = ()
    unknown: tuple[Listed, ...] = ()
    unjudged: tuple[JobRecord, ...] = ()
    judged_by_debugger: tuple[JobRecord, ...] = ()
    judged_by_us: tuple[JobRecord, ...] = ()
    left: tuple[str, ...] = ()


def doubts(
    held: Sequence[JobRecord],
    listed: Sequence[Listed],
    *,
    is_whole: bool,
    unwatched: Iterable[str],
    settings: ReconcileSettings,
    now: float,
) -> Doubts:
    """Return the doubts about the jobs.

    - `held`: running jobs in the table
    - `listed`: running jobs in SageMaker, newest first; all of them, if `is_whole`
    - `unwatched`: identities of jobs that are known to have requested nothing
    """
    running = {job.job.identity for job in listed} | {job.arn for job in listed}
    known = {record.job.identity for record in held} | set(unwatched)
    oldest = 0.0 if is_whole else min((job.created_at for job in listed), default=now)
    sweep = int(now // (settings.every_minutes * 60))
    due, long_ago = now - settings.grace_seconds, now - settings.silence_minutes * 60
    gone = [one for one in held if one.job.identity not in running]
    ended = [one for one in gone if one.created_at >= oldest]
    unknown = [one for one in listed if not {one.job.identity, one.arn} & known and one.created_at <= due]
    unjudged = [
        one
        for one in held
        if one.run_uri and not one.evaluator and one.job.identity in running and one.created_at <= due
    ]
    left = []
    if not is_whole:
        left.append(f"more than {len(listed)} jobs run: of older ones only what events say is known")

    def first(some: Sequence[T], what: str) -> tuple[T, ...]:
        """Return the first half of the places in the given order, and the other half by lot, so that none starves."""
        most = settings.most_described
        if len(some) <= most:
            return tuple(some)
        left.append(f"{len(some) - most} jobs that {what}")
        rest = sorted(some[most // 2 :], key=lambda one: _lot(one, sweep))
        return (*some[: most // 2], *rest[: most - most // 2])

    return Doubts(
        # The one held longest is asked about first; of running ones the newest.
        may_have_ended=first(sorted(ended, key=lambda one: one.modified_at), "may have ended"),
        unknown=first(unknown, "nothing is known of"),
        unjudged=first(sorted(unjudged, key=lambda one: -one.created_at), "may not be judged"),
        judged_by_debugger=_in_turn(
            [one for one in held if not one.run_uri and one.job.identity in running],
            most=settings.most_described,
            sweep=sweep,
        ),
        judged_by_us=_in_turn(
            [one for one in held if one.evaluator and one.job.identity in running and one.created_at <= long_ago],
            most=settings.most_looked_after,
            sweep=sweep,
        ),
        left=tuple(left),
    )


def missed_event(description: Mapping[str, Any], *, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the state change in the description of a training job, in EventBridge's form, with our tags."""
    detail = {name: _in_milliseconds(description[name]) for name in _DETAIL if name in description}
    name, status = detail["TrainingJobName"], detail["TrainingJobStatus"]
    return {
        "id": f"reconcile-{name}-{status}",
        "source": REPEATED_SOURCE,
        "detail-type": AWS_DETAIL_TYPE,
        "detail": {**detail, "Tags": dict(tags)},
    }


def missed_end(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state change in the description of a processing job, in EventBridge's form."""
    detail = {name: _in_milliseconds(description[name]) for name in _PROCESSING_DETAIL if name in description}
    return {
        "id": f"reconcile-{detail['ProcessingJobName']}-{detail['ProcessingJobStatus']}",
        "source": REPEATED_SOURCE,
        "detail-type": PROCESSING_DETAIL_TYPE,
        "detail": detail,
    }


def _lot(one: JobRecord | Listed, sweep: int) -> str:
    """Return a number that is another one in each sweep, whatever other jobs exist."""
    return hashlib.sha256(f"{sweep} {one.job.identity}".encode("utf-8", "surrogatepass")).hexdigest()


def _in_turn(some: Sequence[JobRecord], *, most: int, sweep: int) -> tuple[JobRecord, ...]:
    """Return at most `most` of the jobs, from the place where the sweep before left off."""
    first = sweep * most % len(some) if some else 0
    return (*some[first:], *some[:first])[:most]


def _in_milliseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, Mapping):
        return {name: _in_milliseconds(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_in_milliseconds(inner) for inner in value]
    return value
