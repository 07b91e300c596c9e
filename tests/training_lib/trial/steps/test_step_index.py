"""What is known of the steps of a run: read again where it has changed, and cheap to ask for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from trackside.contracts.errors import RecordError, StorageUnavailableError
from trackside.contracts.run_layout import INDEX_PREFIX, event_key, index_key
from trackside.records.index_file import Index, IndexEntry, encode_index
from trackside.records.step_file import encode_step, write_step
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.trial.steps import index_files
from trackside.trial.steps.membership import Membership
from trackside.trial.steps.packed_index import rebuild_packed_index
from trackside.trial.steps.step_index import StepIndex

COLLECTIONS = b'{"collections": {}, "_meta": {"num_workers": %d}}'


class Counting(MemoryStore):
    """Counts requests, and has an outage when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: list[str] = []
        self.lists: list[tuple[str, str]] = []
        self.listed_keys = 0
        self.is_out = False

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if self.is_out:
            raise StorageUnavailableError("no answer")
        self.gets.append(key)
        return super().get(key, start=start, length=length)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self.lists.append((prefix, start_after))
        for key in super().list(prefix, start_after=start_after):
            self.listed_keys += 1
            yield key


def write(store: Store, step: int, *names: str, worker: str = "worker_0", width: int = 1, mode: str = "TRAIN") -> None:
    pairs = [(name, np.ones(width, np.float32)) for name in names]
    write_step(store, encode_step(pairs, step=step, mode=mode, mode_step=step, worker=worker, wall_time=7.0))


def run(steps: int, *, workers: int = 1) -> Counting:
    store = Counting()
    for rank in range(workers):
        store.put(f"collections/000000000/worker_{rank}_collections.json", COLLECTIONS % workers)
        for step in range(steps):
            write(store, step, "a", "b", worker=f"worker_{rank}")
    return store


def opened(store: Store) -> tuple[StepIndex, list[RecordError]]:
    damage: list[RecordError] = []
    index = StepIndex(store, report=damage.append)
    index.refresh()
    return index, damage


@pytest.mark.parametrize("is_packed", [True, False], ids=["packed", "unpacked"])
def test_a_step_that_was_written_again_is_read_again_once(is_packed: bool) -> None:
    store = run(5)
    if is_packed:
        rebuild_packed_index(store)
    index, damage = opened(store)
    write(store, 2, "a", "new", width=100, mode="EVAL")
    saved = index.reread(2, "worker_0")
    assert saved is not None
    assert (saved.mode, set(saved.layout.records)) == ("EVAL", {"a", "new"})
    assert index.saved(2) == {"worker_0": saved}
    assert index.arrivals[2] is saved
    assert "new" in index.names
    assert [each.step for each in index.arrivals] == [*range(5)]
    assert index.reread(2, "worker_0") is None
    assert damage == []


@pytest.mark.parametrize(
    ("step", "worker", "gets"),
    [
        pytest.param(2, "worker_0", 1, id="nothing-has-changed"),
        pytest.param(9, "worker_0", 0, id="no-such-step"),
        pytest.param(2, "worker_1", 0, id="no-such-worker"),
    ],
)
def test_there_is_nothing_to_read_again(step: int, worker: str, gets: int) -> None:
    store = run(5)
    index, _ = opened(store)
    store.gets.clear()
    assert index.reread(step, worker) is None
    assert index.reread(step, worker) is None
    assert len(store.gets) == gets


def test_an_index_that_cannot_be_read_any_more_changes_nothing() -> None:
    store = run(5)
    index, damage = opened(store)
    before = index.saved(2)
    store.put(index_key(2, "worker_0"), b"{")
    assert index.reread(2, "worker_0") is None
    assert [error.key for error in damage] == [index_key(2, "worker_0")]
    store.delete(index_key(3, "worker_0"))
    assert index.reread(3, "worker_0") is None
    assert index.saved(2) == before
    assert len(damage) == 1


def test_after_an_outage_it_is_read_again() -> None:
    store = run(5)
    index, _ = opened(store)
    write(store, 2, "a", width=100)
    store.is_out = True
    with pytest.raises(StorageUnavailableError):
        index.reread(2, "worker_0")
    store.is_out = False
    assert index.reread(2, "worker_0") is not None


