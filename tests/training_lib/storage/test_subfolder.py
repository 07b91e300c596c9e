"""A folder of a store is a store, and reaches nothing outside."""

from __future__ import annotations

import pytest

from trackside.storage.memory import MemoryStore
from trackside.storage.subfolder import Subfolder
from trackside.testing.store_contract import Peek, Plant, StoreContract


class TestSubfolder(StoreContract):
    @pytest.fixture
    def whole(self) -> MemoryStore:
        store = MemoryStore()
        for key in ("a", "run/x", "runs/ab/x", "runs/a-1/x", "runs/a0"):
            store.put(key, b"outside")
        return store

    @pytest.fixture
    def store(self, whole: MemoryStore) -> Subfolder:
        return Subfolder(whole, "runs/a")

    @pytest.fixture
    def plant(self, whole: MemoryStore) -> Plant:
        return lambda key, data: whole._objects.__setitem__(f"runs/a/{key}", data)

    @pytest.fixture
    def peek(self, whole: MemoryStore) -> Peek:
        return lambda key: None if (data := whole._objects.get(f"runs/a/{key}")) is None else bytes(data)

    def test_partial_writes_never_appear(self) -> None:  # type: ignore[override]
        """There are none: see `test_memory.py`."""


def test_its_location_is_that_of_the_folder() -> None:
    whole = MemoryStore()
    assert Subfolder(whole, "/runs/a/").uri == f"{whole.uri.rstrip('/')}/runs/a"
