"""Who is watched: jobs that say so by their tags or, where the deployment wants it, by their environment or name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import find_run
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import TrainingJobStateChange
from trackside.contracts.job_choice import (
    RUN_TAG,
    STATUS_ONLY,
    UNWATCHED,
    WATCH_TAG,
    JobChoice,
    choice_in_environment,
    choice_in_tags,
)
from trackside.contracts.run_layout import RunLocation

AskEnvironment = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class Watched:
    """A job that is watched, where its run lies, and what it chose. `change` has the tags that hold for it, of which
    it does not carry `new_tags` yet. With `is_status_only` no rule judges it."""

    change: TrainingJobStateChange
    run: RunLocation
    choice: JobChoice
    new_tags: Mapping[str, str]

    @property
    def is_status_only(self) -> bool:
        """True if only its states are recorded."""
        return self.choice.watch == STATUS_ONLY


@dataclass(frozen=True)
class WrongPlace:
    """A job that wants to be watched, and why it cannot be."""

    change: TrainingJobStateChange
    reason: str


def who_is_watched(
    change: TrainingJobStateChange, settings: StartEvaluationSettings, *, environment_of_job: AskEnvironment
) -> Watched | WrongPlace | Nothing:
    """Tags come first, then the environment, then the name. `environment_of_job` asks SageMaker, and is called for a
    running job without the tag only, and only where the deployment watches by environment."""
    name, tagged = change.job.name, choice_in_tags(change.tags)
    if change.status != "InProgress":
        return Nothing(f"{name} is {change.status}, so there is nothing to watch.")
    if tagged.watch == UNWATCHED:
        return Nothing(f"{name} is tagged {WATCH_TAG}={UNWATCHED}.")
    choice = tagged if tagged.run else _of_untagged(name, tagged, settings, environment_of_job)
    if isinstance(choice, Nothing):
        return choice
    known = replace(change, tags={**change.tags, RUN_TAG: choice.run})
    run = find_run(known, bucket=settings.run_bucket)
    if isinstance(run, Nothing):
        return WrongPlace(change, run.reason)
    return Watched(known, run, choice, _new_tags(change, run, choice))


def _of_untagged(
    name: str, tagged: JobChoice, settings: StartEvaluationSettings, environment_of_job: AskEnvironment
) -> JobChoice | Nothing:
    if _matches(name, settings.unwatched_jobs):
        return Nothing(f"{name} is not watched (unwatched_jobs).")
    said = choice_in_environment(environment_of_job()) if settings.watch_by_environment else JobChoice()
    choice = tagged.filled_up(said)
    if choice.watch == UNWATCHED:
        return Nothing(f"{name} does not want to be watched, as its environment says.")
    if choice.run:
        return choice
    if _matches(name, settings.watched_jobs):
        return replace(choice, run=settings.untagged_runs)
    return Nothing(f"{name} carries no tag {RUN_TAG}, so it did not ask for Trackside.")


def _new_tags(change: TrainingJobStateChange, run: RunLocation, choice: JobChoice) -> dict[str, str]:
    """With the place of its run a job is from now on like any that was tagged from the start: whatever follows it
    finds its run. Nothing is changed that the job carries already."""
    if RUN_TAG in change.tags:
        return {}
    return {RUN_TAG: run.uri, **({WATCH_TAG: STATUS_ONLY} if choice.watch == STATUS_ONLY else {})}


def _matches(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns.split(",") if pattern)
