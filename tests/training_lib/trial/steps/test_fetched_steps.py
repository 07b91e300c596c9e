"""Records of a store far away: one of a step by itself, several of a small step in one request."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from trackside.storage.memory import MemoryStore
from trackside.trial.steps import fetched_steps
from trackside.trial.steps.fetched_steps import MOST_STEP_BYTES, FetchedSteps
from trackside.trial.steps.saved_step import Layout, SavedStep

QUARTER = MOST_STEP_BYTES // 4


class Remote(MemoryStore):
    """Counts the questions; `delay` is waited for with each."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int | None]] = []
        self.gate: threading.Event | None = None

    @property
    def uri(self) -> str:
        return "s3://bucket/run"

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.asked.append((start, length))
        if self.gate is not None:
            assert self.gate.wait(30)
        return super().get(key, start=start, length=length)


class Near(Remote):
    @property
    def uri(self) -> str:
        return "/runs/1"


def a_step(number: int, *, record_bytes: int = 10, records: int = 5) -> SavedStep:
    layout = Layout({f"t{k}": (k * record_bytes, record_bytes) for k in range(records)})
    return SavedStep(number, "worker_0", "TRAIN", f"events/{number}", layout)


def stored(store: MemoryStore, saved: SavedStep) -> bytes:
    size = max(start + length for start, length in saved.layout.records.values())
    data = bytes(k % 251 for k in range(size))
    store.put(saved.event_key, data)
    return data


@pytest.mark.parametrize(
    ("store", "record_bytes", "asked"),
    [
        pytest.param(Remote(), 10, [(0, 10), (0, 50)], id="a-small-step-far-away"),
        pytest.param(Near(), 10, [(0, 10), (10, 10), (20, 10), (30, 10), (40, 10)], id="a-folder"),
        pytest.param(Remote(), QUARTER, [(k * QUARTER, QUARTER) for k in range(5)], id="a-large-step"),
    ],
)
def test_all_records_of_a_step(store: Remote, record_bytes: int, asked: list[tuple[int, int]]) -> None:
    saved = a_step(7, record_bytes=record_bytes)
    data, steps = stored(store, saved), FetchedSteps(store)
    for start, length in saved.layout.records.values():
        assert steps.fetch(saved, start=start, length=length) == data[start : start + length]
    assert store.asked == asked


def test_one_record_of_many_steps_is_fetched_by_itself() -> None:
    store = Remote()
    steps = FetchedSteps(store)
    for number in range(100):
        saved = a_step(number)
        stored(store, saved)
        steps.fetch(saved, start=20, length=10)
    assert store.asked == [(20, 10)] * 100


def test_no_more_is_held_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    most_bytes = 200_000  # less than in earnest, where copying takes seconds
    monkeypatch.setattr(fetched_steps, "MOST_BYTES", most_bytes)
    store = Remote()
    steps = FetchedSteps(store)
    size = 10_000
    count = 8
    for number in range(count):
        saved = a_step(number, record_bytes=size)
        stored(store, saved)
        for place in range(5):
            steps.fetch(saved, start=place * size, length=size)
    assert store.asked == [(0, size), (0, 5 * size)] * count
    assert sum(len(step.data or b"") for step in steps._steps.values()) <= most_bytes
    store.asked.clear()
    steps.fetch(a_step(count - 1, record_bytes=size), start=0, length=size)
    assert store.asked == []
    steps.fetch(a_step(0, record_bytes=size), start=0, length=size)
    assert store.asked == [(0, size)]


def test_a_step_that_was_written_again_is_fetched_again() -> None:
    store, saved = Remote(), a_step(1)
    stored(store, saved)
    steps = FetchedSteps(store)
    for _ in range(2):
        steps.fetch(saved, start=0, length=10)
    store.put(saved.event_key, b"x" * 50)
    steps.forget(saved.event_key)
    assert steps.fetch(saved, start=0, length=10) == b"x" * 10


def test_threads_that_ask_for_one_step_share_an_answer() -> None:
    store, saved = Remote(), a_step(1)
    data, steps = stored(store, saved), FetchedSteps(store)
    store.gate = threading.Event()
    with ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(steps.fetch, saved, start=s, length=n) for s, n in saved.layout.records.values()]
        store.gate.set()
        assert sorted(answer.result(30) for answer in answers) == sorted(data[k : k + 10] for k in range(0, 50, 10))
    assert len(store.asked) == 2
