"""The place of the end marker of a run, so that its evaluator judges the rest and ends."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.finish_run.settings import FinishRunSettings
from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import find_run, split_uri
from trackside.contracts.event import TrainingJob, TrainingJobStateChange, job_of_identity
from trackside.contracts.job_choice import RUN_TAG, choice_in_tags
from trackside.contracts.run_layout import END_MARKER_KEY, RULE_OUTPUT, TENSORS, TRAINING_JOB_KEY


@dataclass(frozen=True)
class MarkEnd:
    """The decision to store the end marker of a job, unless the run is another job's or has its marker.

    - `bucket`, `key`: place of the marker
    - `owner_key`: place of the identity of the job that the run is judged for
    - `job`: the ended job, whose identity is the marker's content
    """

    bucket: str
    key: str
    owner_key: str
    job: TrainingJob

    def may_follow(self, owner: bytes) -> bool:
        """Return True if the run is judged for the job, or for none yet. `owner`: content at `owner_key`; b"": none."""
        return not owner or job_of_identity(owner.decode("utf-8", errors="replace")).is_same_as(self.job)

    def may_replace(self, marker: bytes) -> bool:
        """Return True for the marker of another job. The program's own, which is empty, is left alone."""
        text = marker.decode("utf-8", errors="replace")
        return text.startswith("arn:") and not job_of_identity(text).is_same_as(self.job)


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
    owner_key = f"{prefix}/{RULE_OUTPUT}/{TRAINING_JOB_KEY}"
    return MarkEnd(bucket, f"{prefix}/{TENSORS}/{END_MARKER_KEY}", owner_key, change.job)
