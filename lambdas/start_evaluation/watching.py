"""The watched jobs: by their tag or, if the deployment allows it, by their environment or their name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import account_of, find_run
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import TrainingJob, TrainingJobStateChange
from trackside.contracts.job_choice import (
    RUN_TAG,
    STATUS_ONLY,
    UNWATCHED,
    WATCH_TAG,
    JobChoice,
    choice_in_environment,
    choice_in_tags,
    is_tag_value,
)
from trackside.contracts.run_layout import RunLocation

ReadEnvironment = Callable[[], Mapping[str, str]]

# A bucket that a deployment made: the name of its stack, of the bucket in it, and what CloudFormation rolled.
_MADE_BUCKET = re.compile(r"(?P<stem>trackside[a-z0-9-]*-runs[0-9a-f]{8})-[a-z0-9]+")


@dataclass(frozen=True)
class Watched:
    """A watched job.

    - `change`: its state change, with all tags that hold for it
    - `run`: the address of its run
    - `choice`: its choice of rules
    - `new_tags`: the tags that it does not carry yet
    """

    change: TrainingJobStateChange
    run: RunLocation
    choice: JobChoice
    new_tags: Mapping[str, str]

    @property
    def is_status_only(self) -> bool:
        """True if only its states are recorded, and no rule judges it."""
        return self.choice.watch == STATUS_ONLY


@dataclass(frozen=True)
class WrongPlace:
    """A job that wants to be watched, and the reason why it cannot be."""

    change: TrainingJobStateChange
    reason: str


def who_is_watched(
    change: TrainingJobStateChange, settings: StartEvaluationSettings, *, environment_of_job: ReadEnvironment
) -> Watched | WrongPlace | Nothing:
    """Return the watched job, by its tags, then its environment, then its name.

    `environment_of_job` calls SageMaker, only for a running job without the tag, and only if the deployment watches by
    environment. SageMaker knows jobs by their names, so a job of another account, which may have the name of one here,
    is watched by its tag only.
    """
    name, tagged = change.job.name, choice_in_tags(change.tags)
    if change.status != "InProgress":
        return Nothing(f"{name} is {change.status}, so there is nothing to watch.")
    if tagged.watch == UNWATCHED:
        return Nothing(f"{name} is tagged {WATCH_TAG}={UNWATCHED}.")
    choice = tagged if tagged.run else _of_untagged(change.job, tagged, settings, environment_of_job)
    if isinstance(choice, Nothing):
        return choice
    if _is_of_another_deployment(choice.run, settings.run_bucket):
        return Nothing(f"{name} names {choice.run}, of another deployment in this account.")
    return _placed(change, choice, settings)


def _placed(
    change: TrainingJobStateChange, choice: JobChoice, settings: StartEvaluationSettings
) -> Watched | WrongPlace:
    known = replace(change, tags={**change.tags, RUN_TAG: choice.run})
    run = find_run(known, bucket=settings.run_bucket, spoke_accounts=settings.spoke_accounts)
    if isinstance(run, Nothing):
        return WrongPlace(change, run.reason)
    new_tags = _new_tags(change, run, choice)
    if new_tags and not is_tag_value(run.uri):
        why = f"{change.job.name} names {run.uri!r}, which no tag can hold"
        return WrongPlace(change, f"{why}: at most 256 letters, digits, blanks and _.:/=+-@")
    return Watched(known, run, choice, new_tags)


def _of_untagged(
    job: TrainingJob, tagged: JobChoice, settings: StartEvaluationSettings, environment_of_job: ReadEnvironment
) -> JobChoice | Nothing:
    name = job.name
    if account_of(job.arn) in settings.spoke_accounts:
        return Nothing(f"{name} is a job of a spoke, which is watched by its tag only.")
    if _matches(name, settings.unwatched_jobs):
        return Nothing(f"{name} is not watched (unwatched_jobs).")
    job_choice = choice_in_environment(environment_of_job()) if settings.watch_by_environment else JobChoice()
    choice = tagged.filled_up(job_choice)
    if choice.watch == UNWATCHED:
        return Nothing(f"{name} is not watched: its environment forbids it.")
    if choice.run:
        return choice
    if _matches(name, settings.watched_jobs):
        return replace(choice, run=settings.untagged_runs)
    return Nothing(f"{name} carries no tag {RUN_TAG}, so Trackside does not watch it.")


def _is_of_another_deployment(uri: str, bucket: str) -> bool:
    """Return True for a run in a bucket that another deployment made.

    A run in a bucket of an earlier deployment of this name is its owner's mistake, as in any other bucket.
    """
    judged, own = (_MADE_BUCKET.fullmatch(name) for name in (uri.removeprefix("s3://").partition("/")[0], bucket))
    return judged is not None and (own is None or judged["stem"] != own["stem"])


def _new_tags(change: TrainingJobStateChange, run: RunLocation, choice: JobChoice) -> dict[str, str]:
    """Return the tags that the job lacks: the address of its run, by which all later reactions find it.

    Tags that the job carries stay unchanged.
    """
    if RUN_TAG in change.tags:
        return {}
    return {RUN_TAG: run.uri, **({WATCH_TAG: STATUS_ONLY} if choice.watch == STATUS_ONLY else {})}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
