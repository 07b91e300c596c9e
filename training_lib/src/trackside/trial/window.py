"""The view of a rule: one frozen moment of a run, up to one step."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run.recorded_names import RESTED_STEPS
from trackside.records.machine.performance_facts import PerformanceFacts
from trackside.trial.rests import NO_RESTS, Rests, longest_of

MOST_IN_PANEL = 64  # values that a panel may show of a column
_OWN = "the window's own"


@dataclass(frozen=True)
class Column:
    """One statistic of one tensor of one worker over its saved steps, oldest first.

    steps   int64 of shape (n,), n >= 1
    values  float64 of shape (n,)
    """

    tensor: str
    worker: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def series(self) -> tuple[tuple[int, float], ...]:
        """The newest 20 points as (step, value) pairs: the evidence of a finding."""
        return tuple((int(s), float(v)) for s, v in zip(self.steps[-20:], self.values[-20:], strict=True))


@dataclass(frozen=True)
class StepValues:
    """One statistic of many tensors at one step.

    tensors, workers   of each value, in any order; a tensor without a value at this step is left out
    values             float64 of shape (n,)
    unknown            the tensors without a value up to this step
    """

    tensors: tuple[str, ...]
    workers: tuple[str, ...]
    values: NDArray[np.float64]
    unknown: tuple[str, ...]

    def by_worker(self) -> dict[str, dict[str, float]]:
        """Return the values by worker, then by tensor."""
        found: dict[str, dict[str, float]] = {}
        for tensor, worker, value in zip(self.tensors, self.workers, self.values.tolist(), strict=True):
            found.setdefault(worker, {})[tensor] = value
        return found


@dataclass(frozen=True)
class Panel:
    """The newest values of one statistic of tensors that were measured at the same steps.

    tensors, workers   of each column
    count              the number of values of each column so far, at least 1
    oldest             their first values, at most `MOST_IN_PANEL`: float64 of shape (columns, m), m >= 1
    newest             their newest values, oldest first: float64 of shape (columns, n), n >= 1
    """

    tensors: tuple[str, ...]
    workers: tuple[str, ...]
    count: int
    oldest: NDArray[np.float64]
    newest: NDArray[np.float64]

    def of_worker(self, worker: str) -> Panel:
        """Return the columns of one worker.

        Args:
            worker: The name of a worker with at least one column.
        """
        if all(one == worker for one in self.workers):
            return self
        places = [place for place, one in enumerate(self.workers) if one == worker]
        tensors = tuple([self.tensors[place] for place in places])
        return Panel(tensors, (worker,) * len(places), self.count, self.oldest[places], self.newest[places])


@dataclass(frozen=True)
class MachineSeries:
    """One number of a machine over time, oldest first.

    node    name of the machine: `algo-1`
    name    its device: `gpu0`
    times   float64 of shape (n,), n >= 1, ascending: seconds since the epoch
    values  float64 of shape (n,)
    """

    node: str
    name: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]


class ProfileSource(Protocol):
    """The measurements of a run's speed beside its steps."""

    def machine(self, dimension: str, *, name: str, until: float) -> tuple[MachineSeries, ...]:
        """Return a metric of the machines, as one series for each device.

        Args:
            dimension: The metric: `GPUUtilization`.
            name: Only of devices of this name; "" for all.
            until: The newest moment, in seconds since the epoch.
        """

    def facts(self) -> Mapping[str, PerformanceFacts]:
        """Return the newest facts about the speed of each worker, by its name."""

    def ended_at(self, step: int) -> float:
        """Return the moment up to which the samples of a step have arrived, in seconds since the epoch.

        Args:
            step: The step.
        """

    def step_at(self, moment: float) -> int:
        """Return the newest training step that had ended at a moment; 0 before the first.

        Args:
            moment: Seconds since the epoch.
        """

    def first_end(self) -> float | None:
        """Return the end of the first training step, in seconds since the epoch; None for a run without."""


class _NoProfile:
    """The profile of a run without one."""

    def machine(self, dimension: str, *, name: str, until: float) -> tuple[MachineSeries, ...]:
        """Implement `ProfileSource.machine`."""
        return ()

    def facts(self) -> Mapping[str, PerformanceFacts]:
        """Implement `ProfileSource.facts`."""
        return {}

    def ended_at(self, step: int) -> float:
        """Implement `ProfileSource.ended_at`."""
        return -math.inf

    def step_at(self, moment: float) -> int:
        """Implement `ProfileSource.step_at`."""
        return 0

    def first_end(self) -> float | None:
        """Implement `ProfileSource.first_end`."""
        return None


