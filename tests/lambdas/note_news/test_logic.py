"""Which run an event of S3 is about."""

from __future__ import annotations

from typing import Any

import pytest

from lambdas.note_news.logic import decide
from lambdas.shared.decisions import Nothing
from trackside.contracts.deployment.lease import NewsRecord
from trackside.contracts.errors import ConfigurationError


def written(key: str, bucket: str = "runs-bucket") -> dict[str, Any]:
    """As S3 tells EventBridge: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html"""
    detail = {"version": "0", "bucket": {"name": bucket}, "object": {"key": key, "size": 5}, "reason": "PutObject"}
    return {"id": "1", "source": "aws.s3", "detail-type": "Object Created", "detail": detail}


@pytest.mark.parametrize(
    ("key", "run"),
    [
        pytest.param("digits/debug-output/index/000000000/000000000001_worker_0.json", "digits", id="index"),
        pytest.param("team/digits/debug-output/packed-index/worker_0/1-2.tpi", "team/digits", id="packed index"),
        pytest.param("digits/watermarks/worker_0.json", "digits", id="watermark"),
        pytest.param("digits/debug-output/training_job_end.ts", "digits", id="the end"),
        pytest.param("debug-output/watermarks/debug-output/index/x", "debug-output/watermarks", id="words in names"),
    ],
)
def test_whose_it_is(key: str, run: str) -> None:
    assert decide(written(key), now=5.0) == NewsRecord(f"s3://runs-bucket/{run}", 5.0)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("debug-output/index/x", id="no run's name"),
        pytest.param("elsewhere/file", id="no run"),
        pytest.param(f"{'x' * 300}/watermarks/y", id="longer than a run's place may be"),
    ],
)
def test_what_belongs_to_no_run(key: str) -> None:
    assert isinstance(decide(written(key), now=5.0), Nothing)


def test_another_shape_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        decide({"detail": {"bucket": {"name": 5}, "object": {}}}, now=5.0)
