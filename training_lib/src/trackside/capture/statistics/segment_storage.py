"""Storage of blocks of statistics: one file that grows, or small objects that are merged into larger ones as they age.

The format is `records.statistics_segment`; docs/formats/statistics-segment.md lists its costs on S3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trackside.contracts.cached_property import cached_property
from trackside.contracts.run_layout import SegmentName
from trackside.records.block_file import encode_block
from trackside.records.statistics_segment import SCHEMA_KIND, encode_header
from trackside.records.watermark import MOST_SEGMENTS
from trackside.storage.store import AppendableStore, Store

_MOST_DOOMED = 4096  # keys of objects still to be deleted; each is some hundred bytes


@dataclass(frozen=True)
class RowsBlock:
    """A whole block of rows, framed and numbered."""

    number: int
    schema_id: int
    row_count: int
    data: bytes


@dataclass(frozen=True)
class SegmentLimits:
    """Sizes and counts at which files are closed and objects merged."""

    file_bytes: int = 64 << 20  # of a file that grows
    schemas_every_bytes: int = 4 << 20  # how often such a file repeats its schemas, should one be damaged
    objects: int = 64  # so many objects of one size become one of the next
    middle_bytes: int = 1 << 20  # or as soon as they hold so many bytes: a middle object,
    large_bytes: int = 8 << 20  # and a large one
    deletes_a_flush: int = 4  # of objects that a larger one replaced; each is a request on the writer's time


class SegmentStorage(Protocol):
    """A store of blocks in ascending order. Called on the writer thread only."""

    def save(self, blocks: Sequence[RowsBlock]) -> None:
        """Store the blocks. Errors: `OSError`; they may have arrived all the same, and can be passed again."""

    def tend(self) -> None:
        """Merge and delete objects that have aged.

        Errors: `OSError`; nothing is lost, and the next call tries again.
        """

    def finish(self) -> None:
        """Leave the objects in the form for readers of the finished run. Errors: as `tend`."""

    @property
    def newest(self) -> Sequence[SegmentName]:
        """The segments that hold the newest blocks, the newest last."""


class SegmentLog:
    """The part that all files of one log share: its owner, and its schemas (id -> payload), which grow."""

    def __init__(self, worker: str, started_ms: int) -> None:
        self.worker, self.started_ms = worker, started_ms
        self.schemas: dict[int, bytes] = {}

    def name(self, first: int, last: int | None) -> SegmentName:
        """Return the name of the segment of these blocks."""
        return SegmentName(self.worker, self.started_ms, first, last)

    def header(self, number: int) -> bytes:
        """Return the block of the header."""
        return encode_header(self.worker, number=number)

    def schema_blocks(self, ids: Iterable[int], number: int) -> bytes:
        """Return the blocks of these schemas."""
        return b"".join(encode_block(SCHEMA_KIND, self.schemas[i], number=number) for i in sorted(ids))


class GrowingSegments:
    """A storage that appends to one file after another."""

    def __init__(self, store: AppendableStore, log: SegmentLog, limits: SegmentLimits) -> None:
        self._store, self._log, self._limits = store, log, limits
        self._name: SegmentName | None = None
        self._size = 0
        self._has_header = False
        self._schemas: set[int] = set()  # written lately
        self._schemas_from = 0  # since this size of the file
        self.newest: deque[SegmentName] = deque(maxlen=MOST_SEGMENTS)

    def save(self, blocks: Sequence[RowsBlock]) -> None:
        first = blocks[0].number
        if self._name is None or self._size >= self._limits.file_bytes:
            self._name = self._log.name(first, None)
            self._size, self._has_header = 0, False
            self._repeat_schemas()
        if self._size - self._schemas_from >= self._limits.schemas_every_bytes:
            self._repeat_schemas()
        header = b"" if self._has_header else self._log.header(first)
        new = {block.schema_id for block in blocks} - self._schemas
        data = b"".join((header, self._log.schema_blocks(new, first), *(block.data for block in blocks)))
        try:
            self._store.append(self._name.key, data)
        except OSError:
            self._repeat_schemas()  # those of the file may not have arrived
            raise
        if self._name not in self.newest:
            self.newest.append(self._name)
        self._has_header = True
        self._schemas |= new
        self._size += len(data)

    def tend(self) -> None:
        """Do nothing: a file does not age."""

    def finish(self) -> None:
        """Do nothing: the file is complete after every block."""

    def _repeat_schemas(self) -> None:
        self._schemas, self._schemas_from = set(), self._size


@dataclass(frozen=True)
class _Part:
    """An object that a larger one will replace, with its blocks, so that merging reads nothing back."""

    name: SegmentName
    blocks: tuple[RowsBlock, ...]

    @cached_property
    def size_bytes(self) -> int:
        return sum(len(block.data) for block in self.blocks)


class CompactedObjects:
    """A storage that writes one object per save, and merges small ones into middle ones, and those into large ones.

    The larger object is stored before the replaced ones are deleted: a reader may meet a block twice but never misses
    one. At most some 10 MiB of blocks are kept in memory for merging.
    """

    def __init__(self, store: Store, log: SegmentLog, limits: SegmentLimits) -> None:
        self._store, self._log, self._limits = store, log, limits
        self._small: list[_Part] = []
        self._middle: list[_Part] = []
        self._doomed: dict[str, None] = {}  # keys, in the order in which they became useless
        self.newest: deque[SegmentName] = deque(maxlen=MOST_SEGMENTS)

    @property
    def kept_bytes(self) -> int:
        """Bytes of blocks in memory."""
        return sum(part.size_bytes for part in (*self._small, *self._middle))

    def save(self, blocks: Sequence[RowsBlock]) -> None:
        self._small.append(self._put(tuple(blocks)))

    def tend(self) -> None:
        try:
            if self._is_due(self._small, self._limits.middle_bytes):
                self._middle.append(self._merged(self._small))
                self._small = []
            if self._is_due(self._middle, self._limits.large_bytes):
                self._merged(self._middle)
                self._middle = []
        finally:
            self._forget_beyond_bounds()
        self._delete(self._limits.deletes_a_flush)

    def finish(self) -> None:
        rest = [*self._middle, *self._small]
        if rest:
            self._merged(rest)
        self._small, self._middle = [], []
        self._delete(len(self._doomed))

    def _is_due(self, parts: list[_Part], size_bytes: int) -> bool:
        return len(parts) >= self._limits.objects or sum(part.size_bytes for part in parts) >= size_bytes

    def _merged(self, parts: list[_Part]) -> _Part:
        """Store one object in place of several, and mark those for deletion."""
        if len(parts) == 1:
            return parts[0]
        merged = self._put(tuple(block for part in parts for block in part.blocks))
        self._doom(part.name.key for part in parts)
        return merged

    def _put(self, blocks: tuple[RowsBlock, ...]) -> _Part:
        first = blocks[0].number
        name = self._log.name(first, blocks[-1].number)
        schemas = self._log.schema_blocks({block.schema_id for block in blocks}, first)
        data = b"".join((self._log.header(first), schemas, *(block.data for block in blocks)))
        try:
            self._store.put(name.key, data)
        except OSError:
            self._doom([name.key])  # it may lie there all the same; its blocks will be in an object of another name
            raise
        self._doomed.pop(name.key, None)
        self.newest.append(name)
        return _Part(name, blocks)

    def _forget_beyond_bounds(self) -> None:
        """Leave the oldest objects as small as they are, if merging fails time after time."""
        for parts, size_bytes in ((self._small, 2 * self._limits.middle_bytes), (self._middle, self._most_middle)):
            while len(parts) > 1 and sum(part.size_bytes for part in parts) > size_bytes:
                parts.pop(0)

    @property
    def _most_middle(self) -> int:
        return self._limits.large_bytes + 2 * self._limits.middle_bytes

    def _doom(self, keys: Iterable[str]) -> None:
        self._doomed.update(dict.fromkeys(keys))
        while len(self._doomed) > _MOST_DOOMED:
            del self._doomed[next(iter(self._doomed))]

    def _delete(self, most: int) -> None:
        for key in list(self._doomed)[:most]:
            self._store.delete(key)
            del self._doomed[key]


def segment_storage(store: Store, log: SegmentLog, limits: SegmentLimits) -> SegmentStorage:
    """Return the storage for the store: a growing file if its objects can grow, else objects that are merged."""
    if isinstance(store, AppendableStore):
        return GrowingSegments(store, log, limits)
    return CompactedObjects(store, log, limits)