class TensorSource(Protocol):
    """The data behind a window: a trial, or a view of one."""

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Return the names of the tensors in a collection, sorted.

        Args:
            collection: The name of the collection.
            last_step: Return only tensors with data at this step or before; None for all seen so far.
        """

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Return one column per worker over every saved step <= `last_step`.

        Args:
            tensor: The name of the tensor.
            statistic: The name of the statistic.
            last_step: The last step to include.
            mode: Include only steps of this mode; None for all.
        """

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """Return the values of `columns` of each tensor at `step`, and the tensors without a value up to then.

        Args:
            tensors: Names of tensors.
            statistic: The name of the statistic.
            step: The step.
            mode: Include only steps of this mode; None for all.
        """

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """Return the newest `last` values of each of the `columns` of these tensors; all values of a shorter column.

        Args:
            tensors: Names of tensors.
            statistic: The name of the statistic.
            last: The most values of each column.
            last_step: The last step to include.
            mode: Include only steps of this mode; None for all.
        """

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """Return the whole tensor.

        Args:
            tensor: The name of the tensor.
            step: The step.
            worker: The name of the worker.
        """

    def facts_at(self, step: int) -> ModelFacts | None:
        """Return the facts about the training program at a step; None for a run without facts.

        Args:
            step: The step.
        """


class _Kept:
    """The answers of a window that all rules ask for at a step.

    names      the tensors by collection
    has_facts  True once the facts were read
    facts      the facts about the training program
    rests      the rests by worker; None before they are read
    """

    __slots__ = ("facts", "has_facts", "names", "rests")

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, ...]] = {}
        self.has_facts = False
        self.facts: ModelFacts | None = None
        self.rests: Mapping[str, Rests] | None = None


