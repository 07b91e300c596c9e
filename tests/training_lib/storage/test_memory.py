"""The store in memory."""

import pytest

from trackside.storage.memory import MemoryStore
from trackside.testing.store_contract import AppendableStoreContract, Peek, Plant


class TestMemoryStore(AppendableStoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def plant(self, store: MemoryStore) -> Plant:
        return store._objects.__setitem__

    @pytest.fixture
    def peek(self, store: MemoryStore) -> Peek:
        return lambda key: None if (data := store._objects.get(key)) is None else bytes(data)

    def test_partial_writes_never_appear(self) -> None:  # type: ignore[override]
        """There are none: a dictionary has no partial writes, and `put` refuses their names."""


def test_stores_share_nothing() -> None:
    one, other = MemoryStore(), MemoryStore()
    one.put("a", b"x")
    assert not other.exists("a")
