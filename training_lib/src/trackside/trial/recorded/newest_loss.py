"""The newest loss in a statistics segment, and the share that watching takes, without the rest of the run."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from trackside.contracts.errors import RecordError
from trackside.contracts.run.recorded_names import OVERHEAD
from trackside.records.block_file import read_blocks
from trackside.records.modes import MODE_NUMBERS
from trackside.records.statistics_segment import (
    ROWS_KIND,
    SCHEMA_KIND,
    Rows,
    Schema,
    check_rows,
    column_of,
    inflate_schema,
    parse_schema,
    read_rows,
)

_LOSS = re.compile(r"[Ll]oss")
_TRAIN = MODE_NUMBERS["TRAIN"]


def newest_loss(data: bytes, *, key: str) -> float | None:
    """Return the newest training loss in a segment; None if it holds none, or cannot be read.

    Args:
        data: The segment, or the beginning of one that grows.
        key: Its key, for messages.
    """
    return _newest(data, _is_loss, key=key)


def newest_overhead(data: bytes, *, key: str) -> float | None:
    """Return the newest share of the training's time that watching took, such as 0.02; None as above.

    Args:
        data: The segment, or the beginning of one that grows.
        key: Its key, for messages.
    """
    return _newest(data, lambda name: name == OVERHEAD, key=key)


def _is_loss(name: str) -> bool:
    return "/" not in name and _LOSS.search(name) is not None


def _newest(data: bytes, is_wanted: Callable[[str], bool], *, key: str) -> float | None:
    schemas: dict[int, Schema] = {}
    newest: float | None = None
    try:
        for block in read_blocks(data, key=key).blocks:
            if block.kind == SCHEMA_KIND:
                number, schema = parse_schema(inflate_schema(block, key=key), key=key, offset=block.offset)
                schemas[number] = schema
            elif block.kind == ROWS_KIND:
                rows = read_rows(block, key=key)
                if rows.schema_id in schemas:
                    check_rows(rows, schemas[rows.schema_id], key=key, offset=block.offset)
                    newest = _last(rows, schemas[rows.schema_id], is_wanted, newest)
    except RecordError:  # the evaluator reports damage
        return newest
    return newest


def _last(rows: Rows, schema: Schema, is_wanted: Callable[[str], bool], before: float | None) -> float | None:
    columns = enumerate(schema.columns)
    place = next((place for place, column in columns if column.statistic == "mean" and is_wanted(column.tensor)), None)
    if place is None:
        return before
    table = np.frombuffer(rows.body, schema.dtype(has_holes=rows.has_holes))
    values, measured = column_of(table, schema, place)
    is_known = table["mode"] == _TRAIN
    if measured is not None:
        is_known &= measured
    return float(values[is_known][-1]) if is_known.any() else before