def test_a_late_workers_step_is_read_again_in_its_place() -> None:
    store = run(5, workers=2)
    for step in range(4):
        store.delete(index_key(step, "worker_1"))
    index, _ = opened(store)
    for step in range(4):
        write(store, step, "a", worker="worker_1")
    index.refresh()
    assert index.late_until == len(index.arrivals)
    write(store, 1, "c", worker="worker_1")
    saved = index.reread(1, "worker_1")
    assert saved is not None
    assert [each for each in index.arrivals if (each.step, each.worker) == (1, "worker_1")] == [saved]


@pytest.mark.parametrize("is_packed", [True, False], ids=["packed", "unpacked"])
def test_a_poll_asks_for_nothing_that_is_known(is_packed: bool) -> None:
    store = run(3000)
    if is_packed:
        rebuild_packed_index(store)
    index, _ = opened(store)
    index.expect_workers(1)
    store.gets.clear()
    store.lists.clear()
    store.listed_keys = 0
    assert not index.refresh()
    assert (store.gets, store.lists) == ([], [("", index_key(2999, "worker_0"))] if not is_packed else store.lists)
    assert len(store.lists) == 1
    assert store.listed_keys <= 3


def test_a_given_membership_is_read_and_listened_to() -> None:
    store = run(20, workers=2)
    rebuild_packed_index(store)
    membership = Membership(store, report=lambda _: None)
    index = StepIndex(store, report=lambda _: None, membership=membership)
    store.gets.clear()
    store.lists.clear()
    index.refresh()
    assert membership.worker_count == 2
    assert membership.workers == {"worker_0", "worker_1"}
    assert index.last_complete == 19
    assert len(store.gets) == 2 + 2  # two packed files, two of collections
    assert len(store.lists) == 3
    assert not membership.refresh()


def test_an_outage_while_opening_changes_nothing() -> None:
    store = run(20)
    rebuild_packed_index(store)
    index = StepIndex(store, report=lambda _: None)
    store.is_out = True
    with pytest.raises(StorageUnavailableError):
        index.refresh()
    assert (index.steps, index.names, index.workers) == ([], set(), set())
    store.is_out = False
    assert index.refresh()
    assert index.steps == [*range(20)]


def test_steps_that_are_alike_share_a_layout_whichever_index_they_come_from() -> None:
    store = run(300)
    rebuild_packed_index(store)
    for step in range(300, 310):
        write(store, step, "a", "b")
    index, _ = opened(store)
    assert len({saved.layout for saved in index.arrivals if saved.step >= 130}) == 1


def test_where_every_step_lies_differently_nothing_is_confused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Counting()
    for step in range(30):
        write(store, step, "a", "b", width=1 + step % 10)
    plenty, _ = opened(store)
    monkeypatch.setattr(index_files, "MOST_LAYOUTS_AT_HAND", 3)
    few, _ = opened(store)
    assert [saved.layout.records for saved in few.arrivals] == [saved.layout.records for saved in plenty.arrivals]


@pytest.mark.parametrize("length", [0, 2**34 + 1, 2**62])
def test_a_record_that_there_cannot_be_is_damage(length: int) -> None:
    store = run(2)
    entries = (IndexEntry("a", 0, length),)
    store.put(index_key(1, "worker_0"), encode_index(Index("TRAIN", 1, event_key(1, "worker_0"), entries)))
    index, damage = opened(store)
    assert [error.key for error in damage] == [index_key(1, "worker_0")]
    assert index.has_unreadable_index(1)
    assert index.workers_at(1) == {"worker_0"}
    assert [saved.step for saved in index.arrivals] == [0]


def test_an_index_that_is_gone_when_it_is_read_is_no_step() -> None:
    store = run(3)

    class Gone(Counting):
        def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
            keys = list(store.list(prefix, start_after=start_after))
            return iter(
                sorted({*keys, *([index_key(7, "worker_0")] if prefix == "" and start_after <= INDEX_PREFIX else [])})
            )

        def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
            return store.get(key, start=start, length=length)

    index, damage = opened(Gone())
    assert (index.steps, damage) == ([0, 1, 2], [])
