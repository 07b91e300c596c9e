"""Recurrent layers that begin a batch with the states in which they left another one, while batches are shuffled.

A state that is carried from batch to batch belongs to sequences that go on, and those come in their order. A learned
state, and one of an encoder, has gradients; zeros and draws are no state of a layer.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import CARRIED_STATE
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.pytorch.ground.structures import flatten
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.shared.detectors import watches

ENOUGH = 3  # watched calls
_LAYERS = (nn.GRU, nn.LSTM)  # whose states lie between -1 and 1
_MOST_NUMBERS = 1 << 12  # of a state that are read
_FEWEST_NUMBERS = 64  # of draws that many are beyond 1


@watches(CARRIED_STATE)
class CarriedStates:
    """The calls of recurrent layers with such a state, of each layer."""

    kinds = _LAYERS

    def __init__(self, watch: Watch) -> None:
        self._changed = watch.changed
        self._is_shuffled = False
        self._counts: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self._found = 0  # layers

    def pass_met(self, iterator: Any, batch: Any) -> None:
        """Note whether the pass draws its rows in an order of its own."""
        sampler = attribute_of(attribute_of(iterator, "_index_sampler"), "sampler")
        self._is_shuffled = isinstance(sampler, torch.utils.data.RandomSampler)

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Look at the state that a layer is given."""
        if not module.training or not self._is_shuffled:
            return
        if not torch.is_grad_enabled() or self._counts.get(module, 0) >= ENOUGH:
            return
        given = args[1] if len(args) > 1 else kwargs.get("hx")
        state = next(iter(flatten(given)), None) if given is not None else None
        is_carried = state is not None and _is_of_a_layer(state)
        self._counts[module] = self._counts.get(module, 0) + 1 if is_carried else 0
        if self._counts[module] == ENOUGH:
            self._found += 1
            self._changed()

    def changes(self) -> int:
        """Return the number of layers that were found."""
        return self._found

    def of(self, module: nn.Module) -> int:
        """Return the watched calls in a row with a carried state, once they are enough; else 0."""
        count = self._counts.get(module, 0)
        return count if count >= ENOUGH else 0


def _is_of_a_layer(state: torch.Tensor) -> bool:
    """Return True for numbers between -1 and 1, and not all 0, that no gradient reaches."""
    if state.requires_grad or state.numel() < _FEWEST_NUMBERS or is_in_cuda_graph(state) or not has_memory(state):
        return False
    largest = float(state.detach().reshape(-1)[:_MOST_NUMBERS].abs().max())
    return 0 < largest <= 1