@dataclass(frozen=True)
class Window:
    """A run as a rule may see it at `step`: nothing newer, and the same however often it is read.

    source          the data
    step            the step to judge
    mode            the step's mode: "TRAIN", "EVAL", "PREDICT" or "GLOBAL"
    now             the time of judging, in seconds since the epoch
    newest_step_at  the time at which `step` was seen, in seconds since the epoch
    others          runs that the rule compares with, by the names in its parameter; unreadable ones are left out
    is_last         True for the last step of a run that has ended
    profile         the measurements of the run's speed
    """

    source: TensorSource
    step: int
    mode: str
    now: float
    newest_step_at: float
    others: Mapping[str, TensorSource] = field(default_factory=dict)
    is_last: bool = False
    profile: ProfileSource = field(default_factory=_NoProfile)
    _kept: _Kept = field(default_factory=_Kept, init=False, repr=False, compare=False)

    def seen_through(self, source: TensorSource) -> Window:
        """Return the same window of a source that passes on this one's data. Both look up names and facts once.

        `dataclasses.replace` would take longer than most rules.

        Args:
            source: The data.
        """
        window = object.__new__(Window)
        vars(window).update(vars(self), source=source)
        return window

    @property
    def facts(self) -> ModelFacts | None:
        """The facts about the training program at this step; None for a run without them, or with newer ones only.

        The last step of a run that has ended has those of its end.
        """
        if not self._kept.has_facts:
            facts = self.source.facts_at(sys.maxsize if self.is_last else self.step)
            if self.is_last and facts is not None:  # the evaluation after the training, a checkpoint of its end
                facts = replace(facts, from_step=min(facts.from_step, self.step))
            self._kept.facts = facts if facts is None or facts.from_step <= self.step else None
            self._kept.has_facts = True
        return self._kept.facts

    def rests(self, worker: str) -> Rests:
        """Return the rests of a worker's watch up to this step: training steps of which nothing is recorded.

        Args:
            worker: The name of the worker.
        """
        return self._all_rests.get(worker, NO_RESTS)

    def watched_since(self, step: int) -> int:
        """Return the number of steps after a step, up to this one, without those at rest.

        What must have lasted for some steps must have been seen for as many.

        Args:
            step: The step.
        """
        return self.step - step - longest_of(self._all_rests.values(), step, self.step)

    @property
    def _all_rests(self) -> Mapping[str, Rests]:
        if self._kept.rests is None:
            columns = self.source.columns(RESTED_STEPS, "mean", last_step=self.step, mode=None)
            self._kept.rests = {c.worker: Rests(c.steps, c.values.astype(np.int64)) for c in columns}
        return self._kept.rests

    @property
    def speed_facts(self) -> Mapping[str, PerformanceFacts]:
        """The newest facts about the speed of each worker, by its name: DataLoaders, sampled lines, a hang."""
        return self.profile.facts()

    def machine(self, dimension: str, *, name: str = "") -> tuple[MachineSeries, ...]:
        """Return a metric of the machines up to this step, as one series for each device.

        Args:
            dimension: The metric: `GPUUtilization`.
            name: Only of devices of this name; "" for all.
        """
        until = math.inf if self.is_last else self.profile.ended_at(self.step)
        return self.profile.machine(dimension, name=name, until=until)

    def columns(
        self, collection: str, statistic: str, *, last: int | None = None, mode: str | None = _OWN
    ) -> tuple[Column, ...]:
        """Return the columns of all tensors of a collection, as `statistic` returns those of one.

        Args:
            collection: The name of the collection.
            statistic: The name of the statistic.
            last: The number of newest values to keep; None for all.
            mode: Include only steps of this mode; None for all.
        """
        names = self.tensors(collection)
        return tuple([column for name in names for column in self.statistic(name, statistic, last=last, mode=mode)])

    def tensors(self, collection: str) -> tuple[str, ...]:
        """Return the names of a collection's tensors with data up to this step, sorted.

        Args:
            collection: The name of the collection.
        """
        names = self._kept.names.get(collection)
        if names is None:
            names = self._kept.names[collection] = self.source.tensor_names(collection=collection, last_step=self.step)
        return names

    def statistic(
        self, tensor: str, name: str, *, last: int | None = None, mode: str | None = _OWN
    ) -> tuple[Column, ...]:
        """Return a statistic over steps, as one column per worker that saved the tensor.

        The numbers come from recorded statistics, else from a saved reduction, else from the full tensor; a rule need
        not distinguish them.

        Args:
            tensor: The name of the tensor.
            name: A name of `trial.tensors.statistics.STATISTICS`, or of another statistic that the run records.
            last: The most steps of each column, the newest ones; None for all.
            mode: Include only steps of this mode ("EVAL"); None for all. Default: the window's own mode.
        """
        wanted = self.mode if mode is _OWN else mode
        columns = self.source.columns(tensor, name, last_step=self.step, mode=wanted)
        if last is None:
            return columns
        if len(columns) == 1:
            (c,) = columns
            return (Column(c.tensor, c.worker, c.steps[-last:], c.values[-last:]),)
        return tuple([Column(c.tensor, c.worker, c.steps[-last:], c.values[-last:]) for c in columns])

    def at_step(self, tensors: Sequence[str], name: str, *, mode: str | None = _OWN) -> StepValues:
        """Return a statistic of many tensors at this step: the last values of `statistic`, if they are of this step.

        A rule that judges every step looks here first, and reads whole columns only of the few tensors that may be at
        fault.

        Args:
            tensors: Names of tensors.
            name: The name of the statistic.
            mode: Include only steps of this mode; None for all. Default: the window's own mode.
        """
        wanted = self.mode if mode is _OWN else mode
        return self.source.at_step(tensors, name, step=self.step, mode=wanted)

    def newest(self, tensors: Sequence[str], name: str, *, last: int, mode: str | None = _OWN) -> tuple[Panel, ...]:
        """Return the newest values of a statistic of many tensors, side by side.

        These are the columns of `statistic`, in groups that were measured at the same steps. A rule that compares all
        tensors of a model looks here first, and at whole columns if something may be at fault.

        Args:
            tensors: Names of tensors.
            name: The name of the statistic.
            last: The most values of each tensor; fast for at most `MOST_IN_PANEL`.
            mode: Include only steps of this mode; None for all. Default: the window's own mode.
        """
        wanted = self.mode if mode is _OWN else mode
        return self.source.newest(tensors, name, last=last, last_step=self.step, mode=wanted)

    def value(self, tensor: str, *, worker: str, step: int | None = None) -> NDArray[np.generic]:
        """Return the whole tensor.

        Args:
            tensor: The name of the tensor.
            worker: The name of the worker.
            step: The step; None for this window's.
        """
        return self.source.value(tensor, step=self.step if step is None else step, worker=worker)


def step_values(tensors: Sequence[str], columns_of: Callable[[str], tuple[Column, ...]], *, step: int) -> StepValues:
    """Return the result of `TensorSource.at_step`, for a source with `columns` alone.

    Args:
        tensors: Names of tensors.
        columns_of: Returns the columns of a tensor, which end at `step`.
        step: The step.
    """
    columns = {name: columns_of(name) for name in tensors}
    columns_now = [column for some in columns.values() for column in some if column.steps[-1] == step]
    return StepValues(
        tuple([column.tensor for column in columns_now]),
        tuple([column.worker for column in columns_now]),
        np.array([column.values[-1] for column in columns_now], np.float64),
        tuple([name for name, some in columns.items() if not some]),
    )


def newest_values(
    tensors: Sequence[str], columns_of: Callable[[str], tuple[Column, ...]], *, last: int
) -> tuple[Panel, ...]:
    """Return the result of `TensorSource.newest`, for a source with `columns` alone: one panel for each column.

    Args:
        tensors: Names of tensors.
        columns_of: Returns the columns of a tensor.
        last: The most values of each column.
    """
    columns = [column for name in tensors for column in columns_of(name)]
    return tuple(
        [
            Panel((c.tensor,), (c.worker,), len(c.steps), c.values[None, :MOST_IN_PANEL], c.values[None, -last:])
            for c in columns
        ]
    )
