"""DynamoDB's transactions without moto's copy of the whole table for each of them, which grows with the square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moto.dynamodb.comparisons import get_filter_expression
from moto.dynamodb.exceptions import TransactionCanceledException


def transact_write_items(backend: Any, transact_items: Sequence[Mapping[str, Any]]) -> None:
    """All puts or none, by moto's own reading of their conditions. Transactions of anything but puts are not known."""
    puts = [item["Put"] for item in transact_items]
    refusals = [_refusal(backend, put) for put in puts]
    if any(code for code, _, _ in refusals):
        raise TransactionCanceledException(refusals)
    for put in puts:
        backend.put_item(put["TableName"], put["Item"])


def _refusal(backend: Any, put: Mapping[str, Any]) -> tuple[str | None, str | None, None]:
    table = backend.get_table(put["TableName"])
    key = {name: put["Item"][name] for name in (table.hash_key_attr, table.range_key_attr)}
    names, values = put.get("ExpressionAttributeNames"), put.get("ExpressionAttributeValues")
    condition = get_filter_expression(put["ConditionExpression"], names, values)
    if condition.expr(backend.get_item(put["TableName"], key)):
        return None, None, None
    return "ConditionalCheckFailed", "The conditional request failed", None
