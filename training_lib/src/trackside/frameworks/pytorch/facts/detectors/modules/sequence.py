"""The sequences that layers with time along the first axis read."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import SEQUENCE
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.shared.detectors import watches


@watches(SEQUENCE)
class Sequences:
    """The first input of each layer of torch.nn with time along the first axis."""

    kinds = (nn.RNNBase, nn.MultiheadAttention)

    def __init__(self, watch: Watch) -> None:
        self._found: weakref.WeakKeyDictionary[nn.Module, tuple[int, int]] = weakref.WeakKeyDictionary()

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note the input of such a layer."""
        if module.batch_first:
            return
        values = args[0] if args else kwargs.get("input", kwargs.get("query"))
        if isinstance(values, torch.Tensor) and values.dim() == 3:
            self._found.setdefault(module, (int(values.shape[0]), int(values.shape[1])))

    def of(self, module: nn.Module) -> tuple[int, ...]:
        """Return (steps, sequences) of a layer's first input; () if none was seen."""
        return self._found.get(module, ())
