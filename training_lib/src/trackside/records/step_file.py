"""All tensors of one step and worker: their place in an event file, and the index that promises them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.cached_property import cached_property
from trackside.contracts.run_layout import event_key, index_key
from trackside.records.index_file import Index, IndexEntry, ShapeEntry, encode_index
from trackside.records.packed_index import MOST_RECORD_BYTES
from trackside.records.tensor_proto import AnyArray
from trackside.records.tfevents import (
    HEADER_SIZE,
    TensorRecord,
    declared_size,
    encode_tensor_parts,
    has_intact_header,
    read_records,
    whole_records_size,
)
from trackside.storage.store import AppendableStore, Store, put_parts

# Larger records are fetched only if their own header has the same length as the index: a hole in a file, or a damaged
# index, must not cost gigabytes of memory.
MOST_TRUSTED_BYTES = 8 << 20

# Smaller files are joined before they are stored: many parts cost more to write than one copy of them.
MOST_JOINED_BYTES = 64 << 10


@dataclass(frozen=True)
class StepFiles:
    """Both files of a step, ready to store. Keys are relative to the run's tensors. An empty file is not stored.

    event_key    key of the event file
    event_parts  its bytes in parts; views of the values
    index_key    key of the index
    index_bytes  its bytes
    index        its content
    event_start  bytes of earlier steps before this one's in the event file
    """

    event_key: str
    event_parts: tuple[bytes | memoryview, ...]  # which together are the event file's bytes; views of the values
    index_key: str
    index_bytes: bytes
    index: Index
    event_start: int = 0

    @cached_property
    def event_size(self) -> int:
        """The number of bytes for the event file."""
        return sum(map(len, self.event_parts))

    @property
    def event_bytes(self) -> bytes:
        """The parts of the event file joined into one copy."""
        return b"".join(self.event_parts)


def encode_step(
    tensors: Sequence[tuple[str, AnyArray]],
    *,
    step: int,
    mode: str,
    mode_step: int,
    worker: str,
    wall_time: float,
    shapes: Sequence[ShapeEntry] = (),
    behind: tuple[str, int] | None = None,
    wall_times: Mapping[str, float] | None = None,
) -> StepFiles:
    """Return the files for (name, value) pairs, in their order. Arrays without elements are left out, as in smdebug.

    Args:
        tensors: Names and values.
        step: The step over all modes.
        mode: The mode.
        mode_step: The step within the mode.
        worker: The worker.
        wall_time: Seconds since the epoch.
        shapes: Shapes of tensors without values.
        behind: Event file of earlier steps that this step is appended to, and its size in bytes; None: a file of its
            own.
        wall_times: Moments of single tensors, in place of `wall_time`.

    Raises:
        TypeError: Arrays of a dtype cannot be stored.
        ValueError: The mode is unknown, or a step is below 0.
    """
    event, start = behind or (event_key(step, worker), 0)
    parts: list[bytes | memoryview] = []
    entries: list[IndexEntry] = []
    end = start
    for name, value in tensors:
        if not value.size:
            continue  # old readers fail on them
        moment = wall_times.get(name, wall_time) if wall_times else wall_time
        record = encode_tensor_parts(name, value, step=step, mode=mode, mode_step=mode_step, wall_time=moment)
        length = sum(map(len, record))
        entries.append(IndexEntry(name, end, length))
        parts += record
        end += length
    found = event if entries else None
    index = Index(mode=mode, mode_step=mode_step, event_key=found, entries=tuple(entries), shapes=tuple(shapes))
    return StepFiles(
        event_key=event,
        event_parts=tuple(parts),
        index_key=index_key(step, worker),
        index_bytes=encode_index(index) if entries or shapes else b"",
        index=index,
        event_start=start,
    )


def write_step(store: Store, files: StepFiles) -> None:
    """Store the event file, then the index, so that every index that a reader sees has its tensors.

    Writing a step again replaces it. Errors are those of the store.
    """
    if not files.index_bytes:
        return
    if files.event_size > MOST_JOINED_BYTES:
        put_parts(store, files.event_key, files.event_parts)
    elif files.event_size:
        store.put(files.event_key, files.event_bytes)
    write_index(store, files)


def append_step(store: AppendableStore, files: StepFiles) -> bool:
    """Append a step to an event file, then store its index.

    Return False if the event file had another length than expected: then no reader sees the step, and it has to be
    written elsewhere. Errors are those of the store.
    """
    if files.event_size and store.append(files.event_key, files.event_bytes) != files.event_start:
        return False
    write_index(store, files)
    return True


def write_index(store: Store, files: StepFiles) -> None:
    """Store the index alone, for a step with values that are stored already. Errors are those of the store."""
    if files.index_bytes:
        store.put(files.index_key, files.index_bytes)


def fetch_record(store: Store, key: str, *, start: int, length: int) -> bytes:
    """Return the bytes of one record at the place in the index.

    If the index calls the record large, the record's own header is read first. If the two lengths differ, only the
    header is returned, and `tfevents.decode_record` then names the fault. Errors are those of the store.
    """
    if length > MOST_TRUSTED_BYTES:
        head = store.get(key, start=start, length=HEADER_SIZE)
        if declared_size(head) != length or not has_intact_header(head):
            return head
    return store.get(key, start=start, length=length)


def fetch_records(store: Store, key: str) -> Iterator[TensorRecord]:
    """Yield all tensors of an event file. A few MiB are in memory at a time, or the one record that is larger.

    Raises:
        RecordError: A record is not intact.
        StorageError: The store failed.
    """
    start, length = 0, MOST_TRUSTED_BYTES
    while data := store.get(key, start=start, length=length):
        size = whole_records_size(data)
        if size:
            yield from read_records(data[:size], key=key, offset=start)
            start, length = start + size, MOST_TRUSTED_BYTES
        elif length <= len(data) < declared_size(data) <= MOST_RECORD_BYTES and has_intact_header(data):
            length = declared_size(data)
        else:
            yield from read_records(data, key=key, offset=start)  # raises an error that names the fault
            return
