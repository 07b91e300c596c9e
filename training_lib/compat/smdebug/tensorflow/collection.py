"""A collection that accepts Keras's layers and variables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from smdebug import not_offered
from smdebug.core.collection import Collection as BaseCollection
from smdebug.core.collection_manager import CollectionManager as BaseCollectionManager


class CollectionManager(BaseCollectionManager):
    """The collections of a hook for TensorFlow."""


class Collection(BaseCollection):
    """A collection that can also hold layers, and single variables of a model."""

    def add_keras_layer(self, layer: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add a layer's inputs or outputs."""
        for side, is_wanted in (("inputs", inputs), ("outputs", outputs)):
            if is_wanted:
                self.include(f"^{re.escape(layer.name)}/{side}(_|/|$)")

    def add(self, arg: Any) -> None:
        """Add a variable of a model, or several.

        Raises:
            SMDebugTypeError: It has no path in a model, as a tensor of a graph. A layer goes to `add_keras_layer`,
                a value to `hook.save_tensor`.
        """
        from smdebug.tensorflow.keras import names_of_variable

        for each in arg if isinstance(arg, Iterable) and not hasattr(arg, "path") else (arg,):
            for name in names_of_variable(each):
                self.add_tensor_name(name)

    add_variable = add


__getattr__ = not_offered.attribute_of(__name__)
