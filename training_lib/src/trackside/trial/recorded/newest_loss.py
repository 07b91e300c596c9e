"""The newest loss in a statistics segment, without the rest of the run."""

from __future__ import annotations

import re

import numpy as np

from trackside.contracts.errors import RecordError
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
                    newest = _last_loss(rows, schemas[rows.schema_id], newest)
    except RecordError:  # the evaluator reports damage
        return newest
    return newest


def _last_loss(rows: Rows, schema: Schema, before: float | None) -> float | None:
    places = [
        place
        for place, column in enumerate(schema.columns)
        if column.statistic == "mean" and _LOSS.search(column.tensor) and "/" not in column.tensor
    ]
    if not places:
        return before
    table = np.frombuffer(rows.body, schema.dtype(has_holes=rows.has_holes))
    values, measured = column_of(table, schema, places[0])
    is_known = table["mode"] == _TRAIN
    if measured is not None:
        is_known &= measured
    return float(values[is_known][-1]) if is_known.any() else before
