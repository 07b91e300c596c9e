"""A collection that accepts Gluon blocks."""

from __future__ import annotations

from typing import Any

from smdebug import not_offered
from smdebug.core.collection import Collection as BaseCollection
from smdebug.core.collection_manager import CollectionManager as BaseCollectionManager


class CollectionManager(BaseCollectionManager):
    """The collections of a hook for MXNet."""


class Collection(BaseCollection):
    """A collection that can also hold the inputs and outputs of blocks."""

    def add_block_tensors(self, block: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add a block's inputs or outputs, by its name."""
        for side, is_wanted in (("input", inputs), ("output", outputs)):
            if is_wanted:
                self.include(f"{block.name}_{side}_*")


__getattr__ = not_offered.attribute_of(__name__)
