"""Garbage collection pauses on the main thread, and is afterwards as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from trackside.collection_pause import CollectionPause


@pytest.fixture(autouse=True)
def _collection_as_before() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_collection_is_afterwards_as_it_was(enabled: bool, fails: bool) -> None:
    (gc.enable if enabled else gc.disable)()

    with pytest.raises(ZeroDivisionError) if fails else CollectionPause(), CollectionPause():
        assert not gc.isenabled()
        if fails:
            raise ZeroDivisionError

    assert gc.isenabled() == enabled


def test_another_thread_changes_nothing() -> None:
    seen: list[bool] = []

    def enter() -> None:
        with CollectionPause():
            seen.append(gc.isenabled())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()

    assert seen == [True]
