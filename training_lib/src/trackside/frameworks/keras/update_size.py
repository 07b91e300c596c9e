"""The size of each step's change of all weights, relative to the weights: from a fixed sample of their elements.

Of a rate that runs away, or of weights that jump, any element shows the same as all; the PyTorch adapter measures it in
the same way. Where Keras compiles the step, its weights are at hand at saved steps alone, and nothing is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trackside.capture.always_on import AlwaysOn
from trackside.capture.budget import UPDATES
from trackside.contracts.recorded_names import UPDATE_SIZE
from trackside.frameworks.keras.values import view_of

_MOST_TENSORS = 4
_MOST_ELEMENTS = 256  # of a tensor
_KEY = UPDATE_SIZE, "mean"


class UpdateSize:
    """The sample of the optimizer that updates weights."""

    def __init__(self) -> None:
        self._optimizer: Any = None
        self._chosen: Sequence[Any] = ()
        self._before: np.ndarray | None = None

    def measure(self, optimizer: Any, recorder: AlwaysOn) -> None:
        """Add the change since the last call to the numbers of the open step, if it takes that. For after an update.

        Args:
            optimizer: The optimizer.
            recorder: Decides whether the step takes it, and gets the time that was spent.
        """
        if not recorder.takes_update:
            return
        started = recorder.budget.clock()
        if optimizer is not self._optimizer:
            self._optimizer, self._before = optimizer, None
            weights = [each for each in optimizer._trainable_variables if len(each.shape) > 1]
            self._chosen = weights[:: max(1, -(-len(weights) // _MOST_TENSORS))]
        parts = [_some(view_of(variable)) for variable in self._chosen]
        now = np.concatenate(parts).astype(np.float64) if parts else np.empty(0)
        before, self._before = self._before, now
        if before is not None and before.shape == now.shape and now.size:
            with np.errstate(all="ignore"):  # weights may be infinite, or NaN
                change, size = now - before, math.sqrt(now @ now)
                recorder.numbers.added[_KEY] = math.sqrt(change @ change) / size if size != 0 else 0.0
        recorder.budget.spend(UPDATES, started)


def _some(values: np.ndarray | None) -> np.ndarray:
    flat = np.empty(0) if values is None else values.reshape(-1)
    return flat[:: max(1, flat.size // _MOST_ELEMENTS)][:_MOST_ELEMENTS]
