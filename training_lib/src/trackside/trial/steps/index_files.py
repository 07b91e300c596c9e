"""The index files of a run: listed, read and decoded. Only decoding state is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trackside.contracts.errors import KeyNotFoundError, NotAFileError, RecordError
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    INDEX_PREFIX,
    PACKED_INDEX_PREFIX,
    event_key,
    index_key,
    parse_packed_index_key,
)
from trackside.records.index_file import IndexDecoder, IndexEntry, ShapeEntry
from trackside.records.modes import MODE_NAMES
from trackside.records.packed_index import MOST_RECORD_BYTES
from trackside.records.untrusted_json import MOST_JSON_BYTES
from trackside.storage.store import Store
from trackside.trial.parallel import each_in_parallel, is_remote
from trackside.trial.steps.packed_index import PackedFiles, PackedWorker
from trackside.trial.steps.saved_step import Layout, SavedStep

MANY_NEW_FILES = 16  # from here on the packed index is asked again: a reader that has fallen behind catches up with it
MOST_LAYOUTS_AT_HAND = 1024  # where every step lies differently, it is of no use to remember more
KEYS_IN_A_PAGE = 1000  # of a listing in S3: to look at the rest of a page costs nothing

FoundStep = tuple[int, str, SavedStep | RecordError]  # step, worker, and the content of its index


@dataclass(frozen=True)
class ListedFiles:
    """A listing from some key of the index on: keys of the index, keys of packed indexes, and the end marker."""

    index: list[str]
    packed: list[str]
    has_ended: bool


class IndexFiles:
    """Reads smdebug's index and the packed index of one run."""

    def __init__(self, store: Store, *, report: Callable[[RecordError], None]) -> None:
        self._store = store
        self._packed_files = PackedFiles(store, report=report)
        self._decoder = IndexDecoder()
        self._layouts: dict[tuple[tuple[IndexEntry, ...], tuple[ShapeEntry, ...]], Layout] = {}
        self._same_layouts: dict[tuple[int, int], tuple[Layout, object]] = {}

    def listed(self, start_after: str) -> ListedFiles:
        """List the files after a key of the index, with one LIST.

        The packed index and the end marker sort after the index, so the same listing shows them. Only if other files
        lie in between (smdebug's `tensorboard/`) a second request may be needed.
        """
        index: list[str] = []
        packed: list[str] = []
        most_others = KEYS_IN_A_PAGE if is_remote(self._store) else 0
        for place, key in enumerate(self._store.list("", start_after=start_after)):
            if key.startswith(INDEX_PREFIX):
                index.append(key)
            elif key.startswith(PACKED_INDEX_PREFIX):
                packed.append(key)
            elif key >= END_MARKER_KEY:
                return ListedFiles(index, packed, key == END_MARKER_KEY)
            elif place + 1 >= most_others:
                return ListedFiles(index, packed, self._store.exists(END_MARKER_KEY))
        return ListedFiles(index, packed, has_ended=False)

    def packed(self, keys: Sequence[str]) -> Sequence[PackedWorker]:
        """Read packed indexes."""
        return self._packed_files.read(keys)

    def packed_again(self, keys: Sequence[str], new: Sequence[tuple[int, str]]) -> Sequence[PackedWorker]:
        """Read again the packed indexes that may hold many of the `new` steps, from the first of these on."""
        if not keys or len(new) <= MANY_NEW_FILES:
            return ()
        first_step = min(step for step, _ in new)
        workers = {worker for _, worker in new}
        wanted: dict[str, list[str]] = {}
        for key in keys:  # of a worker's files those from the last one on that begins early enough
            worker, _, begins = parse_packed_index_key(key) or ("", 0, 0)
            if worker in workers:
                wanted[worker] = [key] if begins <= first_step else [*wanted.get(worker, ()), key]
        chosen = [key for some in wanted.values() for key in some]
        return [each.since(first_step) for each in self.packed(chosen)]

    def unpacked(self, packed: PackedWorker, *, is_wanted: Callable[[int, str], bool]) -> Iterator[SavedStep]:
        """Yield the packed steps that `is_wanted` accepts."""
        worker = packed.worker
        layouts = [(self._layout(each.entries, each.shapes), each.event_key) for each in packed.known_layouts]
        rows = zip(
            packed.steps.tolist(),
            packed.mode_steps.tolist(),
            packed.modes.tolist(),
            packed.layouts.tolist(),
            strict=True,
        )
        for step, mode_step, mode, number in rows:
            if is_wanted(step, worker):
                layout, literal = layouts[number]
                events = event_key(step, worker) if literal is None else literal
                yield SavedStep(step, worker, MODE_NAMES[mode], events, layout, mode_step)

    def read(self, wanted: Sequence[tuple[str, int, str]]) -> Iterator[FoundStep]:
        """Yield smdebug's index of each (key, step, worker). Files that are gone are left out."""
        contents = each_in_parallel(self._store, self._read, [key for key, _, _ in wanted])
        for (key, step, worker), content in zip(wanted, contents, strict=True):
            if content is not None:
                yield step, worker, self._decoded(key, step, worker, content)

    def read_one(self, step: int, worker: str) -> SavedStep | RecordError | None:
        """Return smdebug's index of one step and worker; None if the file is gone."""
        key = index_key(step, worker)
        content = self._read(key)
        return None if content is None else self._decoded(key, step, worker, content)

    def _read(self, key: str) -> bytes | RecordError | None:
        try:
            return self._store.get(key, length=MOST_JSON_BYTES + 1)
        except NotAFileError as error:
            return RecordError(key, 0, str(error))
        except KeyNotFoundError:  # removed since it was listed
            return None

    def _decoded(self, key: str, step: int, worker: str, content: bytes | RecordError) -> SavedStep | RecordError:
        if isinstance(content, RecordError):
            return content
        try:
            return self._decode(key, step, worker, content)
        except RecordError as error:
            return error

    def _decode(self, key: str, step: int, worker: str, content: bytes) -> SavedStep:
        index = self._decoder.decode(content, key=key)
        try:
            layout = self._layout(index.entries, index.shapes)
        except ValueError as error:
            raise RecordError(key, 0, str(error)) from error
        return SavedStep(step, worker, index.mode, index.event_key or "", layout, index.mode_step)

    def _layout(self, entries: tuple[IndexEntry, ...], shapes: tuple[ShapeEntry, ...]) -> Layout:
        """Return the layout shared by all steps with these entries.

        Errors: `ValueError` for an impossible record length.
        """
        same = self._same_layouts.get((id(entries), id(shapes)))
        if same is not None:  # to compare hundreds of entries for each step would be most of the work
            return same[0]
        layout = self._layouts.get((entries, shapes))
        if len(self._same_layouts) >= MOST_LAYOUTS_AT_HAND:
            self._layouts.clear()
            self._same_layouts.clear()
        if layout is None:
            for entry in entries:
                if not 0 < entry.length <= MOST_RECORD_BYTES:
                    raise ValueError(f"says that {entry.name!r} is {entry.length} bytes from byte {entry.start} on.")
            records = {sys.intern(entry.name): (entry.start, entry.length) for entry in entries}
            layout = Layout(records, {sys.intern(shape.name): shape for shape in shapes})
        self._layouts[entries, shapes] = layout
        self._same_layouts[id(entries), id(shapes)] = layout, (entries, shapes)  # which keeps the ids theirs
        return layout
