"""Statistics segments: rows of numbers about tensors, one a step, in files that describe themselves.

A segment is a file of blocks (`records.block_file`): a header, schemas (the numbers in a row) and rows. All rows of one
schema have one length, so that a reader joins them and cuts a column out with one stride.
The specification for other readers is docs/formats/statistics-segment.md.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trackside.contracts.cached_property import cached_property
from trackside.contracts.errors import RecordError
from trackside.records.block_file import HEADER_KIND, Block, encode_block
from trackside.records.untrusted_json import UntrustedJson

FORMAT = "trackside-statistics"
VERSION = 1
SCHEMA_KIND = 1
ROWS_KIND = 2

MOST_SCHEMA_BYTES = 8 << 20  # of a schema's JSON; some 100,000 columns
MOST_ROW_BYTES = 1 << 20

BIT = "bit"
# Type in a schema -> how NumPy sees it in a row.
TYPES: Mapping[str, str] = {"f8": "<f8", "f4": "<f4", "bf16": "<u2", "f2": "<f2", "i4": "<i4", "u1": "u1", BIT: "bit"}
_LARGEST: Mapping[str, float] = {
    "f4": float(np.finfo(np.float32).max),
    "bf16": float(np.uint32(0x7F7F0000).view(np.float32)),
    "f2": float(np.finfo(np.float16).max),
}
_WHOLE: Mapping[str, tuple[int, int]] = {"i4": (-(2**31), 2**31 - 1), "u1": (0, 255), BIT: (0, 1)}

_ROWS_HEAD = struct.Struct("<IIB3x")
_HAS_HOLES = 1

ROW_FIELDS = [("step", "<i8"), ("mode_step", "<i8"), ("wall_time", "<f8"), ("mode", "u1")]


@dataclass(frozen=True)
class StatisticColumn:
    """One number of a row: a statistic of a tensor (or of a named group of tensors), and its type in the file."""

    tensor: str
    statistic: str
    type: str = "f4"


@dataclass(frozen=True, eq=False)
class Schema:
    """The numbers in a row, in order.

    columns  the columns
    groups   the tensors behind a name that stands for several

    Raises:
        ValueError: No columns, the same column twice, an unknown type, or rows beyond `MOST_ROW_BYTES`.
    """

    columns: tuple[StatisticColumn, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("A schema needs a column.")
        unknown = sorted({column.type for column in self.columns} - TYPES.keys())
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a type. Types: {', '.join(TYPES)}.")
        if len({(column.tensor, column.statistic) for column in self.columns}) < len(self.columns):
            raise ValueError("A schema holds each statistic of a tensor once.")
        if self.row_bytes(has_holes=True) > MOST_ROW_BYTES:
            raise ValueError(f"A row has at most {MOST_ROW_BYTES} bytes.")

    def row_bytes(self, *, has_holes: bool = False) -> int:
        """Return the length of a row. With holes, a row has a bit for each column: measured or not."""
        return self.dtype(has_holes=has_holes).itemsize

    def dtype(self, *, has_holes: bool) -> np.dtype[np.void]:
        """Return a row's NumPy type: `ROW_FIELDS`, runs of columns of one type, `bits` and, with holes, `measured`."""
        return self._dtypes[has_holes]

    @cached_property
    def is_single_precision(self) -> bool:
        """True if float32 holds every value that a row in the file can hold."""
        return all(column.type not in {"f8", "i4"} for column in self.columns)

    @cached_property
    def positions(self) -> Mapping[tuple[str, str], int]:
        """The place of each (tensor, statistic)."""
        return {(column.tensor, column.statistic): place for place, column in enumerate(self.columns)}

    @cached_property
    def _runs(self) -> tuple[tuple[str, list[int]], ...]:
        """Neighbours of one type: (type, places); no bits."""
        found = groupby(range(len(self.columns)), key=lambda place: self.columns[place].type)
        return tuple((kind, list(places)) for kind, places in found if kind != BIT)

    @cached_property
    def _bits(self) -> list[int]:
        return [place for place, column in enumerate(self.columns) if column.type == BIT]

    @cached_property
    def _cells(self) -> Mapping[int, tuple[str, int]]:
        """The place of each column: (field of the dtype, place in it)."""
        found = {place: ("bits", nth) for nth, place in enumerate(self._bits)}
        for number, (_, places) in enumerate(self._runs):
            found.update({place: (f"run{number}", nth) for nth, place in enumerate(places)})
        return found

    @cached_property
    def _dtypes(self) -> tuple[np.dtype[np.void], np.dtype[np.void]]:
        fields: list[Any] = [*ROW_FIELDS]
        fields += [(f"run{number}", TYPES[kind], (len(places),)) for number, (kind, places) in enumerate(self._runs)]
        if self._bits:
            fields.append(("bits", "u1", (-(-len(self._bits) // 8),)))
        measured = ("measured", "u1", (-(-len(self.columns) // 8),))
        return np.dtype(fields), np.dtype([*fields, measured])


def encode_header(worker: str, *, number: int) -> bytes:
    """Return the first block of each file; `number` is that of the first rows in it."""
    header = {"format": FORMAT, "version": VERSION, "worker": worker}
    return encode_block(HEADER_KIND, json.dumps(header).encode(), number=number)


def encode_schema(schema_id: int, schema: Schema) -> bytes:
    """Return the payload of a schema's block.

    Raises:
        ValueError: It is too long for a reader.
    """
    columns = [{"tensor": c.tensor, "statistic": c.statistic, "type": c.type} for c in schema.columns]
    groups = {name: list(members) for name, members in schema.groups.items()}
    text = json.dumps({"id": schema_id, "columns": columns, "groups": groups}, separators=(",", ":")).encode()
    if len(text) > MOST_SCHEMA_BYTES:
        raise ValueError(f"A schema of {len(text)} bytes is too long; the most is {MOST_SCHEMA_BYTES}.")
    return zlib.compress(text, 9)


def encode_rows(
    schema_id: int,
    schema: Schema,
    *,
    steps: ArrayLike,
    mode_steps: ArrayLike,
    wall_times: ArrayLike,
    modes: ArrayLike,
    values: NDArray[np.floating[Any]],
    measured: NDArray[np.bool_] | None = None,
) -> bytes:
    """Return the payload of a block of n rows.

    `values` and `measured` are of shape (n, columns), the others of shape (n,). A finite number beyond a type's range
    is stored as the largest finite one, because infinity has a meaning of its own. A NaN in a column of whole numbers
    or bits counts as not measured.
    """
    holes = _holes(schema, values, measured)
    rows = np.zeros(len(values), schema.dtype(has_holes=holes is not None))
    rows["step"], rows["mode_step"], rows["wall_time"], rows["mode"] = steps, mode_steps, wall_times, modes
    with np.errstate(all="ignore"):  # what does not fit has been seen to, and the script's own settings are its own
        for number, (kind, places) in enumerate(schema._runs):
            rows[f"run{number}"] = _stored(kind, values[:, slice(places[0], places[-1] + 1)])
    if schema._bits:
        bits = np.nan_to_num(values[:, schema._bits], nan=0.0) != 0
        rows["bits"] = np.packbits(bits, axis=1, bitorder="little")
    if holes is not None:
        rows["measured"] = np.packbits(~holes, axis=1, bitorder="little")
    return _ROWS_HEAD.pack(schema_id, len(values), _HAS_HOLES if holes is not None else 0) + rows.tobytes()


def read_header(block: Block, *, key: str) -> str:
    """Return the worker that a header names.

    Raises:
        RecordError: It is another format, or an unknown version.
    """
    header = UntrustedJson.parse(block.payload, key=key)
    if header.text("format") != FORMAT:
        raise RecordError(key, block.offset, f"the file is {header.text('format')[:80]!r}, not {FORMAT!r}")
    if header.count("version") != VERSION:
        what = f"the file is of version {header.count('version')}; this reader knows version {VERSION}"
        raise RecordError(key, block.offset, what)
    return header.text("worker")


def inflate_schema(block: Block, *, key: str) -> bytes:
    """Return the JSON of a schema, at most `MOST_SCHEMA_BYTES` of it.

    Raises:
        RecordError: It cannot be inflated, or is too long.
    """
    inflating = zlib.decompressobj()
    try:
        text = inflating.decompress(block.payload, MOST_SCHEMA_BYTES + 1)
    except zlib.error as error:
        raise RecordError(key, block.offset, f"a schema cannot be inflated: {error}") from error
    if len(text) > MOST_SCHEMA_BYTES:
        raise RecordError(key, block.offset, f"a schema is longer than {MOST_SCHEMA_BYTES} bytes when inflated")
    if not inflating.eof:
        raise RecordError(key, block.offset, "a schema is cut off")
    return text


def parse_schema(text: bytes, *, key: str, offset: int) -> tuple[int, Schema]:
    """Return a schema and its id from the text of `inflate_schema`.

    Raises:
        RecordError: It is no schema.
    """
    found = UntrustedJson.parse(text, key=key)
    columns = tuple(
        StatisticColumn(column.text("tensor"), column.text("statistic"), column.text("type"))
        for column in found.objects("columns")
    )
    listed = found.object("groups") if found.has("groups") else None
    groups = {name: listed.texts(name) for name in listed.names()} if listed else {}
    try:
        return found.count("id"), Schema(columns, groups)
    except ValueError as error:
        raise RecordError(key, offset, f"a schema cannot be: {error}") from error


@dataclass(frozen=True)
class Rows:
    """The rows of a block, still as bytes: `body` holds `count` of them."""

    schema_id: int
    count: int
    has_holes: bool
    body: memoryview


def read_rows(block: Block, *, key: str) -> Rows:
    """Return the rows of a block, still as bytes. `check_rows` compares them with their schema.

    Raises:
        RecordError: The block is too short, or has unknown flags.
    """
    if len(block.payload) < _ROWS_HEAD.size:
        raise RecordError(key, block.offset, f"a block of rows has only {len(block.payload)} bytes")
    schema_id, count, flags = _ROWS_HEAD.unpack_from(block.payload)
    if flags & ~_HAS_HOLES:
        raise RecordError(key, block.offset, f"rows have the flags {flags}, which this reader does not know")
    return Rows(schema_id, count, bool(flags & _HAS_HOLES), memoryview(block.payload)[_ROWS_HEAD.size :])


def check_rows(rows: Rows, schema: Schema, *, key: str, offset: int) -> None:
    """Raise an error if the rows have another size than their schema requires.

    Raises:
        RecordError: The sizes differ.
    """
    expected = rows.count * schema.row_bytes(has_holes=rows.has_holes)
    if len(rows.body) != expected:
        what = f"{rows.count} rows of schema {rows.schema_id} take {expected} bytes; there are {len(rows.body)}"
        raise RecordError(key, offset, what)


def column_of(
    rows: NDArray[np.void], schema: Schema, place: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    """Return the column at `place` of `rows` (of `schema.dtype`): values, and which were measured (None: all)."""
    name, nth = schema._cells[place]
    if name == "bits":
        values = _bit(rows["bits"], nth).astype(np.float64)
    elif schema.columns[place].type == "bf16":
        values = _of_bfloat16(rows[name][:, nth])
    else:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            values = rows[name][:, nth].astype(np.float64)
    fields = rows.dtype.names or ()
    return values, (_bit(rows["measured"], place) if "measured" in fields else None)


def _bit(packed: NDArray[np.uint8], nth: int) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (packed[:, nth >> 3] >> np.uint8(nth & 7) & 1).astype(np.bool_)
    return found


def _of_bfloat16(upper: NDArray[np.uint16]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return (upper.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _holes(
    schema: Schema, values: NDArray[np.floating[Any]], measured: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Return True for each value that was not measured, of shape (n, columns), or None if all were."""
    holes = np.zeros(values.shape, np.bool_) if measured is None else ~measured
    whole = [place for place, column in enumerate(schema.columns) if column.type in _WHOLE]
    if whole:
        holes[:, whole] |= np.isnan(values[:, whole])
    return holes if holes.any() else None


def _stored(kind: str, values: NDArray[np.floating[Any]]) -> NDArray[Any]:
    if kind in _WHOLE:
        smallest, largest = _WHOLE[kind]
        return np.rint(np.clip(np.nan_to_num(values.astype(np.float64), nan=0.0), smallest, largest))
    if kind not in _LARGEST or (kind == "f4" and values.dtype == np.float32):
        return values
    narrow = saturated(values, kind)
    return _as_bfloat16(narrow.astype(np.float32)) if kind == "bf16" else narrow


def saturated(values: NDArray[np.floating[Any]], kind: str) -> NDArray[np.floating[Any]]:
    """Return `values` with finite numbers limited to the range of the type `kind`. Infinities stay."""
    largest = _LARGEST[kind]
    found: NDArray[np.floating[Any]] = np.where(np.isinf(values), values, np.clip(values, -largest, largest))
    return found


def _as_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the upper halves of float32 numbers, rounded to nearest, ties to even; a NaN stays one."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    nan = (bits >> 16) | np.uint32(0x40)
    found: NDArray[np.uint16] = np.where(np.isnan(values), nan, rounded).astype(np.uint16)
    return found
