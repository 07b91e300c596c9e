"""Listing S3."""

from __future__ import annotations

from smdebug import not_offered
from smdebug.core.access_layer.s3handler import ListRequest, S3Handler


def list_s3_objects(
    bucket: str, prefix: str, start_after_key: str | None = None, delimiter: str = ""
) -> tuple[list[str], str | None]:
    """Return (keys that begin with `prefix` and sort after `start_after_key`, the last of them).

    Without `start_after_key` those after the prefix itself: an object of exactly that key is not among them.
    """
    start_after = prefix if start_after_key is None else start_after_key
    keys = S3Handler.list_prefix(ListRequest(bucket, prefix, delimiter, start_after))
    return keys, keys[-1] if keys else None


__getattr__ = not_offered.attribute_of(__name__)
