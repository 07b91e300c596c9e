"""moto's DynamoDB without what takes most of its time. For each transaction it copies the whole table, for each query
it sorts it; answers go through a serializer for all protocols, and each expression is cut into tokens twice."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any
from unittest import mock

from moto.core.responses import ActionContext, ActionResult
from moto.dynamodb.comparisons import get_filter_expression
from moto.dynamodb.exceptions import TransactionCanceledException
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing.tokens import ExpressionTokenizer

_query, _execute_result = Table.query, ActionResult.execute_result
_OF_ITEMS = ("BatchGetItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem")
_SIGNATURE = inspect.signature(_query)


@contextmanager
def quick_tables() -> Iterator[None]:
    """Make moto's tables quick, in this process."""
    with ExitStack() as stack:
        for owner, name, quick in (
            (DynamoDBBackend, "transact_write_items", transact_write_items),
            (Table, "query", query),
            (ActionResult, "execute_result", execute_result),
            (ExpressionTokenizer, "make_list", staticmethod(lru_cache(ExpressionTokenizer.make_list))),
        ):
            stack.enter_context(mock.patch.object(owner, name, quick))
        yield


def execute_result(answer: ActionResult, context: ActionContext) -> Any:
    """Return code, headers and body of an answer. That of a table is nearly JSON; others take moto's own way."""
    is_of_items = context.service_model.service_name == "dynamodb" and context.operation_model.name in _OF_ITEMS
    if not is_of_items or isinstance(answer.result, Exception):
        return _execute_result(answer, context)
    return 200, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(_plain(answer.result))


def _plain(value: Any) -> Any:
    if isinstance(value, DynamoType):
        return {value.type: _plain(value.value)}
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple, set)) else value


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
