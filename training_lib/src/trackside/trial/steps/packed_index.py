"""The packed index of a run: reading its files, and rebuilding it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError, NotAFileError, RecordError
from trackside.contracts.run_layout import (
    INDEX_PREFIX,
    PACKED_INDEX_PREFIX,
    event_key,
    packed_index_key,
    parse_index_key,
    parse_packed_index_key,
)
from trackside.records.index_file import Index, IndexDecoder
from trackside.records.packed_index import (
    MOST_FILE_BYTES,
    NOTHING_BEFORE,
    PackedFile,
    PackedIndex,
    PackedLayout,
    decode_packed_index,
)
from trackside.records.untrusted_json import MOST_JSON_BYTES
from trackside.storage.store import Store
from trackside.trial.parallel import each_in_parallel

REBUILT_STEPS = 8192  # in one file
REBUILT_BYTES = 4 << 20


@dataclass(frozen=True, eq=False)
class PackedWorker:
    """All packed steps of one worker, ascending, each once. The arrays have one element for each step.

    layouts        indexes into `known_layouts`
    covered_step   every step that the worker saved up to this one is included; None: any step may be missing
    """

    worker: str
    steps: NDArray[np.int64]
    mode_steps: NDArray[np.int64]
    modes: NDArray[np.uint8]
    layouts: NDArray[np.int64]
    known_layouts: tuple[PackedLayout, ...]
    covered_step: int | None

    def since(self, step: int) -> PackedWorker:
        """Return the same without the steps before `step`."""
        first = int(np.searchsorted(self.steps, step))
        rows = {name: getattr(self, name)[first:] for name in ("steps", "mode_steps", "modes", "layouts")}
        return replace(self, **rows)


class PackedFiles:
    """Reads the packed files of a run. A file that has grown is decoded from its earlier end on."""

    def __init__(self, store: Store, *, report: Callable[[RecordError], None]) -> None:
        self._store, self._report = store, report
        self._known: dict[str, PackedIndex] = {}  # by worker: its newest file, the only one that grows

    def read(self, keys: Iterable[str]) -> tuple[PackedWorker, ...]:
        """Return the content of the packed files `keys`, by worker, with one request for each file.

        Damaged files are reported and left out.
        """
        named = [key for key in keys if parse_packed_index_key(key)]
        by_worker: dict[str, dict[str, PackedIndex | None]] = {}
        contents = each_in_parallel(self._store, lambda key: _get(self._store, key, MOST_FILE_BYTES), named)
        for key, content in zip(named, contents, strict=True):
            worker, _, _ = parse_packed_index_key(key) or ("", 0, 0)
            by_worker.setdefault(worker, {})[key] = None if content is None else self._decoded(worker, key, content)
        return tuple(_of_worker(worker, files) for worker, files in by_worker.items())

    def _decoded(self, worker: str, key: str, content: bytes | RecordError) -> PackedIndex | None:
        known = self._known.pop(worker, None)
        try:
            if isinstance(content, RecordError):
                raise content
            known = known if known is not None and known.key == key else None
            index = self._known[worker] = decode_packed_index(content, key=key, known=known)
        except RecordError as error:
            self._report(error)
            return None
        return index


def rebuild_packed_index(store: Store) -> int:
    """Write the packed index of a run anew, from smdebug's index of every step. Return the number of steps in it.

    For a run with no packed index, or a stale one, that no process writes any more: files that a running writer stores
    beside it would only be read more slowly. A step with an unreadable index is left out, and readers find it as
    before.

    Errors: those of the store. Then the old packed index still exists, and readers make up for its gaps.
    """
    old = [key for key in store.list(PACKED_INDEX_PREFIX) if parse_packed_index_key(key)]
    started_ms = 1 + max((named[1] for key in old if (named := parse_packed_index_key(key))), default=0)
    writers: dict[str, _Rebuilding] = {}
    keys = [key for key in store.list(INDEX_PREFIX) if parse_index_key(key)]
    contents = each_in_parallel(store, lambda key: _get(store, key, MOST_JSON_BYTES), keys)
    for key, content in zip(keys, contents, strict=True):
        step, worker = parse_index_key(key) or (0, "")
        if worker not in writers:
            writers[worker] = _Rebuilding(store, worker, started_ms)
        writers[worker].add(key, step, content)
    for writer in writers.values():
        writer.store()
    for key in old:
        store.delete(key)
    return sum(writer.step_count for writer in writers.values())


class _Rebuilding:
    """The packed files of one worker, filled one after the other."""

    def __init__(self, store: Store, worker: str, started_ms: int) -> None:
        self._store = store
        self._worker, self._started_ms = worker, started_ms
        self._decoder = IndexDecoder()
        self._layouts: dict[object, PackedLayout] = {}
        self._follows: str | None = NOTHING_BEFORE
        self._key = ""
        self._file: PackedFile | None = None
        self.step_count = 0

    def add(self, key: str, step: int, content: bytes | RecordError | None) -> None:
        try:
            if content is None:
                return
            if isinstance(content, RecordError):
                raise content
            self._add(self._decoder.decode(content, key=key), step)
        except ValueError:  # damaged, or more than a row can hold: readers must look for this step themselves
            if self._follows is not None:
                self.store()
            self._follows = None
        else:
            self.step_count += 1

    def store(self) -> None:
        """Store the open file, if any."""
        if self._file is None:
            return
        self._store.put(self._key, self._file.encode())
        self._follows = None if self._follows is None else self._key
        self._file = None

    def _add(self, index: Index, step: int) -> None:
        layout = self._layout(index, step)
        if self._file is None:
            self._key = packed_index_key(self._worker, started_ms=self._started_ms, first_step=step)
            self._file = PackedFile(self._worker, follows=self._follows)
        self._file.add(step, mode=index.mode, mode_step=index.mode_step, layout=layout)
        if self._file.row_count >= REBUILT_STEPS or self._file.size_bytes >= REBUILT_BYTES:
            self.store()
            self._layouts.clear()

    def _layout(self, index: Index, step: int) -> PackedLayout:
        literal = None if index.event_key == event_key(step, self._worker) else index.event_key or ""
        what = (index.entries, index.shapes, literal)
        layout = self._layouts.get(what)
        if layout is None:
            layout = self._layouts[what] = PackedLayout(index.entries, index.shapes, literal)
        return layout


def _get(store: Store, key: str, most_bytes: int) -> bytes | RecordError | None:
    try:
        # One byte more than allowed is enough: the decoder then raises.
        return store.get(key, length=most_bytes + 1)
    except NotAFileError as error:
        return RecordError(key, 0, str(error))
    except KeyNotFoundError:  # removed since it was listed
        return None


def _of_worker(worker: str, files: Mapping[str, PackedIndex | None]) -> PackedWorker:
    readable = [file for file in files.values() if file is not None]
    readable.sort(key=lambda file: (file.started_ms, file.first_step))
    starts = itertools.accumulate((len(file.layouts) for file in readable), initial=0)
    layouts = [file.rows["layout"].astype(np.int64) + start for file, start in zip(readable, starts, strict=False)]
    steps = _joined([file.rows["step"] for file in readable])
    _, places = np.unique(steps[::-1], return_index=True)
    newest = len(steps) - 1 - places  # of two rows for one step the later holds
    return PackedWorker(
        worker=worker,
        steps=steps[newest],
        mode_steps=_joined([file.rows["mode_step"] for file in readable])[newest],
        modes=_joined([file.rows["mode"] for file in readable])[newest].astype(np.uint8),
        layouts=_joined(layouts)[newest],
        known_layouts=tuple(layout for file in readable for layout in file.layouts),
        covered_step=_covered_step(files),
    )


def _covered_step(files: Mapping[str, PackedIndex | None]) -> int | None:
    """Return the last step of the last file, if the files form one chain from the first on; else None."""
    following: dict[str | None, PackedIndex] = {}
    for file in files.values():
        if file is None or file.follows in following:
            return None
        following[file.follows] = file
    last, followed = None, 0
    next_file = following.get(NOTHING_BEFORE)
    while next_file is not None:
        last, followed = next_file, followed + 1
        next_file = following.get(last.key)
    if last is None or followed < len(files) or not len(last.rows):
        return None
    return int(last.rows["step"][-1])


def _joined(parts: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64, copy=False)
