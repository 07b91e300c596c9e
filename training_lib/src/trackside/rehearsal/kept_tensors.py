"""Tensors that a module computes in its forward pass and keeps in an attribute, where the script's loss reads them.

A replay calls the module again, and then reads the attribute again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import modules_of


class ReplayError(Exception):
    """A replay differs from the recording in its form."""


class KeptTensor:
    """Reads a tensor that a module keeps: in an attribute, or in a list, tuple or dict that is one.

    Args:
        module: The module.
        attribute: Name of the attribute.
        keys: Its place in the list, tuple or dict; empty for the attribute itself.
        tensor: The recorded tensor.
    """

    def __init__(self, module: torch.nn.Module, attribute: str, keys: tuple[Any, ...], tensor: torch.Tensor) -> None:
        self._module, self._attribute, self._keys = module, attribute, keys
        self._recorded = weakref.ref(tensor)
        self._value = tensor.detach().clone() if has_memory(tensor) else None
        self._was_training = module.training

    def find(self) -> Any:
        """Return what is at the place now; None if nothing is."""
        found: Any = self._module.__dict__.get(self._attribute)
        try:
            for key in self._keys:
                found = found[key]
        except (LookupError, TypeError):
            return None
        return found

    def __call__(self) -> torch.Tensor:
        """Return the tensor that the newest call of the module holds since.

        A module that computes it in training only has the recorded value in evaluation.

        Raises:
            ReplayError: The call has put none there, or has left the recorded one.
        """
        found = self.find()
        if isinstance(found, torch.Tensor) and found is not self._recorded():
            return found
        if self._value is not None and self._was_training and not self._module.training:
            return self._value
        place = f"{type(self._module).__name__}.{self._attribute}"
        raise ReplayError(f"a further call of the model leaves {place} as it is, which the loss takes")


def kept_tensors(roots: Iterable[torch.nn.Module]) -> dict[int, tuple[torch.Tensor, KeptTensor]]:
    """Return the computed tensors that these modules, and those in them, keep: (tensor, its reader) by id."""
    modules = {id(module): module for root in roots for module in modules_of(root)}
    return {
        id(tensor): (tensor, KeptTensor(module, name, keys, tensor))
        for module in modules.values()
        for name, value in list(module.__dict__.items())
        for keys, tensor in _computed(value)
    }


def _computed(value: Any) -> Iterator[tuple[tuple[Any, ...], torch.Tensor]]:
    """Yield (place, tensor) of the value itself, or of its items, if they have a graph."""
    items: Iterable[tuple[tuple[Any, ...], Any]] = (((), value),)
    if type(value) in {list, tuple}:
        items = (((place,), each) for place, each in enumerate(value))
    elif type(value) is dict:
        items = (((key,), each) for key, each in list(value.items()))
    for keys, each in items:
        if isinstance(each, torch.Tensor) and each.grad_fn is not None:
            yield keys, each
