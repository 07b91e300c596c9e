"""The packed index as capture writes it: when it is stored, what it promises, and that nothing depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing import packed_index
from trackside.capture.writing.packed_index import STORE_EVERY_STEPS, PackedIndexWriter
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import PACKED_INDEX_PREFIX, index_key, packed_index_key
from trackside.records import packed_index as records_packed_index
from trackside.records.index_file import decode_index
from trackside.records.packed_index import NOTHING_BEFORE, PackedIndex, decode_packed_index
from trackside.records.step_file import encode_step, write_step
from trackside.storage.memory import MemoryStore

WORKER = "worker_0"


class Counting(MemoryStore):
    """Notes what is put, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []
        self.fails: Callable[[str], bool] = lambda _: False

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self.puts.append(key)
        if self.fails(key):
            raise StorageUnavailableError(f"Cannot store {key!r}")
        super().put(key, data)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        if self.fails(prefix):
            raise StorageUnavailableError(f"Cannot list {prefix!r}")
        return super().list(prefix, start_after=start_after)


def writer(worker: str = WORKER, *, at: float = 1000.0) -> PackedIndexWriter:
    return PackedIndexWriter(worker, clock=lambda: at)


def save(
    store: MemoryStore,
    packed: PackedIndexWriter,
    number: int,
    *,
    width: int = 1,
    worker: str = WORKER,
    shares: bool = False,
) -> None:
    """Saves a step as `RunFiles` does. `shares`: in an event file with others."""
    step = StepTensors(number, "TRAIN", number, 7.0, (("loss", np.ones(width, np.float32)),))
    files = encode_step(
        step.tensors, step=number, mode="TRAIN", mode_step=number, worker=worker, wall_time=step.wall_time
    )
    packed.before_step(store, number)
    write_step(store, files)
    packed.after_step(store, step, replace(files, event_start=8) if shares else files)


def files(store: MemoryStore) -> list[PackedIndex]:
    return [decode_packed_index(store.get(key), key=key) for key in store.list(PACKED_INDEX_PREFIX)]


def steps(store: MemoryStore) -> list[int]:
    return [int(step) for file in files(store) for step in file.rows["step"]]


@pytest.mark.parametrize(
    ("seconds", "shares", "stored"),
    [
        pytest.param(1 / 16, True, 2 * STORE_EVERY_STEPS, id="a-second-for-16-steps"),
        pytest.param(1 / 64, True, STORE_EVERY_STEPS, id="quick-steps"),
        pytest.param(-1.0, True, 2 * STORE_EVERY_STEPS, id="a-clock-that-runs-back"),
        pytest.param(1 / 64, False, 2 * STORE_EVERY_STEPS, id="a-file-for-each-step"),
    ],
)
def test_it_is_stored_at_most_once_a_second_where_steps_share_files(seconds: float, shares: bool, stored: int) -> None:
    store, now = MemoryStore(), [1000.0]
    packed = PackedIndexWriter(WORKER, clock=lambda: now[0])
    for step in range(2 * STORE_EVERY_STEPS + 1):
        save(store, packed, step, shares=shares)
        now[0] += seconds
    assert steps(store) == [*range(stored)]
    packed.finish(store)
    assert steps(store) == [*range(2 * STORE_EVERY_STEPS + 1)]


def test_it_is_stored_after_every_16_steps_and_at_the_end() -> None:
    store, packed = Counting(), writer()
    for step in range(3, 3 + 2 * STORE_EVERY_STEPS + 1):
        save(store, packed, step)
    key = packed_index_key(WORKER, started_ms=1_000_000, first_step=3)
    assert [put for put in store.puts if put == key] == [key] * 2
    assert steps(store) == [*range(3, 3 + 2 * STORE_EVERY_STEPS)]
    packed.finish(store)
    assert steps(store) == [*range(3, 4 + 2 * STORE_EVERY_STEPS)]
    packed.finish(store)
    assert len([put for put in store.puts if put == key]) == 3


def test_a_saved_step_costs_two_puts_and_a_sixteenth() -> None:
    store, packed = Counting(), writer()
    for step in range(320):
        save(store, packed, step)
    assert len(store.puts) == 320 * 2 + 320 // 16


def test_nothing_saved_leaves_nothing() -> None:
    store, packed = Counting(), writer()
    packed.before_step(store, 0)
    packed.finish(store)
    writer().finish(store)
    assert store.puts == []


def test_says_of_a_step_what_its_index_says() -> None:
    store, packed = Counting(), writer()
    for step in (0, 5, 130, 100_000):
        save(store, packed, step, width=step % 7 + 1)
    packed.finish(store)
    (file,) = files(store)
    for row in file.rows:
        key = index_key(int(row["step"]), WORKER)
        index, layout = decode_index(store.get(key), key=key), file.layouts[int(row["layout"])]
        assert (layout.entries, layout.shapes, layout.event_key) == (index.entries, index.shapes, None)
        assert int(row["mode_step"]) == index.mode_step
    assert len(file.layouts) > 1


