"""Stores the end marker of a run, for the job that the run is judged for."""

from __future__ import annotations

from collections.abc import Mapping

from botocore.exceptions import ClientError

from lambdas.finish_run.logic import MarkEnd
from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing

MOST_BYTES = 1024


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
