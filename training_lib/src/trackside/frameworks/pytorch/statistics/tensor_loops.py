"""The compiled loops for lists of tensors. Each function returns None where a tensor is none that they can read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from trackside.capture.statistics.one_pass import LOOPS, Arrays, Loops, Numbers

_MOST_LISTS = 64
_PLAIN = {torch.Tensor, torch.nn.Parameter}

Tensors = Sequence[torch.Tensor]


class TensorLoops:
    """The loops for one thread.

    Args:
        loops: The compiled loops; None: every function returns None.
    """

    def __init__(self, loops: Loops | None = LOOPS) -> None:
        self._loops = loops
        self._arrays: dict[tuple[int, ...], Arrays] = {}

    def norms(self, tensors: Tensors) -> Numbers | None:
        """Return the L2 norm of each tensor, added up in double."""
        arrays = self._room(tensors)
        if arrays is None or self._loops is None:
            return None
        return np.sqrt(self._loops.squares(arrays, _addresses(tensors)))

    def copied(self, tensors: Tensors, copies: Tensors) -> Numbers | None:
        """Copy each tensor. Return its L2 norm."""
        arrays = self._room(tensors)
        if arrays is None or self._loops is None or self._room(copies) is not arrays:
            return None
        return np.sqrt(self._loops.copy(arrays, _addresses(tensors), _addresses(copies)))

    def changed(self, tensors: Tensors, before: Tensors) -> Numbers | None:
        """Subtract each tensor from its values `before`. Return the L2 norm of what is left."""
        arrays = self._room(tensors)
        if arrays is None or self._loops is None or self._room(before) is not arrays:
            return None
        return np.sqrt(self._loops.change(arrays, _addresses(tensors), _addresses(before)))

    def sizes(self, tensors: Tensors) -> tuple[Numbers, Numbers, Numbers] | None:
        """Return Σ|x|, the number of zeros and max |x| of each tensor; the maximum is NaN where a value is."""
        arrays = self._room(tensors)
        if arrays is None or self._loops is None:
            return None
        _, sizes, _, least, largest, zeros = self._loops.sums(arrays, _addresses(tensors))
        return sizes, zeros, np.maximum(largest, -least)

    def _room(self, tensors: Tensors) -> Arrays | None:
        if self._loops is None or not tensors or torch._C._len_torch_dispatch_stack():
            return None
        counts: list[int] = []
        for tensor in tensors:
            count = tensor.numel()
            if tensor.dtype is not torch.float32 or type(tensor) not in _PLAIN or not count:
                return None
            if not tensor.is_cpu or not tensor.is_contiguous():
                return None
            counts.append(count)
        key = tuple(counts)
        arrays = self._arrays.get(key)
        if arrays is None:
            if len(self._arrays) >= _MOST_LISTS:
                self._arrays.clear()
            arrays = self._arrays[key] = Arrays(counts)
        return arrays


def _addresses(tensors: Tensors) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]
