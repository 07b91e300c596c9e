"""The data that one step saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from trackside.capture.arrival import Arrival
from trackside.capture.reduced_tensors import ReducedTensors


@dataclass(frozen=True)
class StepTensors:
    """All data that one step saves. The arrays are our own copies.

    - `due`: collections that are due; they decide whether tensors are saved whole or reduced
    - `collections`: collections of single tensors beside those that follow from their names
    - `reduced`: reductions of tensors that are not among `tensors`
    - `wall_times`: moments of tensors that the script dated itself, in seconds since the epoch
    - `arrivals`: moments at which the arrays hold their values
    - `lost`: why nothing of the step is saved; "" for a step with its data
    """

    step: int
    mode: str
    mode_step: int
    wall_time: float  # seconds since the epoch
    tensors: tuple[tuple[str, np.ndarray], ...]
    due: frozenset[str] = frozenset()
    collections: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reduced: tuple[ReducedTensors, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    wall_times: Mapping[str, float] = field(default_factory=dict)
    lost: str = ""

    def wait(self) -> None:
        """Wait until all values have arrived. Errors: as `Arrival`."""
        for arrival in self.arrivals:
            arrival.wait()

    @cached_property
    def size_bytes(self) -> int:
        """Memory of the step, in bytes, that counts against the budget."""
        reduced = sum(part.nbytes for part in self.reduced)
        return reduced + sum(array.nbytes for _, array in self.tensors)
