"""All tensors of one step and worker: their place in an event file, and the index that promises them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from trackside.contracts.run_layout import event_key, index_key
from trackside.records.index_file import Index, IndexEntry, ShapeEntry, encode_index
from trackside.records.packed_index import MOST_RECORD_BYTES
from trackside.records.tensor_proto import AnyArray
from trackside.records.tfevents import (
    HEADER_SIZE,
    TensorRecord,
    encode_tensor_parts,
    has_intact_header,
    read_records,
    said_size,
    whole_records_size,
)
from trackside.storage.store import AppendableStore, Store, put_parts

# Larger records are fetched only once their own header says the same length as the index: a hole in a file, or an
# index that was damaged, must not cost gigabytes of memory.
MOST_TRUSTED_BYTES = 8 << 20

# Smaller files are joined before they are stored: to hand over so many parts costs more than to copy them once.
MOST_JOINED_BYTES = 64 << 10


@dataclass(frozen=True)
class StepFiles:
    """Both files of a step, ready to store. Keys are relative to the run's tensors; no bytes: nothing to store.

    `event_start` bytes of earlier steps lie before this one's in the event file.
    """

    event_key: str
    event_parts: tuple[bytes | memoryview, ...]  # which together are the event file's bytes; views of the values
    index_key: str
    index_bytes: bytes
    index: Index
    event_start: int = 0

    @cached_property
    def event_size(self) -> int:
        """How many bytes go into the event file."""
        return sum(map(len, self.event_parts))

    @property
    def event_bytes(self) -> bytes:
        """The same bytes in one: a copy."""
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
) -> StepFiles:
    """The files for (name, value) pairs, in their order. Arrays without elements are left out, as smdebug does.

    `shapes` are of tensors whose values are not saved. `behind` names an event file of earlier steps, and how long it
    is, that this step is to be added to. Errors: as `tfevents.encode_tensor`.
    """
    event, start = behind or (event_key(step, worker), 0)
    parts: list[bytes | memoryview] = []
    entries: list[IndexEntry] = []
    end = start
    for name, value in tensors:
        if not value.size:
            continue  # old readers fail on them
        record = encode_tensor_parts(name, value, step=step, mode=mode, mode_step=mode_step, wall_time=wall_time)
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
    """Stores the event file, then the index: whoever sees the index finds the tensors.

    Writing a step again replaces it. Errors: those of the store.
    """
    if not files.index_bytes:
        return
    if files.event_size > MOST_JOINED_BYTES:
        put_parts(store, files.event_key, files.event_parts)
    elif files.event_size:
        store.put(files.event_key, files.event_bytes)
    write_index(store, files)


def append_step(store: AppendableStore, files: StepFiles) -> bool:
    """As `write_step`, for a step that goes behind others. False if the event file was not as long as it should be:
    then no reader sees anything of the step, and it has to be written elsewhere.

    Errors: those of the store.
    """
    if files.event_size and store.append(files.event_key, files.event_bytes) != files.event_start:
        return False
    write_index(store, files)
    return True


def write_index(store: Store, files: StepFiles) -> None:
    """Stores the index alone, of a step whose values are stored already. Errors: those of the store."""
    if files.index_bytes:
        store.put(files.index_key, files.index_bytes)


def fetch_record(store: Store, key: str, *, start: int, length: int) -> bytes:
    """The bytes of one record where the index has it. Of one that the index calls large the length is looked at first,
    and where the record says another, only that comes back: `tfevents.decode_record` then says what is wrong.

    Errors: those of the store.
    """
    if length > MOST_TRUSTED_BYTES:
        head = store.get(key, start=start, length=HEADER_SIZE)
        if said_size(head) != length or not has_intact_header(head):
            return head
    return store.get(key, start=start, length=length)


def fetch_records(store: Store, key: str) -> Iterator[TensorRecord]:
    """All tensors of an event file, of which a few MiB, or the one record that is larger, are held at a time.

    Errors: `RecordError` at the first record that is not intact; those of the store.
    """
    start, length = 0, MOST_TRUSTED_BYTES
    while data := store.get(key, start=start, length=length):
        size = whole_records_size(data)
        if size:
            yield from read_records(data[:size], key=key, offset=start)
            start, length = start + size, MOST_TRUSTED_BYTES
        elif length <= len(data) < said_size(data) <= MOST_RECORD_BYTES and has_intact_header(data):
            length = said_size(data)
        else:
            yield from read_records(data, key=key, offset=start)  # which says what is wrong
            return
