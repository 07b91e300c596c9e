"""A run as rules of SageMaker Debugger see it: saved tensors, without the statistics recorded at every step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.model_facts import ModelFacts
from trackside.trial.trial import Trial
from trackside.trial.window import Column, Panel, StepValues, newest_values, step_values

_Steps = dict[str, NDArray[np.int64]]  # by worker, sorted


class SavedSource:
    """A window's source with only the steps at which a tensor, or a reduction of it, was saved.

    An Amazon rule's `num_steps` or patience counts such steps. With the rows of every step between them, five of these
    would be five training steps instead of perhaps five thousand.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._steps: dict[str, _Steps] = {}
        self._version: object = None

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Implement `TensorSource.tensor_names`."""
        return self._trial.tensor_names(collection=collection, last_step=last_step)

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Implement `TensorSource.columns`, for the steps at which the tensor was saved."""
        saved = self._saved_steps(tensor)
        if not saved:
            return ()
        found = self._trial.columns(tensor, statistic, last_step=last_step, mode=mode)
        return tuple([c for column in found if (c := _only(column, saved.get(column.worker))) is not None])

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """Implement `TensorSource.at_step`, for the steps at which each tensor was saved."""
        columns_of = partial(self.columns, statistic=statistic, last_step=step, mode=mode)
        return step_values(tensors, columns_of, step=step)

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """Implement `TensorSource.newest`, for the steps at which each tensor was saved."""
        columns_of = partial(self.columns, statistic=statistic, last_step=last_step, mode=mode)
        return newest_values(tensors, columns_of, last=last)

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """Implement `TensorSource.value`."""
        return self._trial.value(tensor, step=step, worker=worker)

    def facts_at(self, step: int) -> ModelFacts | None:
        """Implement `TensorSource.facts_at`."""
        return self._trial.facts_at(step)

    def _saved_steps(self, tensor: str) -> _Steps:
        """Return the steps at which each worker saved the tensor. Looked up once between two refreshes of the trial."""
        if self._version != self._trial.parts.completeness.version:
            self._steps, self._version = {}, self._trial.parts.completeness.version
        saved_steps = self._steps.get(tensor)
        if saved_steps is None:
            by_worker: dict[str, list[int]] = {}
            for saved in self._trial.parts.saved.saved(tensor):
                by_worker.setdefault(saved.worker, []).append(saved.step)
            saved_steps = {worker: np.unique(np.array(steps, np.int64)) for worker, steps in by_worker.items()}
            self._steps[tensor] = saved_steps
        return saved_steps


def _only(column: Column, steps: NDArray[np.int64] | None) -> Column | None:
    """Return the part of a column at these steps; None if it is empty."""
    if steps is None:
        return None
    if np.array_equal(column.steps, steps[: len(column.steps)]):  # nothing of it was but recorded
        return column
    kept = np.isin(column.steps, steps, assume_unique=True)
    return Column(column.tensor, column.worker, column.steps[kept], column.values[kept]) if kept.any() else None
