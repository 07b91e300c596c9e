"""The size of each step's change of all weights, relative to the weights: from a fixed sample of their elements.

Of a rate that runs away, or of weights that jump, any element shows the same as all; the PyTorch adapter measures it in
the same way. Where Keras compiles the step, its weights are at hand at saved steps alone, and nothing is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from trackside.adapters.keras.torch_memory import has_memory
from trackside.adapters.keras.values import tensor_of, view_of
from trackside.capture.statistics.always_on import AlwaysOn
from trackside.capture.statistics.budget import UPDATES
from trackside.capture.statistics.one_pass import LOOPS, Loops, Sample
from trackside.contracts.run.recorded_names import UPDATE_SIZE

_MOST_TENSORS = 4
_MOST_ELEMENTS = 64  # of a tensor: each lies in a cache line of its own, which the training has pushed out
_LOOK_EVERY = 16  # measurements, before it is looked whether the weights lie elsewhere by now
_KEY = UPDATE_SIZE, "mean"


class UpdateSize:
    """The sample of the optimizer that updates weights."""

    def __init__(self) -> None:
        self._optimizer: Any = None
        self._chosen: Sequence[Any] = ()
        self._before: np.ndarray | None = None
        self._fixed: _FixedSample | None = None

    def measure(self, optimizer: Any, recorder: AlwaysOn) -> None:
        """Add the change since the last call to the numbers of the open step. For after an update.

        Args:
            optimizer: The optimizer.
            recorder: Gets the number, and the time that was spent.
        """
        relative = self._measured(optimizer, recorder)
        if relative is not None:
            recorder.numbers.added[_KEY] = relative

    def look(self, recorder: AlwaysOn) -> None:
        """Look at the weights as they are now, after steps that were not measured: the next change is from here on.

        Args:
            recorder: Gets the time that was spent.
        """
        if self._optimizer is not None:
            self._measured(self._optimizer, recorder)

    def _measured(self, optimizer: Any, recorder: AlwaysOn) -> float | None:
        started = recorder.budget.clock()
        if optimizer is not self._optimizer:
            self._optimizer, self._before = optimizer, None
            weights = [each for each in optimizer._trainable_variables if len(each.shape) > 1]
            self._chosen = weights[:: max(1, -(-len(weights) // _MOST_TENSORS))]
            self._fixed = _fixed_sample(self._chosen)
        if self._fixed is not None and not self._fixed.is_current():
            self._fixed = _fixed_sample(self._chosen)
        relative = self._change() if self._fixed is None else self._fixed.change()
        recorder.budget.spend(UPDATES, started)
        return relative

    def _change(self) -> float | None:
        """Return the change of the sample over its size; None at the first call."""
        parts = [_some(view_of(variable)) for variable in self._chosen]
        now = np.concatenate(parts).astype(np.float64) if parts else np.empty(0)
        before, self._before = self._before, now
        if before is None or before.shape != now.shape or not now.size:
            return None
        with np.errstate(all="ignore"):  # weights may be infinite, or NaN
            change = now - before
            return _relative(float(change @ change), float(now @ now))


class _FixedSample:
    """A sample of weights that stay where they are, as on PyTorch: read by compiled code.

    Args:
        variables: The weights.
        tensors: Their values, float32 and contiguous.
        loops: The compiled code.
    """

    def __init__(self, variables: Sequence[Any], tensors: Sequence[Any], loops: Loops) -> None:
        self._variables, self._loops = variables, loops
        self._tensors = tensors  # kept, so that their memory is
        self._addresses = [tensor.data_ptr() for tensor in tensors]
        sizes = [tensor.numel() for tensor in tensors]
        strides = [max(1, size // _MOST_ELEMENTS) for size in sizes]
        self._sample = Sample(self._addresses, strides, [min(size, _MOST_ELEMENTS) for size in sizes])
        self._calls = 0

    def is_current(self) -> bool:
        """Return False if weights lie elsewhere by now. A new tensor is seen now and then, freed memory at once."""
        if [tensor.data_ptr() for tensor in self._tensors] != self._addresses:
            return False
        if self._calls % _LOOK_EVERY:
            return True
        return [tensor_of(variable).data_ptr() for variable in self._variables] == self._addresses

    def change(self) -> float | None:
        """Return the change since the last call over the size; None at the first call."""
        change, size = self._loops.sampled_change(self._sample)
        self._calls += 1
        return None if self._calls == 1 else _relative(change, size)


def _fixed_sample(variables: Sequence[Any]) -> _FixedSample | None:
    if keras.backend.backend() != "torch" or LOOPS is None or not variables:
        return None
    tensors = [tensor_of(variable).detach() for variable in variables]
    if not all(map(has_memory, tensors)):
        return None
    is_plain = all(t.device.type == "cpu" and str(t.dtype) == "torch.float32" and t.is_contiguous() for t in tensors)
    return _FixedSample(variables, tensors, LOOPS) if is_plain else None


def _relative(change: float, size: float) -> float:
    """Return the root of the change's sum of squares over that of the size's; 0 of nothing."""
    return math.sqrt(change) / math.sqrt(size) if size != 0 else 0.0


def _some(values: np.ndarray | None) -> np.ndarray:
    flat = np.empty(0) if values is None else values.reshape(-1)
    return flat[:: max(1, flat.size // _MOST_ELEMENTS)][:_MOST_ELEMENTS]
