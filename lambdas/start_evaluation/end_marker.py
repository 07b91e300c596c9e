"""The end marker of a run: an evaluator judges the rest and ends. A killed job could not store it itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.runs import find_run, split_uri
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import TrainingJob, TrainingJobStateChange, job_of_identity
from trackside.contracts.job_choice import RUN_TAG, choice_in_tags
from trackside.contracts.run_layout import END_MARKER_KEY, RULE_OUTPUT, TENSORS, TRAINING_JOB_KEY

MOST_BYTES = 1024


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


def decide_end(change: TrainingJobStateChange, settings: StartEvaluationSettings) -> MarkEnd | Nothing:
    """Return the marker for the run of a tagged job that will never write again."""
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


def mark(end: MarkEnd) -> Done | Nothing:
    """Store the marker unless the run is another job's or has its marker. Errors: `ClientError`."""
    where = f"s3://{end.bucket}/{end.key}"
    owner, _ = _read(end.bucket, end.owner_key)
    if not end.may_follow(owner):
        return Nothing(
            f"{where} is not marked: the run is judged for another job than {end.job.name}.", surprising=True
        )
    if _put(end, {"IfNoneMatch": "*"}):
        return Done(f"Marked the end of the run: {where}.")
    marker, tag = _read(end.bucket, end.key)
    if end.may_replace(marker) and _put(end, {"IfMatch": tag}):
        return Done(f"Marked the end of the run, in place of another job's marker: {where}.")
    return Nothing(f"{where} lies there.")


def _put(end: MarkEnd, condition: Mapping[str, str]) -> bool:
    """Store the marker. Return False if the run has one, or gets one from another delivery at this moment."""
    try:
        client("s3").put_object(Bucket=end.bucket, Key=end.key, Body=end.job.identity.encode(), **condition)
    except ClientError as error:
        if code_of(error) not in {"PreconditionFailed", "ConditionalRequestConflict"}:
            raise
        return False
    return True


def _read(bucket: str, key: str) -> tuple[bytes, str]:
    """Return (content, tag) of a small object; (b"", "") without one."""
    try:
        answer = client("s3").get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if code_of(error) != "NoSuchKey":
            raise
        return b"", ""
    return answer["Body"].read(MOST_BYTES), answer["ETag"]
