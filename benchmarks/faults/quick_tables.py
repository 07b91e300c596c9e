"""moto's DynamoDB without what grows with the square: for each transaction it copies the whole table, for each query it
sorts it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from moto.dynamodb.comparisons import get_filter_expression
from moto.dynamodb.exceptions import TransactionCanceledException
from moto.dynamodb.models.table import Table

_query = Table.query
_SIGNATURE = inspect.signature(_query)


def transact_write_items(backend: Any, transact_items: Sequence[Mapping[str, Any]]) -> None:
    """All puts or none, by moto's own reading of their conditions. Transactions of anything but puts are not known."""
    puts = [item["Put"] for item in transact_items]
    refusals = [_refusal(backend, put) for put in puts]
    if any(code for code, _, _ in refusals):
        raise TransactionCanceledException(refusals)
    for put in puts:
        backend.put_item(put["TableName"], put["Item"])


def query(table: Table, *others: Any, **more: Any) -> Any:
    """moto's own query, in a table of the items that can be meant."""
    arguments = _SIGNATURE.bind(table, *others, **more).arguments
    hash_key, index = arguments["hash_key"], arguments.get("index_name")
    narrow = copy.copy(table)
    if index is None:
        narrow.items = {hash_key: items} if (items := table.items.get(hash_key)) else {}
    else:
        schema = table.get_index(index).schema
        (attribute,) = (key["AttributeName"] for key in schema if key["KeyType"] == "HASH")
        narrow.items = {
            name: found
            for name, items in table.items.items()
            if (found := {key: item for key, item in items.items() if _has(item, attribute, hash_key)})
        }
    return _query(narrow, *others, **more)


def _has(item: Any, attribute: str, value: Any) -> bool:
    return attribute in item.attrs and item.attrs[attribute] == value


def _refusal(backend: Any, put: Mapping[str, Any]) -> tuple[str | None, str | None, None]:
    table = backend.get_table(put["TableName"])
    key = {name: put["Item"][name] for name in (table.hash_key_attr, table.range_key_attr)}
    names, values = put.get("ExpressionAttributeNames"), put.get("ExpressionAttributeValues")
    condition = get_filter_expression(put["ConditionExpression"], names, values)
    if condition.expr(backend.get_item(put["TableName"], key)):
        return None, None, None
    return "ConditionalCheckFailed", "The conditional request failed", None
