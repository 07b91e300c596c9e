"""The run that was written to, from the key of an object in the bucket of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lambdas.shared.decisions import Nothing
from trackside.contracts.deployment.lease import NewsRecord
from trackside.contracts.fields import Fields
from trackside.contracts.run_layout import TENSORS, WATERMARKS

LONGEST_URI = 256  # of a run: find_run takes no longer one


def decide(event: Mapping[str, Any], *, now: float) -> NewsRecord | Nothing:
    """Return the news in S3's `Object Created`. A run's name may hold the words of the layout: the last place counts.

    Errors: `ConfigurationError` for an event of another shape.
    """
    fields = Fields(event.get("detail"), where="detail")
    bucket = Fields(fields.mapping("bucket"), where="detail.bucket", problems=fields.problems).text("name")
    key = Fields(fields.mapping("object"), where="detail.object", problems=fields.problems).text("key")
    fields.finish(subject=f"The event {event.get('id', '')!r}")
    prefix = max((key.rpartition(f"/{folder}/")[0] for folder in (TENSORS, WATERMARKS)), key=len)
    uri = f"s3://{bucket}/{prefix}"
    if not prefix or len(uri) > LONGEST_URI:
        return Nothing(f"s3://{bucket}/{key} belongs to no run.")
    return NewsRecord(uri, now)
