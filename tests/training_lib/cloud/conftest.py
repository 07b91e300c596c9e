"""An account in this process that holds a table of runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from trackside.cloud.run_table import RunTable
from trackside.contracts.deployment.run_table import SHELVES

NOW = 1_795_226_674.0  # 2026-11-21 02:04:34 UTC


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTable]:
    """An empty table, as the stack makes it."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "TRACKSIDE_"))]:  # noqa: TID251  cleaning it
        monkeypatch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        make_run_table()
        yield RunTable("runs", clock=lambda: NOW)


def make_run_table() -> None:
    """Make the table `runs` in the account of this process, as the stack does."""
    keys = (("pk", "HASH", "S"), ("sk", "RANGE", "S"), ("shelf", "HASH", "S"), ("created_at", "RANGE", "N"))
    schema = [{"AttributeName": name, "KeyType": kind} for name, kind, _ in keys]
    boto3.client("dynamodb").create_table(
        TableName="runs",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, _, kind in keys],
        KeySchema=schema[:2],
        GlobalSecondaryIndexes=[
            {"IndexName": SHELVES, "KeySchema": schema[2:], "Projection": {"ProjectionType": "ALL"}}
        ],
        BillingMode="PAY_PER_REQUEST",
    )


@pytest.fixture
def put(table: RunTable) -> Any:
    """`put(*records)` writes them into the table."""

    def write(*records: Any) -> None:
        for record in records:
            boto3.client("dynamodb").put_item(TableName=table.name, Item=record.to_item(expires_at=None))

    return write
