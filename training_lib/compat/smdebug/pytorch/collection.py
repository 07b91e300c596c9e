"""A collection that can be told modules."""

from __future__ import annotations

from typing import Any, NamedTuple

from smdebug import not_offered
from smdebug.core.collection import Collection as BaseCollection


class ModuleTensors(NamedTuple):
    """What a collection shall hold of a module."""

    module: Any
    inputs: bool
    outputs: bool


class Collection(BaseCollection):
    """As of all frameworks, and with the inputs and outputs of modules."""

    def add_module_tensors(self, module: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Adds what a module takes, or gives. It must belong to a model that is registered with the hook."""
        self.__dict__.setdefault("modules", []).append(ModuleTensors(module, inputs, outputs))

    @property
    def module_tensors(self) -> tuple[ModuleTensors, ...]:
        """What was added."""
        return tuple(self.__dict__.get("modules", ()))


__getattr__ = not_offered.attribute_of(__name__)