def test_steps_that_are_alike_share_a_layout() -> None:
    store, packed = Counting(), writer()
    for step in range(200, 264):
        save(store, packed, step)
    (file,) = files(store)
    assert len(file.layouts) == 1


def test_files_follow_on_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_index, "MOST_STEPS", 32)
    store, packed = Counting(), writer()
    for step in range(80):
        save(store, packed, step)
    first, second, third = files(store)
    assert [len(file.rows) for file in (first, second, third)] == [32, 32, 16]
    assert [file.follows for file in (first, second, third)] == [NOTHING_BEFORE, first.key, second.key]


def test_a_run_whose_steps_all_lie_differently_makes_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_index, "MOST_BYTES", 2000)
    store, packed = Counting(), writer()
    for step in range(64):
        save(store, packed, step, width=step + 1)
    assert len(files(store)) > 1
    assert steps(store) == [*range(64)]


@pytest.mark.parametrize(
    ("already", "follows"),
    [
        pytest.param((), NOTHING_BEFORE, id="nothing-was-there"),
        pytest.param(((4, "worker_1"),), NOTHING_BEFORE, id="another-worker-was-there"),
        pytest.param(((4, WORKER),), None, id="this-worker-was-there"),
        pytest.param(tuple((s, "worker_1") for s in range(1000)), None, id="too-many-to-look-at"),
    ],
)
def test_a_process_that_follows_on_another_says_that_it_cannot_tell(
    already: tuple[tuple[int, str], ...], follows: str | None
) -> None:
    store = Counting()
    for step, worker in already:
        store.put(index_key(step, worker), b"{}")
    packed = writer()
    for step in range(STORE_EVERY_STEPS):
        save(store, packed, step)
    assert [file.follows for file in files(store)] == [follows]


def test_it_says_so_before_it_saves_anything() -> None:
    store = Counting()
    save(store, writer(at=1.0), 0)
    store.puts.clear()
    save(store, writer(at=2.0), 0)
    assert store.puts[0] == packed_index_key(WORKER, started_ms=2000, first_step=0)
    assert [(file.follows, len(file.rows)) for file in files(store)] == [(None, 0)]


def test_a_run_that_cannot_be_listed_may_have_been_there() -> None:
    store, packed = Counting(), writer()
    store.fails = lambda what: what == "index/"
    save(store, packed, 0)
    packed.finish(store)
    assert [file.follows for file in files(store)] == [None]


@pytest.mark.parametrize("step", [pytest.param(5, id="the-same-step"), pytest.param(2, id="an-older-step")])
def test_going_back_counts_as_another_process(step: int) -> None:
    store, packed = Counting(), writer()
    for number in range(6):
        save(store, packed, number)
    packed.finish(store)
    save(store, packed, step)
    packed.finish(store)
    first, second = files(store)
    assert (first.follows, second.follows) == (NOTHING_BEFORE, None)
    assert second.started_ms == first.started_ms + 1
    assert second.rows["step"].tolist() == [step]


def test_after_a_failed_step_it_cannot_tell() -> None:
    store, packed = Counting(), writer()
    save(store, packed, 0)
    packed.before_step(store, 1)
    packed.step_failed()
    save(store, packed, 2)
    packed.finish(store)
    assert [(file.follows, file.rows["step"].tolist()) for file in files(store)] == [(None, [2])]


@pytest.mark.parametrize("fails_at", range(4))
def test_what_could_not_be_stored_comes_with_the_next_16_steps(fails_at: int) -> None:
    store, packed = Counting(), writer()
    tried = 0

    def fails(key: str) -> bool:
        nonlocal tried
        tried += key.startswith(PACKED_INDEX_PREFIX)
        return key.startswith(PACKED_INDEX_PREFIX) and tried == fails_at + 1

    store.fails = fails
    for step in range(5 * STORE_EVERY_STEPS):
        save(store, packed, step)
    assert tried == 5
    store.fails = lambda _: False
    assert steps(store) == [*range(5 * STORE_EVERY_STEPS)]


def test_what_failed_last_is_tried_again_at_the_end() -> None:
    store, packed = Counting(), writer()
    store.fails = lambda key: key.startswith(PACKED_INDEX_PREFIX)
    for step in range(STORE_EVERY_STEPS):
        save(store, packed, step)
    store.fails = lambda _: False
    assert files(store) == []
    packed.finish(store)
    assert steps(store) == [*range(STORE_EVERY_STEPS)]


def test_what_no_file_can_hold_ends_it_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_packed_index, "MOST_ROWS", 2 * STORE_EVERY_STEPS + 1)
    monkeypatch.setattr(packed_index, "MOST_STEPS", 10**9)
    store, packed = Counting(), writer()
    for step in range(100):
        save(store, packed, step)
    packed.finish(store)
    assert steps(store) == [*range(2 * STORE_EVERY_STEPS)]
