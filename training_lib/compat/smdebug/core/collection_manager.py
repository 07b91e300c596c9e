"""The collections of a run, as in a collections file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from smdebug import not_offered
from smdebug.core.collection import Collection
from smdebug.exceptions import SMDebugError, SMDebugTypeError, SMDebugValueError
from trackside.contracts.run_layout import COLLECTIONS_PREFIX

_SECTIONS = ("collections", "_meta")


class CollectionManager:
    """The collections by name, and the number of workers that write such a file."""

    def __init__(self, collections: dict[str, Collection] | None = None, create_default: bool = False) -> None:
        self.collections = {} if collections is None else collections
        self._meta: dict[str, Any] = {"num_workers": 1}

    def create_collection(self, name: str, cls: type[Collection] = Collection) -> None:
        """Add an empty collection, unless one of that name exists."""
        self.collections.setdefault(name, cls(name))

    def add(self, arg: str | Collection) -> None:
        """Add an empty collection by name, or replace the collection of that name."""
        if isinstance(arg, Collection):
            self.collections[arg.name] = arg
        elif isinstance(arg, str):
            self.create_collection(arg)

    def get(self, name: str, create: bool = True) -> Collection:
        """Return the collection of that name; make it if it is missing and `create` is set.

        Raises:
            SMDebugError: It is missing, and `create` is False.
        """
        if name not in self.collections:
            if not create:
                raise SMDebugError(f"Collection {name} has not been created")
            self.create_collection(name)
        return self.collections[name]

    def get_collections(self) -> dict[str, Collection]:
        return self.collections

    def get_num_workers(self) -> int:
        return int(self._meta["num_workers"])

    def set_num_workers(self, num_workers: int) -> None:
        self._meta["num_workers"] = int(num_workers)

    def update_meta(self, meta: dict[str, Any]) -> None:
        if not isinstance(meta, dict):
            raise SMDebugTypeError(f"meta must be a dict, not {type(meta).__name__}.")
        self._meta.update(meta)

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "collections": {name: collection.to_json_dict() for name, collection in self.collections.items()},
            "_meta": self._meta,
        }

    def export(self, out_dir: str, filename: str) -> None:
        """Write the collections file of a run. `out_dir` is the run, a folder or s3://; `filename` has no folder."""
        from trackside.storage.open_store import open_store  # only here: the rest of this module reads and writes text

        open_store(str(out_dir)).put(COLLECTIONS_PREFIX + filename, json.dumps(self.to_json_dict()).encode("ascii"))

    @classmethod
    def load(cls, filename: str, collection_class: type[Collection] = Collection) -> CollectionManager:
        """Return the collections in a local file."""
        return cls.load_from_string(Path(filename).read_text("utf-8"), collection_class)

    @classmethod
    def load_from_string(cls, s: str, collection_class: type[Collection] = Collection) -> CollectionManager:
        """Return the collections in the content of a file.

        Raises:
            SMDebugValueError: It is no collections file.
        """
        document = json.loads(s)
        if not isinstance(document, dict) or any(section not in _SECTIONS for section in document):
            raise SMDebugValueError(f"allowed params for collection manager can only be one of {','.join(_SECTIONS)}")
        manager = cls()
        for collection in document.get("collections", {}).values():
            manager.add(collection_class.from_dict(collection))
        manager.update_meta(document.get("_meta", {}))
        return manager

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CollectionManager):
            return NotImplemented
        return self.collections == other.collections

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"<class CollectionManager: collection_names={list(self.collections)}>"


__getattr__ = not_offered.attribute_of(__name__)
