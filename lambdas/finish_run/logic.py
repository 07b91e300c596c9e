"""Where the end of a run is to be marked, so that its evaluator judges the rest and ends."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.finish_run.settings import FinishRunSettings
from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import find_run, split_uri
from trackside.contracts.event import TrainingJobStateChange
from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS


@dataclass(frozen=True)
class MarkEnd:
    """Put an empty end marker there, unless one lies there."""

    bucket: str
    key: str


def decide(change: TrainingJobStateChange, settings: FinishRunSettings) -> MarkEnd | Nothing:
    """Marks the run of a tagged job that will never write again: one that was killed could not do so itself."""
    if not change.has_ended:
        return Nothing(f"{change.job.name} is {change.status}, it may still write.")
    run = find_run(change, bucket=settings.run_bucket, spoke_accounts=settings.spoke_accounts)
    if isinstance(run, Nothing):
        return run
    bucket, prefix = split_uri(run)
    return MarkEnd(bucket, f"{prefix}/{TENSORS}/{END_MARKER_KEY}")
