"""The packed index: the places of the tensors of thousands of steps of one worker in one file, not one file a step.

smdebug's index remains beside it and stays authoritative: steps that a packed file lacks are read from smdebug's.
The specification for other readers is docs/formats/packed-index.md.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import RecordError
from trackside.contracts.run_layout import parse_event_key, parse_packed_index_key
from trackside.records.block_file import HEADER_KIND, Block, encode_block, read_blocks
from trackside.records.index_file import IndexEntry, ShapeEntry
from trackside.records.modes import MODE_NUMBERS, checked_mode

FORMAT: Final = "trackside-packed-index"
VERSION: Final = 1
LAYOUT_KIND: Final = 1
ROWS_KIND: Final = 2
ROW: Final = np.dtype(
    [("step", "<i8"), ("mode_step", "<i8"), ("layout", "<u4"), ("mode", "u1"), ("reserved", "u1", (3,))]
)
NOTHING_BEFORE: Final = ""  # what a file follows when the worker had saved nothing before its first row
MOST_FILE_BYTES: Final = 32 << 20
MOST_ROWS: Final = 1 << 16  # in one file
MOST_RECORD_BYTES: Final = 1 << 34  # of one tensor

_PACKED_ROW = struct.Struct("<qqIB3x")
_LIMIT = 2**63
_TO_JSON = json.JSONEncoder(separators=(",", ":")).encode  # made once: `json.dumps` makes one each time


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """The places of tensors in the event files of all steps with the same layout.

    entries    places of tensors
    shapes     shapes of tensors without values
    event_key  None for a step's own event file (`run_layout.event_key`), "" for none because only shapes were saved,
               else the key of another event file of the run
    """

    entries: tuple[IndexEntry, ...]
    shapes: tuple[ShapeEntry, ...] = ()
    event_key: str | None = None


@dataclass(frozen=True, eq=False)
class PackedIndex:
    """The content of one file.

    key         key of the file
    worker      the worker
    started_ms  start of the writing process, in milliseconds since the epoch
    first_step  first step in the file
    follows     key of the file with the worker's earlier steps, `NOTHING_BEFORE`, or None if the writer did not know
    layouts     the layouts, counted from 0
    rows        rows of type `ROW`, read-only, in the order saved; their `layout` is a place in `layouts`
    content     the bytes of the file
    blocks      the number of its blocks
    """

    key: str
    worker: str
    started_ms: int
    first_step: int
    follows: str | None
    layouts: tuple[PackedLayout, ...]
    rows: NDArray[np.void]
    content: bytes = field(repr=False)
    blocks: int


class PackedFile:
    """One file during writing: rows are added, and the whole of it is stored again from time to time.

    Steps ascend. Layouts are compared by identity: pass the same object for steps with the same layout.
    """

    def __init__(self, worker: str, *, follows: str | None) -> None:
        header = {"format": FORMAT, "version": VERSION, "worker": worker, "follows": follows}
        self._data = bytearray()
        self._blocks = 0
        self._ids: dict[PackedLayout, int] = {}
        self._pending = bytearray()
        self.row_count = 0
        self._append(HEADER_KIND, _json(header))

    @property
    def size_bytes(self) -> int:
        """The size of the file so far."""
        return len(self._data) + len(self._pending)

    def add(self, step: int, *, mode: str, mode_step: int, layout: PackedLayout) -> None:
        """Add a step.

        Raises:
            ValueError: A row cannot hold these numbers, or the file is full. Then nothing is added.
        """
        mode_number = MODE_NUMBERS[checked_mode(mode)]
        if not (0 <= step < _LIMIT and 0 <= mode_step < _LIMIT):
            raise ValueError(f"No row holds step {step}, mode step {mode_step}.")
        if self.row_count == MOST_ROWS:
            raise ValueError(f"A packed index has at most {MOST_ROWS} rows.")
        number = self._ids.get(layout)
        if number is None:
            number = self._add_layout(layout)
        self._pending += _PACKED_ROW.pack(step, mode_step, number, mode_number)
        self.row_count += 1

    def encode(self) -> bytes:
        """Return the whole file as it is now."""
        if self._pending:
            self._append(ROWS_KIND, bytes(self._pending))
            self._pending.clear()
        return bytes(self._data)

    def _add_layout(self, layout: PackedLayout) -> int:
        number = len(self._ids)
        document = {
            "id": number,
            "tensors": [[entry.name, entry.start, entry.length] for entry in layout.entries],
            "shapes": [[shape.name, shape.original_name, list(shape.shape)] for shape in layout.shapes],
            "event_key": layout.event_key,
        }
        payload = _json(document)
        if self.size_bytes + len(payload) > MOST_FILE_BYTES // 2:  # the other half is for rows and frames
            raise ValueError(f"A packed index has at most {MOST_FILE_BYTES} bytes.")
        self._append(LAYOUT_KIND, payload)
        self._ids[layout] = number
        return number

    def _append(self, kind: int, payload: bytes) -> None:
        self._data += encode_block(kind, payload, number=self._blocks)
        self._blocks += 1


def decode_packed_index(data: bytes, *, key: str, known: PackedIndex | None = None) -> PackedIndex:
    """Return the content of a file. Blocks of unknown kinds are ignored, for later versions may add some.

    Args:
        data: The bytes of the file.
        key: Its key.
        known: The same file as it was before. If it has only grown since, what was decoded is not decoded again.

    Raises:
        RecordError: Anything in the file is wrong; names the offset of the block. Then nothing in it can be trusted:
            read the steps from smdebug's index.
    """
    named = parse_packed_index_key(key)
    if named is None:
        raise RecordError(key, 0, "is no key of a packed index")
    if len(data) > MOST_FILE_BYTES:
        raise RecordError(key, MOST_FILE_BYTES, f"goes on after {MOST_FILE_BYTES} bytes, the most for a packed index")
    if known is not None and data.startswith(known.content):
        return _grown(known, data)
    worker, started_ms, first_step = named
    blocks = _whole_blocks(data, key)
    if not blocks or blocks[0].kind != HEADER_KIND:
        raise RecordError(key, 0, "does not begin with a header")
    layouts = tuple(_read_layouts(blocks, key))
    return PackedIndex(
        key=key,
        worker=worker,
        started_ms=started_ms,
        first_step=first_step,
        follows=_read_header(blocks[0], key, worker),
        layouts=layouts,
        rows=_read_rows(blocks, key, layout_count=len(layouts)),
        content=data,
        blocks=len(blocks),
    )


def _grown(known: PackedIndex, data: bytes) -> PackedIndex:
    """Return a file that has grown to `data`."""
    if len(data) == len(known.content):
        return known
    blocks = _whole_blocks(data, known.key, start=len(known.content), first=known.blocks)
    layouts = (*known.layouts, *_read_layouts(blocks, known.key, first=len(known.layouts)))
    rows = np.concatenate((known.rows, _read_rows(blocks, known.key, layout_count=len(layouts))))
    if len(rows) > MOST_ROWS:
        raise RecordError(known.key, blocks[-1].offset, f"has more than {MOST_ROWS} rows")
    rows.flags.writeable = False
    return replace(known, layouts=layouts, rows=rows, content=data, blocks=known.blocks + len(blocks))


def _whole_blocks(data: bytes, key: str, *, start: int = 0, first: int = 0) -> tuple[Block, ...]:
    """Return all blocks from byte `start` on, the first of which has the number `first`."""
    read = read_blocks(data[start:], key=key, offset=start)
    if read.damage:
        raise read.damage[0]
    if read.end != len(data):
        raise RecordError(key, read.end, "is cut off or damaged from here on")
    for number, block in enumerate(read.blocks, first):
        if block.number != number:
            raise RecordError(key, block.offset, f"has block {block.number} where block {number} belongs")
    return read.blocks


def _read_header(block: Block, key: str, worker: str) -> str | None:
    """Return the key of the file that this one follows."""
    header = _Fields(block, key)
    if header.get("format") != FORMAT:
        raise header.error(f"is not of the format {FORMAT}")
    if header.get("version") != VERSION:
        raise header.error(f"has a version that this reader does not know; it knows {VERSION}")
    if header.get("worker") != worker:
        raise header.error(f"is not of {worker}, which its key names")
    follows = header.get("follows")
    if follows is None or follows == NOTHING_BEFORE:
        return None if follows is None else NOTHING_BEFORE
    before = parse_packed_index_key(follows) if isinstance(follows, str) else None
    if before is None or before[0] != worker:
        raise header.error("follows something that is no packed index of this worker")
    return str(follows)


def _read_layouts(blocks: Iterable[Block], key: str, *, first: int = 0) -> Iterator[PackedLayout]:
    """Yield the layouts in these blocks, of which the first has the id `first`."""
    for expected, block in enumerate((block for block in blocks if block.kind == LAYOUT_KIND), first):
        fields = _Fields(block, key)
        number = fields.get("id")
        if not _is_count(number) or number != expected:
            raise fields.error(f"does not have the id {expected}, which is the next")
        layout = PackedLayout(
            entries=tuple(_entry(item, fields) for item in fields.items("tensors")),
            shapes=tuple(_shape(item, fields) for item in fields.items("shapes")),
            event_key=_event_key(fields),
        )
        if layout.entries and layout.event_key == "":
            raise fields.error("has tensors but no event file")
        yield layout


def _entry(item: Any, fields: _Fields) -> IndexEntry:
    match item:
        case [str(name), start, length] if _is_count(start) and _is_count(length) and 0 < length <= MOST_RECORD_BYTES:
            return IndexEntry(name, start, length)
    raise fields.error("has a tensor that is not [name, start, length]")


def _shape(item: Any, fields: _Fields) -> ShapeEntry:
    match item:
        case [str(name), str(original_name), list(sizes)] if all(map(_is_count, sizes)):
            return ShapeEntry(name, original_name, tuple(sizes))
    raise fields.error("has a shape that is not [name, original name, [sizes]]")


def _event_key(fields: _Fields) -> str | None:
    event_key = fields.get("event_key")
    if event_key is None or event_key == "":
        return None if event_key is None else ""
    if not isinstance(event_key, str) or parse_event_key(event_key) is None:
        raise fields.error("names something that is no event file of this run")
    return event_key


def _read_rows(all_blocks: Iterable[Block], key: str, *, layout_count: int) -> NDArray[np.void]:
    """Return the rows in these blocks."""
    blocks = [block for block in all_blocks if block.kind == ROWS_KIND]
    for block in blocks:
        if len(block.payload) % ROW.itemsize:
            raise RecordError(key, block.offset, f"has rows of {len(block.payload)} bytes; a row has {ROW.itemsize}")
    rows = np.frombuffer(b"".join(block.payload for block in blocks), ROW)
    if len(rows) > MOST_ROWS:
        raise RecordError(key, blocks[-1].offset, f"has more than {MOST_ROWS} rows")
    modes, steps = rows["mode"], rows["step"]
    fits = (steps >= 0) & (rows["mode_step"] >= 0) & (rows["layout"] < layout_count)
    fits &= (modes >= min(MODE_NUMBERS.values())) & (modes <= max(MODE_NUMBERS.values()))
    if not fits.all():
        wrong = int(np.argmin(fits))
        ends = np.cumsum([len(block.payload) // ROW.itemsize for block in blocks])
        block = blocks[int(np.searchsorted(ends, wrong, side="right"))]
        raise RecordError(key, block.offset, f"has a row that makes no sense: step {steps[wrong]}, mode {modes[wrong]}")
    return rows


class _Fields:
    """The JSON object in a block. Its errors name the file and the block's offset."""

    def __init__(self, block: Block, key: str) -> None:
        self._key, self._offset = key, block.offset
        try:
            value = json.loads(block.payload)
        except (ValueError, RecursionError) as error:
            raise self.error(f"is not JSON that can be read: {error}") from error
        if not isinstance(value, dict):
            raise self.error("is not a JSON object")
        self._fields: dict[str, Any] = value

    def error(self, what: str) -> RecordError:
        return RecordError(self._key, self._offset, f"a block {what}")

    def get(self, name: str) -> Any:
        return self._fields.get(name)

    def items(self, name: str) -> list[Any]:
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self.error(f"has no list of {name}")
        return value


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _LIMIT


def _json(document: dict[str, Any]) -> bytes:
    return _TO_JSON(document).encode("ascii")
