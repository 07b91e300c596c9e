"""Steps that stay in memory, for a script that wants its tensors back and no run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.writer_parts import Target

MOST_BYTES = 256 * 2**20


class KeptSteps:
    """A target of the writer that keeps tensors in bounded memory.

    When `most_bytes` are exceeded, every second kept step is dropped, and from then on only every second, fourth, ...
    is taken: the rest spans the whole training evenly. `thinned(stride)` is called each time. The first and the latest
    step always stay, so a single step may exceed the bound.
    """

    def __init__(self, *, most_bytes: int = MOST_BYTES, thinned: Callable[[int], None] = lambda stride: None) -> None:
        self._most_bytes = most_bytes
        self._thinned = thinned
        self._lock = threading.Lock()
        self._steps: list[StepTensors] = []
        self._latest: StepTensors | None = None  # if it is not among them
        self._bytes = 0
        self._count = 0
        self.stride = 1

    def save(self, step: StepTensors) -> None:
        """Keep a step."""
        with self._lock:
            number, self._count = self._count, self._count + 1
            self._latest = None
            if number % self.stride:
                self._latest = step
                return
            self._steps.append(step)
            self._bytes += step.size_bytes
            stride = self.stride
            while self._bytes > self._most_bytes and len(self._steps) > 1:
                self._thin_out()
        if self.stride != stride:
            self._thinned(self.stride)

    def lost(self, step: int, reason: str) -> None:
        """Do nothing: the writer logs it."""

    def finish(self, *, is_interrupted: bool = False) -> None:
        """Do nothing: the kept tensors can be read after the end."""

    def tensors(self) -> dict[str, dict[int, np.ndarray]]:
        """Return {name: {step: array}}, steps ascending. The arrays are the kept ones, and read-only."""
        found: dict[str, dict[int, np.ndarray]] = {}
        with self._lock:
            steps = [*self._steps, *([self._latest] if self._latest else [])]
        for step in steps:
            for name, array in step.without_rows().tensors:
                array.flags.writeable = False
                found.setdefault(name, {})[step.step] = array
        return found

    def _thin_out(self) -> None:
        last = self._steps[-1]
        self._steps = self._steps[::2]
        self._latest = None if self._steps[-1] is last else last
        self._bytes = sum(step.size_bytes for step in self._steps)
        self.stride *= 2


class Targets:
    """Several targets of a writer in the place of one.

    If one fails, the step fails, after the others have stored it.
    """

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = tuple(targets)

    def save(self, step: StepTensors) -> None:
        """Pass the step to each. Raise the last error, if any."""
        failure: OSError | None = None
        for target in self._targets:
            try:
                target.save(step)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def lost(self, step: int, reason: str) -> None:
        """Pass the loss to each."""
        for target in self._targets:
            target.lost(step, reason)

    def finish(self, *, is_interrupted: bool) -> None:
        """Finish each. Raise the last error, if any."""
        for target in self._targets:
            target.finish(is_interrupted=is_interrupted)
