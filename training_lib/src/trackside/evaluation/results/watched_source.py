"""A window's source that notes whether it showed a rule anything to judge. For steps with recorded statistics alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.model_facts import ModelFacts
from trackside.trial.window import Column, Panel, StepValues, TensorSource, newest_values


class WatchedSource:
    """A window's source that sets `has_shown` once it has returned data of `step` for a tensor of `collections`.

    A row holds only some statistics. A rule that reads others has not judged that step.
    """

    def __init__(self, source: TensorSource, *, step: int, collections: Collection[str]) -> None:
        self._source, self._step, self._collections = source, step, collections
        self.has_shown = False

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Implement `TensorSource.tensor_names`."""
        return self._source.tensor_names(collection=collection, last_step=last_step)

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Implement `TensorSource.columns`, and note data of the step."""
        columns = self._source.columns(tensor, statistic, last_step=last_step, mode=mode)
        if not self.has_shown and any(column.steps[-1] == self._step for column in columns):
            self.has_shown = self._is_watched(tensor)
        return columns

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """Implement `TensorSource.at_step`, and note data of the step."""
        found = self._source.at_step(tensors, statistic, step=step, mode=mode)
        if not self.has_shown and step == self._step:
            self.has_shown = any(map(self._is_watched, found.tensors))
        return found

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """Implement `TensorSource.newest`, and note data of the step."""
        columns_of = partial(self.columns, statistic=statistic, last_step=last_step, mode=mode)
        return newest_values(tensors, columns_of, last=last)

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """Implement `TensorSource.value`."""
        return self._source.value(tensor, step=step, worker=worker)

    def facts_at(self, step: int) -> ModelFacts | None:
        """Implement `TensorSource.facts_at`."""
        return self._source.facts_at(step)

    def _is_watched(self, tensor: str) -> bool:
        return any(tensor in self._source.tensor_names(collection=name) for name in self._collections)
