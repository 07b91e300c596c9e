"""The reader of a run: a growing one, a finished one, or one of the original smdebug."""

from __future__ import annotations

import difflib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import (
    ConfigurationError,
    KeyNotFoundError,
    Problem,
    RecordError,
    RunNotFoundError,
    TensorNotSavedError,
    did_you_mean,
)
from trackside.contracts.run_layout import (
    COLLECTIONS_PREFIX,
    END_MARKER_KEY,
    INDEX_PREFIX,
    RULE_REQUEST_KEY,
    TENSORS,
)
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.membership import Membership
from trackside.trial.notebook import html_table
from trackside.trial.selection import Selection, StepRange, parse_mode, parse_regex
from trackside.trial.series import MOST_HTML_ROWS, TensorSeries
from trackside.trial.statistics import REDUCTIONS, STATISTICS
from trackside.trial.step_index import Layout, SavedStep, StepIndex, in_parallel
from trackside.trial.tensor_head import HEAD_BYTES, TensorHead, read_head
from trackside.trial.tensors import TensorStatistics, merged_ranges, read_value
from trackside.trial.window import Column, Window

REDUCTION_MARK = "smdebug/reductions/"


def open_trial(run: str | Store) -> Trial:
    """The trial of a run: its folder or `s3://` prefix, its `debug-output`, or a folder of the original.

    Reads what is there so far; `Trial.refresh` reads on. Errors: `RunNotFoundError` where nothing lies that looks like
    a run, and those of the store.
    """
    store = open_store(run) if isinstance(run, str) else run
    if any(next(iter(store.list(prefix)), None) for prefix in (INDEX_PREFIX, COLLECTIONS_PREFIX, END_MARKER_KEY)):
        found = store
    elif next(iter(store.list(f"{TENSORS}/")), None) is not None or store.exists(RULE_REQUEST_KEY):
        found = _Below(store, TENSORS) if not isinstance(run, str) else open_store(f"{run.rstrip('/')}/{TENSORS}")
    else:
        raise RunNotFoundError(
            f"Nothing that looks like a run lies at {store.uri}. Give the folder or s3:// prefix that holds "
            f"'{TENSORS}', or the folder that holds 'index' and 'events' (a run of smdebug). "
            "A run that has only just started appears with its first saved step."
        )
    trial = Trial(found)
    trial.refresh()
    return trial


