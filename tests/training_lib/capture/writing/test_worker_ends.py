"""The end marker waits for the notes of the other workers, and never for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trackside.capture.writing.worker_ends import INTERRUPTED_SECONDS, UNSEEN_SECONDS, WAIT_SECONDS, WorkerEnds
from trackside.capture.writing.worker_lock import WorkerLock
from trackside.contracts.run_layout import collections_key, worker_end_key, worker_lock_key
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store


class Time:
    """Passes while somebody sleeps; `happens[s]` is done once s seconds have passed."""

    def __init__(self, **happens: Callable[[], object]) -> None:
        self.now = 100.0
        self._happens = {float(seconds.removeprefix("at_")): what for seconds, what in happens.items()}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        for due in [due for due in self._happens if self.now - 100.0 >= due]:
            self._happens.pop(due)()


def ends(worker: str, time: Time, count: int = 2) -> WorkerEnds:
    return WorkerEnds(worker, count, monotonic=time.monotonic, sleep=time.sleep)


def waited(store: Store, time: Time, *, count: int = 2, is_interrupted: bool = False) -> tuple[float, tuple[str, ...]]:
    missing = ends("worker_0", time, count).wait(store, is_interrupted=is_interrupted)
    return time.now - 100.0, missing


def trained(store: Store, *workers: str) -> None:
    for worker in workers:
        store.put(collections_key(worker), b"{}")


def test_the_marker_comes_after_the_last_note() -> None:
    store = MemoryStore()
    trained(store, "worker_1", "worker_2")
    time = Time()
    others = [ends(worker, time, 3) for worker in ("worker_1", "worker_2")]
    time = Time(at_1=lambda: others[0].note(store), at_4=lambda: others[1].note(store))
    seconds, missing = waited(store, time, count=3)
    assert 4 <= seconds < 6
    assert missing == ()


def test_one_worker_waits_for_nobody() -> None:
    store, time = MemoryStore(), Time()
    assert waited(store, time, count=1) == (0.0, ())
    alone = ends("worker_0", time, 1)
    alone.begin(store)
    alone.note(store)
    assert not list(store.list())


@pytest.mark.parametrize(
    ("has_trained", "is_interrupted", "at_least"),
    [
        pytest.param(True, False, WAIT_SECONDS, id="one-that-trained-may-still-be-storing"),
        pytest.param(False, False, UNSEEN_SECONDS, id="one-that-was-never-seen-may-never-train"),
        pytest.param(True, True, INTERRUPTED_SECONDS, id="the-process-is-told-to-die"),
    ],
)
def test_a_silent_worker_is_waited_for_so_long(has_trained: bool, is_interrupted: bool, at_least: float) -> None:
    store = MemoryStore()
    trained(store, *(["worker_1"] if has_trained else []))
    seconds, missing = waited(store, Time(), is_interrupted=is_interrupted)
    assert at_least <= seconds <= at_least + 1
    assert missing == ("worker_1",)


def test_a_note_of_an_earlier_process_does_not_count() -> None:
    """The worker takes it back when it begins."""
    store = MemoryStore()
    store.put(worker_end_key("worker_1"), b"")
    ends("worker_1", Time()).begin(store)
    trained(store, "worker_1")
    assert waited(store, Time())[1] == ("worker_1",)


def test_in_a_folder_a_dead_worker_is_not_waited_for(tmp_path: Path) -> None:
    """Its lock is there, and free. (One that this very process holds looks free to it.)"""
    store = LocalStore(tmp_path)
    trained(store, "worker_1")
    store.put(worker_lock_key("worker_1"), b"12345")
    assert waited(store, Time()) == (0.0, ("worker_1",))
    assert WorkerLock(store, "worker_1").is_held() is False
