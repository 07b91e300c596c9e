"""What a rule may see: one frozen moment of a run, up to one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.model_facts import ModelFacts

MOST_IN_PANEL = 64  # values that a panel may show of a column
_OWN = "the window's own"


@dataclass(frozen=True)
class Column:
    """One statistic of one tensor of one worker over its saved steps, oldest first.

    `steps` is int64 of shape (n,), `values` float64 of shape (n,); n >= 1.
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

    tensors, workers   of each value, in any order; one that has none at this step is left out
    values             float64 of shape (n,)
    unknown            the tensors of which no value is known up to this step
    """

    tensors: tuple[str, ...]
    workers: tuple[str, ...]
    values: NDArray[np.float64]
    unknown: tuple[str, ...]

    def by_worker(self) -> dict[str, dict[str, float]]:
        """The values by worker, then by tensor."""
        found: dict[str, dict[str, float]] = {}
        for tensor, worker, value in zip(self.tensors, self.workers, self.values.tolist(), strict=True):
            found.setdefault(worker, {})[tensor] = value
        return found


@dataclass(frozen=True)
class Panel:
    """The newest values of one statistic of tensors that were measured at the same steps.

    tensors, workers   of each column
    count              how many values each column has so far, at least 1
    oldest             their first values, at most `MOST_IN_PANEL`: float64 of shape (columns, m), m >= 1
    newest             their newest values, oldest first: float64 of shape (columns, n), n >= 1
    """

    tensors: tuple[str, ...]
    workers: tuple[str, ...]
    count: int
    oldest: NDArray[np.float64]
    newest: NDArray[np.float64]

    def of_worker(self, worker: str) -> Panel:
        """The columns of one worker, which must have some."""
        if all(one == worker for one in self.workers):
            return self
        places = [place for place, one in enumerate(self.workers) if one == worker]
        tensors = tuple([self.tensors[place] for place in places])
        return Panel(tensors, (worker,) * len(places), self.count, self.oldest[places], self.newest[places])


class TensorSource(Protocol):
    """Where a window reads from: a trial."""

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Names of the tensors in that collection, sorted: those seen so far, or at `last_step` or before."""

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """One column per worker over every saved step <= `last_step` (of `mode`, or of every mode)."""

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """What `columns` of each of the tensors holds at `step`, and of which it holds nothing up to then."""

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """The newest `last` values (all, where there are fewer) of each of the `columns` of these tensors."""

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """The whole tensor."""

    def facts_at(self, step: int) -> ModelFacts | None:
        """What the training program was made of at that step; None if the run does not tell."""


@dataclass(frozen=True)
class Window:
    """A run as a rule may see it at `step`: nothing newer, and the same however often it is asked.

    `mode` is the mode of `step` ("TRAIN", "EVAL", "PREDICT" or "GLOBAL"). `now` is the time of judging and
    `newest_step_at` the time at which `step` was seen, both in seconds since the epoch.
    `others` are the runs that the rule compares with, by the names under which it asked for them; one of which nothing
    can be read is left out.
    """

    source: TensorSource
    step: int
    mode: str
    now: float
    newest_step_at: float
    others: Mapping[str, TensorSource] = field(default_factory=dict)

    @property
    def facts(self) -> ModelFacts | None:
        """What the training program is made of at this step; None for a run that has not told (or an older one)."""
        facts = self.source.facts_at(self.step)
        return facts if facts is None or facts.from_step <= self.step else None

    def tensors(self, collection: str) -> tuple[str, ...]:
        """Names of the tensors of a collection of which there was anything until this step, sorted."""
        return self.source.tensor_names(collection=collection, last_step=self.step)

    def statistic(
        self, tensor: str, name: str, *, last: int | None = None, mode: str | None = _OWN
    ) -> tuple[Column, ...]:
        """A statistic as columns over steps, one per worker that saved the tensor, the newest `last` steps of it.

        Names: `trackside.trial.statistics.STATISTICS`, and what else the run records of itself at every step. Answers
        from what was recorded, else from a saved reduction, else from the full tensor; the rule never cares which.
        Of the steps of the window's own mode, unless `mode` names another ("EVAL"), or all (None).
        """
        wanted = self.mode if mode is _OWN else mode
        columns = self.source.columns(tensor, name, last_step=self.step, mode=wanted)
        if last is None:
            return columns
        return tuple([Column(c.tensor, c.worker, c.steps[-last:], c.values[-last:]) for c in columns])

    def at_step(self, tensors: Sequence[str], name: str, *, mode: str | None = _OWN) -> StepValues:
        """A statistic of many tensors at this step, as the last values of `statistic` where these are of this step.

        A rule that is asked at every step looks here first: whole columns are for the few tensors that may be at fault.
        """
        wanted = self.mode if mode is _OWN else mode
        return self.source.at_step(tensors, name, step=self.step, mode=wanted)

    def newest(self, tensors: Sequence[str], name: str, *, last: int, mode: str | None = _OWN) -> tuple[Panel, ...]:
        """The newest `last` values of a statistic of many tensors, side by side: fast for at most `MOST_IN_PANEL`.

        The columns of `statistic`, in groups that were measured at the same steps. A rule that compares all tensors of
        a model looks here first, and at whole columns where something may be at fault.
        """
        wanted = self.mode if mode is _OWN else mode
        return self.source.newest(tensors, name, last=last, last_step=self.step, mode=wanted)

    def value(self, tensor: str, *, worker: str, step: int | None = None) -> NDArray[np.generic]:
        """The whole tensor at `step` (default: this window's)."""
        return self.source.value(tensor, step=self.step if step is None else step, worker=worker)


def step_values(tensors: Sequence[str], columns_of: Callable[[str], tuple[Column, ...]], *, step: int) -> StepValues:
    """`TensorSource.at_step` for a source that has nothing better than `columns`, which end at `step`."""
    columns = {name: columns_of(name) for name in tensors}
    there = [column for some in columns.values() for column in some if column.steps[-1] == step]
    return StepValues(
        tuple([column.tensor for column in there]),
        tuple([column.worker for column in there]),
        np.array([column.values[-1] for column in there], np.float64),
        tuple([name for name, some in columns.items() if not some]),
    )


def newest_values(
    tensors: Sequence[str], columns_of: Callable[[str], tuple[Column, ...]], *, last: int
) -> tuple[Panel, ...]:
    """`TensorSource.newest` for a source that has nothing better than `columns`: each for itself."""
    columns = [column for name in tensors for column in columns_of(name)]
    return tuple(
        [
            Panel((c.tensor,), (c.worker,), len(c.steps), c.values[None, :MOST_IN_PANEL], c.values[None, -last:])
            for c in columns
        ]
    )
