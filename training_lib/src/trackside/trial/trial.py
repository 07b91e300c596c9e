"""The reader of a run: a growing one, a finished one, or one of the original smdebug."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

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
from trackside.records.tfevents import decode_record
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.membership import Membership
from trackside.trial.statistics import REDUCTIONS, STATISTICS
from trackside.trial.step_index import Layout, StepIndex
from trackside.trial.tensors import TensorStatistics
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
        start, length = saved.layout.records[tensor]
        try:
            data = self._store.get(saved.event_key, start=start, length=length)
            return decode_record(data, key=saved.event_key, offset=start).value
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
