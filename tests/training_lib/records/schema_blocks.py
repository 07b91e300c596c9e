"""Schemas as tests read them, without the reader's cache."""

from __future__ import annotations

from trackside.records.block_file import Block
from trackside.records.statistics_segment import Schema, inflate_schema, parse_schema


def read_schema(block: Block, *, key: str) -> tuple[int, Schema]:
    """Return the id of a schema, and the schema."""
    return parse_schema(inflate_schema(block, key=key), key=key, offset=block.offset)
