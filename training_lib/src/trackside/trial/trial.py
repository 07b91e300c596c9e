"""The reader of a run: growing or finished, of Trackside or of smdebug."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

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
from trackside.trial.facts.run_profile import RunProfile
from trackside.trial.notebook import html_table
from trackside.trial.parts import TrialParts
from trackside.trial.series import MOST_HTML_ROWS, TensorSeries
from trackside.trial.steps.saved_tensors import REDUCTION_MARK
from trackside.trial.steps.selection import Selection, StepRange, parse_mode, parse_regex
from trackside.trial.waiting import wait_for_steps
from trackside.trial.window import Column, Panel, StepValues, Window

__all__ = ["REDUCTION_MARK", "Trial", "open_trial"]

T = TypeVar("T", bound="Trial")


def open_trial(run: str | Store) -> Trial:
    """Return the trial of a run, with all steps read that exist so far; `Trial.refresh` reads newer ones.

    Args:
        run: The run's folder or `s3://` prefix, its `debug-output`, or a folder that smdebug wrote.

    Raises:
        RunNotFoundError: Nothing at the location looks like a run.
        StorageError: The store cannot be read.
    """
    return open_as(Trial, run)


def open_as(kind: type[T], run: str | Store) -> T:
    """Return the trial of a run as a kind of trial. Else as `open_trial`."""
    store = open_store(run) if isinstance(run, str) else run
    if any(next(iter(store.list(prefix)), None) for prefix in (INDEX_PREFIX, COLLECTIONS_PREFIX, END_MARKER_KEY)):
        trial = kind(
            store,
            _beside(run, run_layout.STATISTICS),
            _beside(run, WATERMARKS),
            profiles=partial(_beside, run, run_layout.PROFILES),
        )
    elif store.exists(RULE_REQUEST_KEY) or any(
        next(iter(store.list(f"{folder}/")), None) for folder in (TENSORS, run_layout.STATISTICS, WATERMARKS)
    ):
        trial = kind(
            _below(run, TENSORS),
            _below(run, run_layout.STATISTICS),
            _below(run, WATERMARKS),
            profiles=partial(_below, run, run_layout.PROFILES),
        )
    else:
        raise RunNotFoundError(
            f"Nothing that looks like a run lies at {store.uri}. Give the folder or s3:// prefix that holds "
            f"'{TENSORS}', or the folder that holds 'index' and 'events' (a run of smdebug). "
            "A run that has only just started appears with its first saved step."
        )
    trial.refresh()
    return trial


def trial_of(run: RunLocation, stores: Callable[[str], Store] = open_store, *, will_grow: bool = True) -> Trial:
    """Return the trial of a run that may not have begun yet. Nothing is read before the first `refresh`.

    Args:
        run: The location of the run.
        stores: Opens the store at a path or an s3:// URI.
        will_grow: False if everything counts as complete, though the end is not marked.
    """
    return Trial(
        stores(run.tensors),
        stores(run.statistics),
        stores(run.watermarks),
        profiles=partial(stores, run.profiles),
        will_grow=will_grow,
    )


def _below(run: str | Store, folder: str) -> Store:
    return open_store(f"{run.rstrip('/')}/{folder}") if isinstance(run, str) else Subfolder(run, folder)


def _beside(tensors: str | Store, wanted: str) -> Store | None:
    """Return another folder of the run of these tensors; None if they are not in a run of Trackside."""
    if not isinstance(tensors, str):
        return None
    run, _, folder = tensors.rstrip("/").rpartition("/")
    if folder != TENSORS:
        return None
    return open_store(f"{run}/{wanted}" if run or tensors.startswith("/") else wanted)


class Trial:
    """A run, as far as it has been read. Nothing is read before the first `refresh`.

    Each kind of question has an object of its own, and the trial passes on the questions of users. The evaluator and
    the command line have more of them: they call `parts`, which is not public.
    Steps are optimizer steps (smdebug: global steps). Damaged files are left out, reported once in `damaged`, and the
    rest stays readable. A trial is not to be shared between threads.

    Args:
        store: The tensors.
        statistics: The statistics of every step, if the run has a place for them. Nothing of them is read before the
            first request for names or statistics.
        watermarks: The progress of the run. Without them (runs of smdebug, older runs of Trackside) completeness is
            concluded from the index and the rows.
        profiles: Opens the measurements of the run's speed, at the first request.
        will_grow: False if everything counts as complete, though the end is not marked.
        clock: Returns seconds.
    """

    def __init__(
        self,
        store: Store,
        statistics: Store | None = None,
        watermarks: Store | None = None,
        *,
        profiles: Callable[[], Store | None] = lambda: None,
        will_grow: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self.parts = TrialParts.of(store, statistics, watermarks, will_grow=will_grow, clock=clock)
        self.profile = RunProfile(profiles, self.parts.steps.times_by_worker)

    @property
    def uri(self) -> str:
        """The location of the tensors."""
        return self._store.uri

    def refresh(self) -> None:
        """Read new data. Without any, this costs one conditional GET, or one LIST for a run without watermarks.

        Errors are those of the store; earlier data stays.
        """
        self.parts.completeness.refresh()
        self.parts.columns.forget_old()

    @property
    def has_ended(self) -> bool:
        """True once the run will never write again and everything has been read."""
        return self.parts.completeness.has_ended

    @property
    def damaged(self) -> tuple[RecordError, ...]:
        """Files that could not be read, each once, in the order found."""
        return self.parts.damage.errors

    def lost_steps(self) -> dict[str, CaptureReport]:
        """Return the steps that capture could not save, by worker: how many, which, and why.

        Asks the store each time. A report that cannot be read is added to `damaged`.
        """
        return self.parts.damage.lost_steps()

    @property
    def model_facts(self) -> ModelFacts | None:
        """The newest facts about the training program, of the first worker; None for a run without facts."""
        return self.parts.facts.newest()

    def facts_at(self, step: int) -> ModelFacts | None:
        """Return `model_facts` as they were at a step.

        Args:
            step: The step.
        """
        return self.parts.facts.at(step)

    @property
    def recorded_through(self) -> int:
        """The last complete step, saved or recorded by every worker; -1 for none."""
        return self.parts.completeness.last_step()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors seen, sorted. A tensor with saved reductions only appears under its own name."""
        return self.parts.names.all()

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Return the names of the tensors in a collection, sorted; () for an unknown collection.

        Args:
            collection: The name of the collection.
            last_step: Return only tensors with data at this step or before; None for all.
        """
        return self.parts.names.members(collection, last_step)

    @property
    def collections(self) -> Mapping[str, tuple[str, ...]]:
        """The tensors of each collection that holds any, by the collection's name."""
        return self.parts.names.collections()

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
        if not self.parts.names.holds(name):
            raise TensorNotSavedError(f"No tensor {name!r} in {self.uri}. {self.parts.names.suggestion(name)}")
        return TensorSeries(self.parts, name, self._select(steps, mode, worker))

    def tensors(
        self,
        *,
        regex: str | None = None,
        collection: str | None = None,
        steps: StepRange | slice | range | int | str | None = None,
        mode: str | None = None,
        worker: str | None = None,
    ) -> tuple[TensorSeries, ...]:
        """Return the tensors that match every given condition, by name.

        Args:
            regex: A regular expression found in the name.
            collection: A collection that holds the tensor.
            steps: Steps with data of the tensor: Python's slice or range, or text: "10:200:10".
            mode: "TRAIN", "EVAL", "PREDICT" or "GLOBAL".
            worker: The name of a worker.

        Raises:
            ConfigurationError: A wrong regex, collection, mode, worker or steps.
        """
        selection = self._select(steps, mode, worker)
        pattern = parse_regex(regex) if regex is not None else None
        if collection is not None and not self.parts.names.is_collection(collection):
            fix = self.parts.names.collection_suggestion(collection)
            problem = Problem("collection", f"Unknown collection {collection!r}.", fix)
            raise ConfigurationError([problem], subject="The selection")
        names = self.names if collection is None else self.tensor_names(collection=collection)
        selected = self.parts.saved.names(selection).union(self.parts.columns.recorded_names(selection))
        return tuple(
            TensorSeries(self.parts, name, selection)
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

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers seen, sorted."""
        return self.parts.steps.workers()

    def steps(self, mode: str | None = None) -> tuple[int, ...]:
        """Return the complete steps (saved by every worker, or as complete as they will ever be), ascending.

        Args:
            mode: Return only steps of this mode; None for all.
        """
        return self.parts.steps.saved(mode)

    def new_saved_steps(self, after: int) -> Sequence[int]:
        """Return `steps` above `after`, ascending.

        Args:
            after: The step before the first one; -1 for all.
        """
        return self.parts.steps.new_saved(after)

    def new_complete_steps(self, after: int) -> Sequence[int]:
        """Return the steps above `after` that a rule may judge, saved or recorded, ascending.

        Nothing comes any more at or below a complete step: the watermarks of all workers have passed it; in a run
        without watermarks, the previous look found it. Statistics are read from the first request on.

        Args:
            after: The step before the first one; -1 for all.
        """
        return self.parts.steps.new_complete(after)

    def mode_of(self, step: int) -> str:
        """Return the mode of the first worker with a mode at this step, "GLOBAL" without one.

        Args:
            step: The step.
        """
        return self.parts.steps.mode_of(step)

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Return one column per worker over every step <= `last_step`: see `Window.statistic`.

        Args:
            tensor: The name of the tensor.
            statistic: The name of the statistic.
            last_step: The last step to include.
            mode: Include only steps of this mode; None for all.

        Raises:
            ConfigurationError: The statistic is neither in `STATISTICS` nor recorded by this run.
        """
        return self.parts.columns.columns(tensor, statistic, last_step=last_step, mode=mode)

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """Return the values of `columns` of each of the tensors at `step`: see `Window.at_step`.

        Args:
            tensors: Names of tensors.
            statistic: The name of the statistic.
            step: The step.
            mode: Include only steps of this mode; None for all.
        """
        return self.parts.columns.at_step(tensors, statistic, step=step, mode=mode)

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """Return the newest values of these tensors up to `last_step`: see `Window.newest`.

        Args:
            tensors: Names of tensors.
            statistic: The name of the statistic.
            last: The most values of each tensor.
            last_step: The last step to include.
            mode: Include only steps of this mode; None for all.
        """
        return self.parts.columns.newest(tensors, statistic, last=last, last_step=last_step, mode=mode)

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """Return the whole tensor, fetched anew on each call.

        Args:
            tensor: The name of the tensor.
            step: The step.
            worker: The name of the worker.

        Raises:
            TensorNotSavedError: It was not saved at this step by this worker.
            RecordError: Its file cannot be read.
        """
        return self.parts.values.value(tensor, step=step, worker=worker)

    def values(self, tensor: str, *, steps: Sequence[int], worker: str) -> list[NDArray[np.generic]]:
        """Return `value` at each of the steps; from S3 several at a time. The first error is raised.

        Args:
            tensor: The name of the tensor.
            steps: The steps.
            worker: The name of the worker.
        """
        return self.parts.values.values(tensor, steps=steps, worker=worker)

    def window(self, step: int, *, now: float, newest_step_at: float | None = None) -> Window:
        """Return the view of a rule at `step`.

        Args:
            step: The step to judge.
            now: The time of judging, in seconds since the epoch.
            newest_step_at: The time at which the step was seen, in seconds since the epoch; None for `now`.
        """
        seen_at = now if newest_step_at is None else newest_step_at
        mode = self.mode_of(step)
        return Window(source=self, step=step, mode=mode, now=now, newest_step_at=seen_at, profile=self.profile)

    def __repr__(self) -> str:
        count, steps = len(self.names), self.steps()
        span = f"steps {steps[0]} to {steps[-1]} ({len(steps)} saved)" if steps else "no step saved yet"
        state = "ended" if self.has_ended else "running"
        return (
            f"<Trial {self.uri!r}: {state}, {span}, {count} tensors, {len(self.parts.steps.saving_workers)} worker(s)>"
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
        if worker is not None and not self.parts.steps.is_worker(worker):
            problem = Problem("worker", f"No worker {worker!r}.", did_you_mean(worker, self.workers))
            raise ConfigurationError([problem], subject="The selection")
        return Selection(StepRange.of(steps), parse_mode(mode), worker)
