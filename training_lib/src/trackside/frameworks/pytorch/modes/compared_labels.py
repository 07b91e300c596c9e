"""Comparisons of classes with labels, as a metric without a loss makes them, for as long as an evaluation is observed.

An accuracy is `(predicted == labels).sum()`, `predicted.eq(labels)`, or the two as lists or NumPy arrays in another
library's hands. Methods of `torch.Tensor` are replaced while the switch is on, and removed again: they are inherited.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.structures import is_no_computation

_COMPARES = ("__eq__", "__ne__", "eq", "ne")
_CONVERTS = ("numpy", "tolist")
FEWEST = 2  # labels of a batch


class ComparedLabels:
    """A switch that observes them on all threads.

    Args:
        seen: Called after two tensors of as many elements were compared, or both converted: classes, and labels. It
            must not raise.
    """

    def __init__(self, seen: Callable[[], None]) -> None:
        self._seen = seen
        self._converted: tuple[tuple[int, int], ...] = ()  # place in memory and size of whole numbers
        self._stand_ins = {name: self._watched(name, self._compared) for name in _COMPARES}
        self._stand_ins |= {name: self._watched(name, self._taken) for name in _CONVERTS}

    def switch(self, *, on: bool) -> None:
        """Start to observe, or stop. A method that another library has replaced is left alone."""
        self._converted = ()
        for name, stand_in in self._stand_ins.items():
            own = vars(torch.Tensor).get(name)
            if on and own is None:
                setattr(torch.Tensor, name, stand_in)
            elif not on and own is stand_in:
                delattr(torch.Tensor, name)

    def call_began(self) -> None:
        """Forget what was converted before the call of a model."""
        self._converted = ()

    def _watched(self, name: str, see: Callable[..., None]) -> Any:
        original = getattr(torch._C.TensorBase, name)

        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if not torch.compiler.is_compiling():
                see(self, *args)
            return result

        skip_frame(method)
        return method

    def _compared(self, first: Any, second: Any = None, *_: Any) -> None:
        if _are_several(first) and _are_several(second) and first.numel() == second.numel():
            self._seen()

    def _taken(self, tensor: Any, *_: Any) -> None:
        if not _are_several(tensor) or tensor.is_floating_point() or not has_memory(tensor):
            return
        place, count = tensor.data_ptr(), tensor.numel()
        if any(count == other and place != before for before, other in self._converted):
            self._seen()
        self._converted = (*self._converted, (place, count))


def _are_several(tensor: Any) -> bool:
    is_read = isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and not is_no_computation()
    return is_read and tensor.numel() >= FEWEST
