"""A copy of the state of modules and of the random generators, to which a probe's changes are undone bit for bit.

Probes work on the user's own modules, which no copy could replace in general (libraries bind methods of a module to
the module itself). So everything that they can change is copied first: parameters, buffers, gradients, tensors and
other values in attributes, the mode, and the random state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory, with_memory
from trackside.frameworks.pytorch.ground.random_state import RandomState
from trackside.frameworks.pytorch.ground.script_objects import modules_of

_DICTS = ("_parameters", "_buffers", "_modules")


class KeptState:
    """The state of some modules, with all modules in them, and of the random generators, at one moment."""

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        self._random = RandomState.now()
        modules = {id(module): module for root in roots for module in modules_of(root)}
        self._attributes = [(module, _attributes_of(module)) for module in modules.values()]
        self._tensors: dict[int, _KeptTensor] = {}
        for module in modules.values():
            for tensor in _tensors_of(module):
                if id(tensor) not in self._tensors:
                    self._tensors[id(tensor)] = _KeptTensor(tensor)

    def restore(self) -> None:
        """Undo every change since."""
        for module, attributes in self._attributes:
            module.__dict__.clear()
            for name, value in attributes.items():
                module.__dict__[name] = value.copy() if name in _DICTS else value
        for kept in self._tensors.values():
            kept.restore()
        self._random.restore()


class _KeptTensor:
    """A tensor with its value, its gradient and the gradient's value."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._value = tensor.detach().clone()
        self._requires_grad = tensor.requires_grad
        self._gradient = tensor.grad if tensor.is_leaf else None
        self._gradient_value = None
        if self._gradient is not None and has_memory(self._gradient):
            self._gradient_value = self._gradient.detach().clone()

    def restore(self) -> None:
        with torch.no_grad():
            if self._tensor.shape == self._value.shape:
                self._tensor.data.copy_(self._value)
            else:
                self._tensor.data = self._value.clone()
            if self._gradient is not None and self._gradient_value is not None:
                self._gradient.data.copy_(self._gradient_value)
        if self._tensor.is_leaf:
            self._tensor.requires_grad_(self._requires_grad)
            self._tensor.grad = self._gradient


def _attributes_of(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value.copy() if name in _DICTS else value for name, value in module.__dict__.items()}


def _tensors_of(module: torch.nn.Module) -> Iterable[torch.Tensor]:
    found = [*module._parameters.values(), *module._buffers.values(), *module.__dict__.values()]
    return with_memory(each for each in found if isinstance(each, torch.Tensor))
