"""The reader of a run: a growing one, a finished one, or one of the original smdebug."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts import run_layout
from trackside.contracts.errors import (
    ConfigurationError,
    Problem,
    RecordError,
    RunNotFoundError,
    TensorNotSavedError,
    did_you_mean,
)
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run_layout import (
    COLLECTIONS_PREFIX,
    END_MARKER_KEY,
    INDEX_PREFIX,
    RULE_REQUEST_KEY,
    TENSORS,
    WATERMARKS,
    RunLocation,
)
from trackside.records.capture_report import CaptureReport
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.storage.subfolder import Subfolder
from trackside.trial.notebook import html_table
from trackside.trial.parts import TrialParts
from trackside.trial.saved_step import SavedStep
from trackside.trial.saved_tensors import REDUCTION_MARK
from trackside.trial.selection import Selection, StepRange, parse_mode, parse_regex
from trackside.trial.series import MOST_HTML_ROWS, TensorSeries
from trackside.trial.tensor_head import TensorHead
from trackside.trial.waiting import wait_for_steps
from trackside.trial.window import Column, Panel, StepValues, Window

__all__ = ["REDUCTION_MARK", "Trial", "open_trial"]


def open_trial(run: str | Store) -> Trial:
    """The trial of a run: its folder or `s3://` prefix, its `debug-output`, or a folder of the original.

    Reads what is there so far; `Trial.refresh` reads on. Errors: `RunNotFoundError` where nothing lies that looks like
    a run, and those of the store.
    """
    store = open_store(run) if isinstance(run, str) else run
    if any(next(iter(store.list(prefix)), None) for prefix in (INDEX_PREFIX, COLLECTIONS_PREFIX, END_MARKER_KEY)):
        trial = Trial(store, _beside(run, run_layout.STATISTICS), _beside(run, WATERMARKS))
    elif store.exists(RULE_REQUEST_KEY) or any(
        next(iter(store.list(f"{folder}/")), None) for folder in (TENSORS, run_layout.STATISTICS, WATERMARKS)
    ):
        trial = Trial(_below(run, TENSORS), _below(run, run_layout.STATISTICS), _below(run, WATERMARKS))
    else:
        raise RunNotFoundError(
            f"Nothing that looks like a run lies at {store.uri}. Give the folder or s3:// prefix that holds "
            f"'{TENSORS}', or the folder that holds 'index' and 'events' (a run of smdebug). "
            "A run that has only just started appears with its first saved step."
        )
    trial.refresh()
    return trial


def trial_of(run: RunLocation, stores: Callable[[str], Store] = open_store, *, will_grow: bool = True) -> Trial:
    """The trial of a run that may not have begun yet. Nothing is read before the first `refresh`."""
    return Trial(stores(run.tensors), stores(run.statistics), stores(run.watermarks), will_grow=will_grow)


def _below(run: str | Store, folder: str) -> Store:
    return open_store(f"{run.rstrip('/')}/{folder}") if isinstance(run, str) else Subfolder(run, folder)


def _beside(tensors: str | Store, wanted: str) -> Store | None:
    """Another folder of the run that these tensors are of; None where they are no part of a run of ours."""
    if not isinstance(tensors, str):
        return None
    run, _, folder = tensors.rstrip("/").rpartition("/")
    if folder != TENSORS:
        return None
    return open_store(f"{run}/{wanted}" if run or tensors.startswith("/") else wanted)


class Trial:
    """A run as it has been seen so far. Nothing is read before the first `refresh`.

    Each kind of question has an object of its own (`trial.parts`), and the trial passes the questions on.

    Steps are optimizer steps (smdebug: global steps). Damaged files are left out, reported once in `damaged`, and the
    rest stays readable. A trial is not to be shared between threads.

    Args:
        store: The tensors.
        statistics: The statistics of every step, where the run has a place for them. They are read once somebody asks
            for names or statistics.
        watermarks: The progress of the run. Without them (runs of the original, older ones of ours) completeness is
            concluded from the index and the rows.
        will_grow: False if everything counts as complete, though the end is not marked.
        clock: Returns seconds.
    """

    def __init__(
        self,
        store: Store,
        statistics: Store | None = None,
        watermarks: Store | None = None,
        *,
        will_grow: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._parts = TrialParts.of(store, statistics, watermarks, will_grow=will_grow, clock=clock)

    @property
    def uri(self) -> str:
        """The location of the tensors."""
        return self._store.uri

    @property
    def version(self) -> tuple[int, int | None]:
        """A value that changes whenever a refresh brought a step, or completed one."""
        return self._parts.completeness.version

    def refresh(self) -> None:
        """Read what is new: one conditional GET where nothing is; of a run without watermarks one LIST.

        Errors are those of the store; what was read before stays.
        """
        self._parts.completeness.refresh()
        self._parts.columns.forget_old()

    @property
    def has_ended(self) -> bool:
        """True once the run will never write again and everything has been read."""
        return self._parts.completeness.has_ended

    @property
    def damaged(self) -> tuple[RecordError, ...]:
        """Files that could not be read, each once, in the order found."""
        return self._parts.damage.errors

    def lost_steps(self) -> dict[str, CaptureReport]:
        """Return the steps that capture could not save, by worker: how many, which, and why.

        Asks the store each time. A report that cannot be read is added to `damaged`.
        """
        return self._parts.damage.lost_steps()

    @property
    def model_facts(self) -> ModelFacts | None:
        """The newest facts about the training program, of the first worker; None for a run without facts."""
        return self._parts.facts.newest()

    def model_facts_of(self, worker: str) -> tuple[ModelFacts, ...]:
        """Return all facts of one worker, oldest first."""
        return self._parts.facts.revisions(worker)

    def facts_at(self, step: int) -> ModelFacts | None:
        """Return `model_facts` as they were at a step."""
        return self._parts.facts.at(step)

    @property
    def recorded_through(self) -> int:
        """The last complete step, saved or recorded by every worker; -1 for none."""
        return self._parts.completeness.last_step()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors seen, sorted; a tensor of which only reductions were saved has its own name here."""
        return self._parts.names.all()

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Return the names of the tensors in a collection, sorted; () for an unknown collection.

        With `last_step`, only those with anything saved or recorded at that step or before.
        """
        return self._parts.names.members(collection, last_step)

    @property
    def collections(self) -> Mapping[str, tuple[str, ...]]:
        """The tensors of each collection that holds any, by the collection's name."""
        return self._parts.names.collections()

    def tensor(
        self,
        name: str,
        *,
        steps: StepRange | slice | range | int | str | None = None,
        mode: str | None = None,
        worker: str | None = None,
    ) -> TensorSeries:
        """Return one tensor over its steps.

        Args:
            name: The name of the tensor.
            steps: Python's slice or range, or text: "10:200:10".
            mode: "TRAIN", "EVAL", "PREDICT" or "GLOBAL".
            worker: The name of a worker.

        Raises:
            TensorNotSavedError: The run does not hold the tensor.
            ConfigurationError: An unknown mode or worker, or steps that make no sense.
        """
        if not self._parts.names.holds(name):
            raise TensorNotSavedError(f"No tensor {name!r} in {self.uri}. {self._parts.names.suggestion(name)}")
        return TensorSeries(self._parts, name, self._select(steps, mode, worker))

    def tensors(
        self,
        *,
        regex: str | None = None,
        collection: str | None = None,
        steps: StepRange | slice | range | int | str | None = None,
        mode: str | None = None,
        worker: str | None = None,
    ) -> tuple[TensorSeries, ...]:
        """Return the tensors that the regex finds, that belong to the collection and were saved there, by name.

        Raises:
            ConfigurationError: A wrong regex, collection, mode, worker or steps.
        """
        selection = self._select(steps, mode, worker)
        pattern = parse_regex(regex) if regex is not None else None
        if collection is not None and not self._parts.names.is_collection(collection):
            fix = self._parts.names.collection_suggestion(collection)
            problem = Problem("collection", f"Unknown collection {collection!r}.", fix)
            raise ConfigurationError([problem], subject="The selection")
        names = self.names if collection is None else self.tensor_names(collection=collection)
        selected = self._parts.saved.names(selection).union(self._parts.columns.recorded_names(selection))
        return tuple(
            TensorSeries(self._parts, name, selection)
            for name in names
            if name in selected and (pattern is None or pattern.search(name))
        )

    def follow(
        self,
        *,
        poll_seconds: float = 1.0,
        after: int = -1,
        until: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> Iterator[int]:
        """Return complete saved steps above `after`, ascending, new ones too, until the run has ended.

        Args:
            poll_seconds: The pause between two looks.
            after: The step before the first one; -1 for all.
            until: Asked before each step and each pause: True ends the iteration.
            sleep: Called with the seconds of a pause.

        Raises:
            ConfigurationError: A pause of nothing.
        """
        if not (math.isfinite(poll_seconds) and poll_seconds > 0):
            problem = Problem("poll_seconds", f"{poll_seconds!r} is no pause.", "Give seconds above 0, such as 1.")
            raise ConfigurationError([problem], subject="Following a run")
        return self._follow(poll_seconds, after, until, sleep)

    def saved_steps(self, tensor: str, selection: Selection | None = None) -> tuple[SavedStep, ...]:
        """Return each complete step and worker with this tensor or its reductions, in the order found."""
        return self._parts.saved.saved(tensor, selection or Selection())

    def heads(self, series: Iterable[TensorSeries]) -> dict[str, TensorHead]:
        """Return shape and type of each tensor as it was last saved, from the first bytes of its record.

        Tensors with reductions only, and those that cannot be read, are left out. Records that lie close together cost
        one request, whole steps of a small model one for all.
        """
        wanted: dict[SavedStep, list[str]] = {}
        for one in series:
            saved = self._parts.saved.newest(one.name, one.selection)
            if saved is not None:
                wanted.setdefault(saved, []).append(one.name)
        return self._parts.values.heads(wanted)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers seen, sorted."""
        return self._parts.steps.workers()

    def has_several_workers(self, last_step: int) -> bool:
        """True if more than one worker saved or recorded anything at `last_step` or before."""
        return self._parts.steps.has_several_workers(last_step)

    def steps(self, mode: str | None = None) -> tuple[int, ...]:
        """Return the complete steps (saved by every worker, or as complete as they will ever be), ascending."""
        return self._parts.steps.saved(mode)

    def new_saved_steps(self, after: int) -> Sequence[int]:
        """Return `steps` above `after`, ascending; -1 for all."""
        return self._parts.steps.new_saved(after)

    def new_complete_steps(self, after: int) -> Sequence[int]:
        """Return the steps above `after` that a rule may judge, saved or recorded, ascending; -1 for all.

        Nothing comes any more at or below a complete step: the watermarks of all workers have passed it; in a run
        without watermarks, it was found by the look before. Statistics are read with the first question.
        """
        return self._parts.steps.new_complete(after)

    def mode_of(self, step: int) -> str:
        """Return the mode of the first worker with a mode at this step, "GLOBAL" without one."""
        return self._parts.steps.mode_of(step)

    def collections_at(self, step: int) -> frozenset[str]:
        """Return the collections with a saved tensor, or with any recorded statistic, at this step."""
        return self._parts.steps.collections_at(step)

    def saved_collections_at(self, step: int) -> frozenset[str]:
        """Return the collections with a saved tensor at this step."""
        return self._parts.steps.saved_collections_at(step)

    def is_saved(self, step: int) -> bool:
        """True if a worker saved tensors at this step; else it has statistics at most."""
        return self._parts.steps.is_saved(step)

    def is_damaged(self, step: int) -> bool:
        """True if a file of this step has turned out to be unreadable."""
        return self._parts.steps.is_damaged(step)

    def event_key(self, step: int, worker: str) -> str:
        """Return the key of the event file of one step and worker, "" if it saved none."""
        return self._parts.steps.event_key(step, worker)

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Return one column per worker over every step <= `last_step`: see `Window.statistic`.

        Raises:
            ConfigurationError: The statistic is neither in `STATISTICS` nor recorded by this run.
        """
        return self._parts.columns.columns(tensor, statistic, last_step=last_step, mode=mode)

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """Return the values of `columns` of each of the tensors at `step`: see `Window.at_step`."""
        return self._parts.columns.at_step(tensors, statistic, step=step, mode=mode)

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """Return the newest values of these tensors up to `last_step`: see `Window.newest`."""
        return self._parts.columns.newest(tensors, statistic, last=last, last_step=last_step, mode=mode)

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """Return the whole tensor, fetched anew on each call.

        Raises:
            TensorNotSavedError: It was not saved at this step by this worker.
            RecordError: Its file cannot be read.
        """
        return self._parts.values.value(tensor, step=step, worker=worker)

    def values(self, tensor: str, *, steps: Sequence[int], worker: str) -> list[NDArray[np.generic]]:
        """Return `value` at each of the steps; from S3 several at a time. The first error is raised."""
        return self._parts.values.values(tensor, steps=steps, worker=worker)

    def window(self, step: int, *, now: float, newest_step_at: float | None = None) -> Window:
        """Return the view of a rule at `step`; times in seconds since the epoch."""
        seen_at = now if newest_step_at is None else newest_step_at
        return Window(source=self, step=step, mode=self.mode_of(step), now=now, newest_step_at=seen_at)

    def __repr__(self) -> str:
        count, steps = len(self.names), self.steps()
        span = f"steps {steps[0]} to {steps[-1]} ({len(steps)} saved)" if steps else "no step saved yet"
        state = "ended" if self.has_ended else "running"
        return (
            f"<Trial {self.uri!r}: {state}, {span}, {count} tensors, {len(self._parts.steps.saving_workers)} worker(s)>"
        )

    def _repr_html_(self) -> str:
        members = {collection: frozenset(names) for collection, names in self.collections.items()}
        shown = self.names[:MOST_HTML_ROWS]
        rows = [[name, ", ".join(c for c, names in members.items() if name in names)] for name in shown]
        count = len(self.names)
        left_out = f"The first {MOST_HTML_ROWS} of {count} tensors." if count > MOST_HTML_ROWS else ""
        return html_table(repr(self), ["tensor", "collections"], rows, note=left_out)

    def _follow(
        self, poll_seconds: float, after: int, until: Callable[[], bool], sleep: Callable[[float], object]
    ) -> Iterator[int]:
        while steps := wait_for_steps(self, after=after, poll_seconds=poll_seconds, sleep=sleep, should_stop=until):
            for step in tuple(steps):
                if until():
                    return
                after = step
                yield step

    def _select(
        self, steps: StepRange | slice | range | int | str | None, mode: str | None, worker: str | None
    ) -> Selection:
        if worker is not None and not self._parts.steps.is_worker(worker):
            problem = Problem("worker", f"No worker {worker!r}.", did_you_mean(worker, self.workers))
            raise ConfigurationError([problem], subject="The selection")
        return Selection(StepRange.of(steps), parse_mode(mode), worker)
