"""A judging process ends with its worker, and with its lease."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.patience import HANGS_SECONDS, ends_early
from trackside.evaluation import exit_codes
from trackside.evaluation.stop_signal import StopSignal
from trackside.evaluation.worker_lease import LeasedStore, WorkerLease, news_line, until_line
from trackside.storage.memory import MemoryStore


class Ended(BaseException):
    """In place of os._exit."""


class Line:
    """Both ends of a lifeline, and a clock."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self.now, self.woken = 1000.0, 0
        self.lease = WorkerLease(self.read, wake=self._wake, clock=lambda: self.now, end=self._end)

    def _wake(self) -> None:
        self.woken += 1

    def _end(self, code: int) -> None:
        assert code == exit_codes.LEASE_LOST
        raise Ended

    def send(self, *lines: bytes) -> None:
        os.write(self.write, b"".join(lines))

    def close(self) -> None:
        os.close(self.write)


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    for end in (line.read, line.write):
        with suppress(OSError):
            os.close(end)


def test_it_ends_with_the_worker_and_heard_all_before(line: Line) -> None:
    line.send(until_line(2000.0), news_line(), news_line(), b"something new\n", b"half a li")
    line.close()
    with pytest.raises(Ended):
        line.lease.watch()
    assert line.woken == 2


def test_it_ends_with_the_lease_although_the_worker_lives(line: Line) -> None:
    line.send(until_line(1000.0))
    with pytest.raises(Ended):
        line.lease.watch()


def test_what_woke_up_too_late_writes_nothing(line: Line) -> None:
    store = MemoryStore()
    leased = LeasedStore(store, line.lease)
    leased.put("early.txt", b"1")  # before the worker has said anything
    watcher = threading.Thread(target=lambda: _ended(line))
    line.send(until_line(1010.0), news_line())
    watcher.start()
    while not line.woken:  # the thread has read both
        assert watcher.is_alive()
    leased.put("in-time.txt", b"1")
    line.now = 1010.0  # the process was frozen until now
    with pytest.raises(Ended):
        leased.put("late.txt", b"1")
    with pytest.raises(Ended):
        leased.delete("in-time.txt")
    assert sorted(store.list()) == ["early.txt", "in-time.txt"]
    assert (leased.get("early.txt"), leased.exists("late.txt"), list(leased.list("in"))) == (
        b"1",
        False,
        ["in-time.txt"],
    )
    line.close()
    watcher.join(HANGS_SECONDS)
    assert not watcher.is_alive()


def test_news_end_a_sleep_and_are_not_taken_for_an_end() -> None:
    with StopSignal() as stop:
        waker = threading.Timer(0.05, stop.wake)
        waker.start()
        with ends_early():
            stop.sleep(HANGS_SECONDS)
        waker.join()
        assert not stop.is_set
        stop.wake()
        stop.wake()
        with ends_early():
            stop.sleep(HANGS_SECONDS)  # what woke before the sleep began counts, once
        stop.sleep(0)
        assert not stop.is_set


def _ended(line: Line) -> None:
    with suppress(Ended):
        line.lease.watch()


def test_news_that_come_at_the_very_end_are_written_nowhere() -> None:
    """The pipe is closed by then, and its number may be that of another file."""
    with StopSignal() as stop:
        end = stop._write
    read, write = os.pipe()
    os.dup2(write, end)
    os.set_blocking(read, False)
    try:
        stop.wake()
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
    finally:
        for descriptor in {read, write, end}:
            os.close(descriptor)
