"""A write to a run becomes news of that run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from benchmarks.fleet_kills import create_lease_table
from lambdas.note_news.handler import handle
from trackside.contracts.deployment.lease import NewsRecord


def written(key: str, bucket: str = "runs-bucket") -> dict[str, Any]:
    """As S3 tells EventBridge: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html"""
    detail = {"version": "0", "bucket": {"name": bucket}, "object": {"key": key, "size": 5}, "reason": "PutObject"}
    return {"id": "1", "source": "aws.s3", "detail-type": "Object Created", "detail": detail}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TRACKSIDE_LEASE_TABLE", "leases")
    with mock_aws():
        client = boto3.client("dynamodb")
        create_lease_table(client, "leases")
        yield client


def test_the_latest_news_stays(table: Any, deliver: Callable[..., list[str]]) -> None:
    assert (
        deliver(handle, written("a/watermarks/1"), written("a/watermarks/2"), written("b/debug-output/index/3")) == []
    )
    items = table.scan(TableName="leases")["Items"]
    assert sorted(NewsRecord.from_item(item).run_uri for item in items) == ["s3://runs-bucket/a", "s3://runs-bucket/b"]
    assert all("shelf" not in item and int(item["expires_at"]["N"]) > 0 for item in items)
