"""Steps that stay in memory, for a script that wants its tensors back and no run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from trackside.capture.writer import StepTensors, Target

MOST_BYTES = 256 * 2**20


class KeptSteps:
    """A target of the writer that keeps tensors, in bounded memory.

    When `most_bytes` are exceeded every second of the kept steps is let go, and from then on only every second, fourth,
    ... is taken: what remains spans the whole training evenly. `thinned(stride)` is told each time. The first and the
    latest step always stay, so a single step may exceed the bound.
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
        """Takes a step."""
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

    def lost(self, step: int, why: str) -> None:
        """Does nothing: the writer says it."""

    def finish(self, *, is_interrupted: bool = False) -> None:
        """Does nothing: what is kept can be asked for after the end."""

    def tensors(self) -> dict[str, dict[int, np.ndarray]]:
        """{name: {step: array}}, steps ascending. The arrays are those kept, and cannot be written to."""
        found: dict[str, dict[int, np.ndarray]] = {}
        with self._lock:
            steps = [*self._steps, *([self._latest] if self._latest else [])]
        for step in steps:
            for name, array in step.tensors:
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
    """Several targets of a writer in the place of one. One that fails fails the step, after the others have it."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = tuple(targets)

    def save(self, step: StepTensors) -> None:
        """Gives each the step. Errors: the last one's that had any."""
        failure: OSError | None = None
        for target in self._targets:
            try:
                target.save(step)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def lost(self, step: int, why: str) -> None:
        """Tells each."""
        for target in self._targets:
            target.lost(step, why)

    def finish(self, *, is_interrupted: bool) -> None:
        """Ends each; the errors of the last."""
        for target in self._targets:
            target.finish(is_interrupted=is_interrupted)