class Trial:
    """A run as it has been seen so far. Nothing is read before the first `refresh`.

    Steps are optimizer steps (smdebug: global steps). What is damaged is left out, reported once in `damaged`, and the
    rest stays readable. Not to be shared between threads.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._damaged: dict[str, RecordError] = {}
        self._index = StepIndex(store, report=self._report)
        self._membership = Membership(store, report=self._report)
        self._statistics = TensorStatistics(store, self._index, neighbours=self._names_near, report=self._report)
        self._names: frozenset[str] = frozenset()
        self._reductions: frozenset[str] = frozenset()
        self._seen_names = -1
        self._members: dict[str, tuple[str, ...]] = {}
        self._sources: dict[tuple[str, str], tuple[str, ...]] = {}
        self._collections_in: dict[Layout, frozenset[str]] = {}

    @property
    def uri(self) -> str:
        """Where the tensors lie."""
        return self._store.uri

    def refresh(self) -> None:
        """Looks for what is new: one LIST when nothing is. Errors: those of the store; then nothing has changed."""
        has_news = self._index.refresh()
        if (has_news and not self._membership.is_whole) or self._membership.worker_count is None:
            self._read_collections()
        if len(self._index.names) != self._seen_names:
            self._sort_names()

    @property
    def has_ended(self) -> bool:
        """True once the run will never write again and all it wrote has been seen."""
        return self._index.has_ended

    @property
    def damaged(self) -> tuple[RecordError, ...]:
        """Files that could not be read, each once, in the order they were met."""
        return tuple(self._damaged.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors seen, sorted; one that was saved as reductions only goes by its own name."""
        return tuple(sorted(self._names))

    def tensor_names(self, *, collection: str) -> tuple[str, ...]:
        """Names of the tensors seen so far in that collection, sorted; () for a collection that nobody knows."""
        members = self._members.get(collection)
        if members is None:
            members = self._members[collection] = self._membership.members(collection, self._names)
        return members

    @property
    def collections(self) -> Mapping[str, tuple[str, ...]]:
        """The tensors of each collection that holds any, by the collection's name."""
        found = {name: self.tensor_names(collection=name) for name in sorted(self._membership.known())}
        return {name: tensors for name, tensors in found.items() if tensors}

    def tensor(
        self,
        name: str,
        *,
        steps: StepRange | slice | range | int | str | None = None,
        mode: str | None = None,
        worker: str | None = None,
    ) -> TensorSeries:
        """One tensor over its steps; `steps` as Python's slice or range, or as text: "10:200:10".

        Errors: `TensorNotSavedError` for a name that the run does not hold; `ConfigurationError` for a mode or worker
        that there is not, or steps that make no sense.
        """
        if name not in self._names:
            raise TensorNotSavedError(f"No tensor {name!r} in {self.uri}. {_names_that_work(name, self._names)}")
        return TensorSeries(self, name, self._select(steps, mode, worker))

    def tensors(
        self,
        *,
        regex: str | None = None,
        collection: str | None = None,
        steps: StepRange | slice | range | int | str | None = None,
        mode: str | None = None,
        worker: str | None = None,
    ) -> tuple[TensorSeries, ...]:
        """The tensors whose name the regex finds, that belong to the collection and were saved there; by name.

        Errors: `ConfigurationError` for a regex, collection, mode, worker or steps that there cannot be.
        """
        selection = self._select(steps, mode, worker)
        pattern = parse_regex(regex) if regex is not None else None
        if collection is not None and collection not in self._membership.known():
            problem = Problem("collection", f"Unknown collection {collection!r}.", self._collections_hint(collection))
            raise ConfigurationError([problem], subject="The selection")
        names = self.names if collection is None else self.tensor_names(collection=collection)
        layouts = {saved.layout for saved in self._complete_arrivals() if selection.covers(saved)}
        saved_names = {_base_name(name) for layout in layouts for name in layout.records}
        return tuple(
            TensorSeries(self, name, selection)
            for name in names
            if name in saved_names and (pattern is None or pattern.search(name))
        )

    def follow(
        self,
        *,
        poll_seconds: float = 1.0,
        after: int = -1,
        until: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> Iterator[int]:
        """Complete steps above `after`, ascending, those to come included, until the run has ended or `until` is true.

        `until` is asked before each step and each pause of `poll_seconds`. Errors: `ConfigurationError` for a pause of
        nothing; those of the store, after which `follow(after=last)` goes on.
        """
        if not (math.isfinite(poll_seconds) and poll_seconds > 0):
            problem = Problem("poll_seconds", f"{poll_seconds!r} is no pause.", "Give seconds above 0, such as 1.")
            raise ConfigurationError([problem], subject="Following a run")
        return self._follow(poll_seconds, after, until, sleep)

    def saved_steps(self, tensor: str, selection: Selection | None = None) -> tuple[SavedStep, ...]:
        """What each worker saved of this tensor, or of its reductions, at complete steps; in the order found."""
        chosen = selection or Selection()
        holds: dict[Layout, bool] = {}
        found = []
        for saved in self._complete_arrivals():
            if saved.layout not in holds:
                holds[saved.layout] = tensor in {_base_name(name) for name in saved.layout.records}
            if holds[saved.layout] and chosen.covers(saved):
                found.append(saved)
        return tuple(found)

    def selected_columns(self, tensor: str, statistic: str, selection: Selection) -> tuple[Column, ...]:
        """`columns` over the selected complete steps; workers without a number are left out.

        Errors: `ConfigurationError` for a statistic that is not in `STATISTICS`.
        """
        last = self._index.last_complete
        columns = self.columns(tensor, statistic, last_step=-1 if last is None else last, mode=selection.mode)
        wanted = (column for column in columns if selection.worker in {None, column.worker})
        if selection.steps == StepRange():
            return tuple(wanted)
        masks = ((c, np.array([int(step) in selection.steps for step in c.steps], bool)) for c in wanted)
        return tuple(Column(c.tensor, c.worker, c.steps[m], c.values[m]) for c, m in masks if m.any())

    def heads(self, series: Iterable[TensorSeries]) -> dict[str, TensorHead]:
        """Shape and type of each tensor as it was last saved, from the first bytes of its record.

        Those of which only reductions were saved, and those that cannot be read, are left out. Records that lie close
        together cost one request, whole steps of a small model one for all. Errors: those of the store.
        """
        wanted: dict[SavedStep, list[str]] = {}
        for one in series:
            saved = [s for s in self.saved_steps(one.name, one.selection) if one.name in s.layout.records]
            if saved:
                wanted.setdefault(max(saved, key=lambda s: s.step), []).append(one.name)
        pieces = [
            (saved, *piece) for saved, names in wanted.items() for piece in merged_ranges(_heads_of(saved, names))
        ]
        found = in_parallel(self._store, self._heads_in, pieces)
        return {name: head for heads in found for name, head in heads.items()}

    def __repr__(self) -> str:
        count, steps = len(self._names), self._index.complete_steps()
        span = f"steps {steps[0]} to {steps[-1]} ({len(steps)} saved)" if steps else "no step saved yet"
        state = "ended" if self.has_ended else "running"
        return f"<Trial {self.uri!r}: {state}, {span}, {count} tensors, {len(self._index.workers)} worker(s)>"

    def _repr_html_(self) -> str:
        members = self.collections
        shown = self.names[:MOST_HTML_ROWS]
        rows = [[name, ", ".join(c for c, names in members.items() if name in names)] for name in shown]
        count = len(self._names)
        left_out = f"The first {MOST_HTML_ROWS} of {count} tensors." if count > MOST_HTML_ROWS else ""
        return html_table(repr(self), ["tensor", "collections"], rows, note=left_out)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers seen, sorted."""
        return tuple(sorted(self._index.workers))

    def steps(self, mode: str | None = None) -> tuple[int, ...]:
        """Complete steps (saved by every worker, or as complete as they will ever be), ascending."""
        steps = self._index.complete_steps()
        return tuple(steps) if mode is None else tuple(step for step in steps if self.mode_of(step) == mode)

    def new_complete_steps(self, after: int) -> Sequence[int]:
        """Complete steps above `after`, ascending; -1 for all."""
        return self._index.complete_steps(after=after)

    def mode_of(self, step: int) -> str:
        """The mode of a step: of the first worker that says so, "GLOBAL" if none does."""
        return next((saved.mode for saved in self._index.saved(step).values()), "GLOBAL")

    def collections_at(self, step: int) -> frozenset[str]:
        """Names of the collections of which at least one tensor was saved at this step."""
        return frozenset[str]().union(*(self._collections_of(s.layout) for s in self._index.saved(step).values()))

    def is_damaged(self, step: int) -> bool:
        """True if a file of this step has turned out to be unreadable."""
        keys = {saved.event_key for saved in self._index.saved(step).values()}
        return not keys.isdisjoint(self._damaged) or self._index.has_unreadable_index(step)

    def event_key(self, step: int, worker: str) -> str:
        """Key of the event file of one step and worker, or "" if it saved none."""
        saved = self._index.saved(step).get(worker)
        return saved.event_key if saved else ""

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """One column per worker over every saved step <= `last_step`: see `Window.statistic`.

        Errors: `ConfigurationError` for a statistic that is not in `STATISTICS`.
        """
        sources = self._sources.get((tensor, statistic))
        if sources is None:
            sources = self._sources[tensor, statistic] = self._find_sources(tensor, statistic)
        return self._statistics.columns(tensor, statistic, sources, last_step=last_step, mode=mode)

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """The whole tensor, fetched anew on each call.

        Errors: `TensorNotSavedError`; `RecordError` where its file cannot be read.
        """
        saved = self._index.saved(step).get(worker)
        if saved is None or tensor not in saved.layout.records:
            raise TensorNotSavedError(self._why_not_saved(tensor, step=step, worker=worker))
        try:
            return read_value(self._store, saved, tensor)
        except KeyNotFoundError as error:
            damage = RecordError(saved.event_key, 0, "the index names this event file, but it is not there.")
            self._report(damage)
            raise damage from error
        except RecordError as damage:
            self._report(damage)
            raise

    def window(self, step: int, *, now: float, newest_step_at: float | None = None) -> Window:
        """What a rule may see at `step`; times in seconds since the epoch."""
        seen_at = now if newest_step_at is None else newest_step_at
        return Window(source=self, step=step, mode=self.mode_of(step), now=now, newest_step_at=seen_at)

    def _follow(
        self, poll_seconds: float, after: int, until: Callable[[], bool], sleep: Callable[[float], object]
    ) -> Iterator[int]:
        from trackside.trial.waiting import wait_for_steps  # it waits for a trial

        while steps := wait_for_steps(self, after=after, poll_seconds=poll_seconds, sleep=sleep, should_stop=until):
            for step in tuple(steps):
                if until():
                    return
                after = step
                yield step

    def _select(
        self, steps: StepRange | slice | range | int | str | None, mode: str | None, worker: str | None
    ) -> Selection:
        if worker is not None and worker not in self._index.workers:
            problem = Problem("worker", f"No worker {worker!r}.", did_you_mean(worker, self._index.workers))
            raise ConfigurationError([problem], subject="The selection")
        return Selection(StepRange.of(steps), parse_mode(mode), worker)

    def _collections_hint(self, collection: str) -> str:
        return did_you_mean(collection, self._membership.known())

    def _complete_arrivals(self) -> Iterator[SavedStep]:
        last = self._index.last_complete
        return (saved for saved in self._index.arrivals if last is not None and saved.step <= last)

    def _heads_in(self, piece: tuple[SavedStep, int, int, list[str]]) -> dict[str, TensorHead]:
        saved, start, end, names = piece
        try:
            data = self._store.get(saved.event_key, start=start, length=end - start)
        except KeyNotFoundError:
            self._report(RecordError(saved.event_key, 0, "the index names this event file, but it is not there."))
            return {}
        places = ((name, saved.layout.records[name][0] - start) for name in names)
        parts = ((name, data[place : place + HEAD_BYTES]) for name, place in places)
        heads = ((name, self._head(saved, name, part)) for name, part in parts)
        return {name: head for name, head in heads if head is not None}

    def _head(self, saved: SavedStep, name: str, data: bytes) -> TensorHead | None:
        key, (offset, length) = saved.event_key, saved.layout.records[name]
        try:
            head = read_head(data[:length], name=name, key=key, offset=offset)
            if head is None and length > len(data):  # a very long name
                data = self._store.get(key, start=offset, length=length)
                head = read_head(data, name=name, key=key, offset=offset)
            if head is None:
                raise RecordError(key, offset, f"the record of {name!r} ends before its shape.")
        except RecordError as damage:
            self._report(damage)
            return None
        return head

    def _report(self, error: RecordError) -> None:
        self._damaged.setdefault(error.key, error)

    def _read_collections(self) -> None:
        if not self._membership.refresh():
            return
        self._members.clear()
        self._collections_in.clear()
        if self._membership.worker_count is not None:
            self._index.expect_workers(self._membership.worker_count)

    def _sort_names(self) -> None:
        self._seen_names = len(self._index.names)
        self._reductions = frozenset(name for name in self._index.names if REDUCTION_MARK in name)
        self._names = frozenset(_base_name(name) for name in self._index.names)
        self._members.clear()
        self._sources.clear()

    def _collections_of(self, layout: Layout) -> frozenset[str]:
        found = self._collections_in.get(layout)
        if found is None:
            names = {_base_name(name) for name in layout.records}
            known = self._membership.known()
            found = frozenset(name for name in known if self._membership.members(name, names))
            self._collections_in[layout] = found
        return found

    def _names_near(self, tensor: str) -> Iterable[str]:
        groups = (self.tensor_names(collection=name) for name in sorted(self._membership.known()))
        return {name for group in groups if tensor in group for name in group}

    def _find_sources(self, tensor: str, statistic: str) -> tuple[str, ...]:
        if statistic not in STATISTICS:
            problem = Problem("statistic", f"Unknown statistic {statistic!r}.", did_you_mean(statistic, STATISTICS))
            raise ConfigurationError([problem], subject="A question to a window")
        # Old frameworks' hooks strip ":0" from the tensor's name when they save its reductions.
        bases = dict.fromkeys((tensor, re.sub(r":\d+", "", tensor)))
        spelled = (f"{REDUCTION_MARK}{word}/{base}" for word in REDUCTIONS.get(statistic, ()) for base in bases)
        return (*(name for name in spelled if name in self._reductions), tensor)

    def _why_not_saved(self, tensor: str, *, step: int, worker: str) -> str:
        what = f"{tensor!r} was not saved at step {step} by {worker}."
        if tensor not in self._names:
            return f"{what} {did_you_mean(tensor, self._names)}"
        if any(_base_name(name) == tensor for name in self._reductions) and tensor not in self._index.names:
            return f"{what} The run holds its reductions only: ask for a statistic instead."
        return f"{what} It was saved at other steps, or by other workers."


def _heads_of(saved: SavedStep, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    records = saved.layout.records
    return {name: (records[name][0], min(records[name][1], HEAD_BYTES)) for name in names}


def _names_that_work(wrong: str, names: Iterable[str]) -> str:
    """The nearest names, else a few: a run may hold thousands."""
    known = sorted(names)
    near = difflib.get_close_matches(wrong, known, n=3)
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    if not known:
        return "It holds no tensor yet."
    rest = f" and {len(known) - 5} more: `trackside tensors` lists them" if len(known) > 5 else ""
    return f"It holds {', '.join(map(repr, known[:5]))}{rest}."


def _base_name(name: str) -> str:
    """`smdebug/reductions/abs_mean/fc.weight` -> `fc.weight`; any other name is its own."""
    _, mark, reduced = name.partition(REDUCTION_MARK)
    return reduced.partition("/")[2] if mark else name


class _Below:
    """Part of a store as a store: for a run that was handed over as one."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, f"{folder}/"

    @property
    def uri(self) -> str:
        return f"{self._store.uri.rstrip('/')}/{self._folder.rstrip('/')}"

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._store.put(self._folder + key, data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        return self._store.get(self._folder + key, start=start, length=length)

    def exists(self, key: str) -> bool:
        return self._store.exists(self._folder + key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        after = self._folder + start_after if start_after else ""
        return (key[len(self._folder) :] for key in self._store.list(self._folder + prefix, start_after=after))

    def delete(self, key: str) -> None:
        self._store.delete(self._folder + key)
