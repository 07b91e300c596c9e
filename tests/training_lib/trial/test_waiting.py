"""Waiting asks, sleeps, and asks again; it never spins."""

from __future__ import annotations

from collections.abc import Callable

from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial
from trackside.trial.waiting import wait_for_steps


class Sleeper:
    """Each sleep is an event in the life of the run."""

    def __init__(self, *events: Callable[[], None]) -> None:
        self.events = list(events)
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.events.pop(0)()


def run() -> tuple[MemoryStore, Trial]:
    store = MemoryStore()
    write_collections(store)
    return store, Trial(store)


def test_returns_the_next_complete_steps() -> None:
    store, trial = run()
    write_tensors(store, 0, {"a": 1.0})
    sleep = Sleeper(lambda: None, lambda: write_tensors(store, 10, {"a": 1.0}))
    assert list(wait_for_steps(trial, after=0, poll_seconds=2, sleep=sleep)) == [10]
    assert sleep.slept == [2, 2]


def test_returns_at_once_what_is_there() -> None:
    store, trial = run()
    write_tensors(store, 0, {"a": 1.0})
    assert list(wait_for_steps(trial, after=-1, poll_seconds=2, sleep=Sleeper())) == [0]


def test_returns_nothing_at_the_end() -> None:
    store, trial = run()
    sleep = Sleeper(lambda: end_run(store))
    assert list(wait_for_steps(trial, after=-1, poll_seconds=2, sleep=sleep)) == []
    assert trial.has_ended


def test_returns_when_asked_to_stop() -> None:
    _, trial = run()
    stop: list[bool] = []
    sleep = Sleeper(lambda: stop.append(True))
    assert list(wait_for_steps(trial, after=-1, poll_seconds=2, sleep=sleep, should_stop=lambda: bool(stop))) == []
    assert not trial.has_ended
