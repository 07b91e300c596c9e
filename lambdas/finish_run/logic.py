"""The place of the end marker of a run, so that its evaluator judges the rest and ends."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.finish_run.settings import FinishRunSettings
from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import find_run, split_uri
from trackside.contracts.event import TrainingJobStateChange
from trackside.contracts.job_choice import RUN_TAG, choice_in_tags
from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS


@dataclass(frozen=True)
class MarkEnd:
    """The decision to store an empty end marker, unless the run has one."""

    bucket: str
    key: str


def decide(change: TrainingJobStateChange, settings: FinishRunSettings) -> MarkEnd | Nothing:
    """Return the marker for the run of a tagged job that will never write again.

    A killed job could not store it itself.
    """
    if not change.has_ended:
        return Nothing(f"{change.job.name} is {change.status}, it may still write.")
    if RUN_TAG in change.tags and not choice_in_tags(change.tags).is_judged:
        return Nothing(f"{change.job.name} is judged by no rule, so nothing waits for its end.")
    run = find_run(change, bucket=settings.run_bucket, spoke_accounts=settings.spoke_accounts)
    if isinstance(run, Nothing):
        return run
    bucket, prefix = split_uri(run)
    return MarkEnd(bucket, f"{prefix}/{TENSORS}/{END_MARKER_KEY}")
