"""Last signs of life of evaluators: each stores its progress every few minutes, even if nothing is new."""

from __future__ import annotations

from lambdas.shared.clients import client
from lambdas.shared.runs import split_uri
from trackside.contracts.run_layout import PROGRESS_KEY, RULE_OUTPUT, RunLocation

DEEPEST = 2  # <rule>/progress.json


def signs_of_life(run: RunLocation) -> list[float]:
    """Return the last sign of each evaluator that the run has or had, in seconds since the epoch.

    The times stand in the list of objects, so nothing need be read.
    """
    bucket, prefix = split_uri(run)
    folder = f"{prefix}/{RULE_OUTPUT}/"
    pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder)
    return [
        float(found["LastModified"].timestamp())
        for page in pages
        for found in page.get("Contents", ())
        if _is_progress(found["Key"].removeprefix(folder))
    ]


def _is_progress(key: str) -> bool:
    parts = key.split("/")
    return parts[-1] == PROGRESS_KEY and len(parts) <= DEEPEST
