"""The data that one step saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from trackside.capture.steps.arrival import Arrival
from trackside.capture.steps.late_tensors import LateTensors, Row
from trackside.contracts.cached_property import cached_property


@dataclass(frozen=True)
class StepTensors:
    """All data that one step saves. The arrays are our own copies.

    - `due`: collections that are due; they decide whether tensors are saved whole or reduced
    - `collections`: collections of single tensors beside those that follow from their names
    - `reduced`: reductions of tensors that are not among `tensors`
    - `wall_times`: moments of tensors that the script dated itself, in seconds since the epoch
    - `arrivals`: moments at which the arrays hold their values
    - `late`: tensors that are not known yet
    - `rows`: tensors that are not among `tensors`: many small ones, to be encoded together
    - `lost`: why nothing of the step is saved; "" for a step with its data
    """

    step: int
    mode: str
    mode_step: int
    wall_time: float  # seconds since the epoch
    tensors: tuple[tuple[str, np.ndarray], ...]
    due: frozenset[str] = frozenset()
    collections: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reduced: tuple[Row, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    wall_times: Mapping[str, float] = field(default_factory=dict)
    late: tuple[LateTensors, ...] = ()
    rows: tuple[Row, ...] = ()
    lost: str = ""

    def wait(self) -> None:
        """Wait until all values have arrived. Errors: as `Arrival`."""
        for arrival in self.arrivals:
            arrival.wait()

    def with_late(self) -> StepTensors:
        """Return the step with its late tensors as rows. For the writer's thread."""
        if not self.late:
            return self
        found = tuple(row for late in self.late if (row := late.row()) is not None)
        return replace(self, rows=self.rows + found, late=())

    def without_rows(self) -> StepTensors:
        """Return the step with the tensors of its rows among `tensors`."""
        if not self.rows:
            return self
        tensors, collections = list(self.tensors), dict(self.collections)
        for row in self.rows:
            tensors += zip(row.layout.record_names, row.numbers, strict=True)
            collections |= dict.fromkeys(row.layout.record_names, row.layout.collections)
        return replace(self, tensors=tuple(tensors), collections=collections, rows=())

    @cached_property
    def size_bytes(self) -> int:
        """Memory of the step, in bytes, that counts against the budget."""
        size = 0
        for _, array in self.tensors:
            size += array.nbytes
        for row in (*self.reduced, *self.rows):
            size += row.numbers.nbytes
        for part in self.late:
            size += part.size_bytes
        return size
