"""A collection that accepts modules."""

from __future__ import annotations

from typing import Any, NamedTuple

from smdebug import not_offered
from smdebug.core.collection import Collection as BaseCollection
from smdebug.core.collection_manager import CollectionManager as BaseCollectionManager


class ModuleTensors(NamedTuple):
    """The tensors of a module that a collection holds.

    module   the module
    inputs   True: its inputs
    outputs  True: its outputs
    """

    module: Any
    inputs: bool
    outputs: bool


class CollectionManager(BaseCollectionManager):
    """The collections of a hook for PyTorch."""


class Collection(BaseCollection):
    """A collection that can also hold the inputs and outputs of modules."""

    def add_module_tensors(self, module: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add a module's inputs or outputs. It must belong to a model that is registered with the hook."""
        self.__dict__.setdefault("modules", []).append(ModuleTensors(module, inputs, outputs))

    @property
    def module_tensors(self) -> tuple[ModuleTensors, ...]:
        """The added modules."""
        return tuple(self.__dict__.get("modules", ()))


__getattr__ = not_offered.attribute_of(__name__)
