"""When an evaluator was last seen alive: it stores how far it has come every few minutes, even if nothing is new."""

from __future__ import annotations

from lambdas.shared.clients import client
from lambdas.shared.runs import split_uri
from trackside.contracts.run_layout import PROGRESS_KEY, RULE_OUTPUT, RunLocation


def last_sign_of_life(run: RunLocation) -> float:
    """In seconds since the epoch; 0: never. The list says when, so nobody need read what rules said."""
    bucket, prefix = split_uri(run)
    key = f"{prefix}/{RULE_OUTPUT}/{PROGRESS_KEY}"
    answer = client("s3").list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    for found in answer.get("Contents", ()):
        if found["Key"] == key:
            return float(found["LastModified"].timestamp())
    return 0.0
