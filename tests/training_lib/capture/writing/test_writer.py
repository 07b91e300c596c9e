"""The writer thread: bounded, never in the way, and honest about what was lost."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.patience import HANGS_SECONDS, ends_early
from trackside.capture.ground.guard import Guard
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.writer import Writer, WriterLimits

LONG = HANGS_SECONDS  # a limit for tests that hang, never a wait


def step(number: int, size_bytes: int = 8) -> StepTensors:
    return StepTensors(number, "TRAIN", number, 0.0, (("w", np.zeros(size_bytes, np.uint8)),))


class Target:
    """Stores in memory; can be told to fail, or to wait for `gate`."""

    def __init__(self) -> None:
        self.saved: list[int] = []
        self.attempts: list[int] = []
        self.threads: set[str] = set()
        self.lost_steps: list[tuple[int, str]] = []
        self.finished = 0
        self.was_interrupted: bool | None = None
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.gate.set()

    def save(self, step: StepTensors) -> None:
        self.entered.set()
        assert self.gate.wait(LONG)
        self.threads.add(threading.current_thread().name)
        self.attempts.append(step.step)
        if self.error is not None:
            raise self.error
        self.saved.append(step.step)

    def lost(self, step: int, why: str) -> None:
        self.lost_steps.append((step, why))

    def finish(self, *, is_interrupted: bool) -> None:
        self.was_interrupted = is_interrupted
        if self.error is not None:
            raise self.error
        self.finished += 1


class Clock:
    """Stands still unless told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.gate.set()


def started(target: Target, *, guard: Guard | None = None, clock: Clock | None = None, **limits: float) -> Writer:
    bounds = WriterLimits(**{"block_seconds": 0.0, "gather_seconds": 0.0, **limits})  # type: ignore[arg-type] # a table of numbers
    writer = Writer(target, guard=guard or Guard(), limits=bounds, monotonic=clock or Clock())
    writer.start()
    return writer


def test_a_step_without_data_is_lost_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    target = Target()
    writer = Writer(target, guard=Guard())
    writer.start()
    assert writer.submit(step(0))
    assert not writer.submit(replace(step(1), tensors=(), lost="no memory is free"))
    assert writer.submit(step(2))
    assert writer.close(LONG)
    assert target.saved == [0, 2]
    assert target.lost_steps == [(1, "no memory is free")]
    assert writer.lost_steps == 1


def test_saves_in_order_on_one_other_thread(target: Target) -> None:
    writer = started(target)
    for number in range(50):
        assert writer.submit(step(number))
    assert writer.close(LONG)
    assert target.saved == list(range(50))
    assert target.finished == 1
    assert target.threads == {"trackside-writer"}
    assert (writer.saved_steps, writer.lost_steps) == (50, 0)


def test_flush_waits_for_what_is_queued_and_goes_on(target: Target) -> None:
    writer = started(target)
    writer.submit(step(0))
    assert writer.flush(LONG)
    assert target.saved == [0]
    writer.submit(step(1))
    assert writer.close(LONG)
    assert target.saved == [0, 1]


def test_the_thread_keeps_no_process_alive(target: Target) -> None:
    target.gate.clear()
    writer = started(target)
    writer.submit(step(0))
    assert target.entered.wait(LONG)
    (thread,) = [t for t in threading.enumerate() if t.name == "trackside-writer" and t.is_alive()][-1:]
    assert thread.daemon


def test_a_full_queue_drops_the_whole_step_and_says_so_once(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    target.gate.clear()
    writer = started(target, memory_bytes=100)
    assert writer.submit(step(0, 60))
    assert not writer.submit(step(1, 60))
    assert not writer.submit(step(2, 60))
    assert writer.submit(step(3, 40))
    target.gate.set()
    assert writer.close(LONG)
    assert target.saved == [0, 3]
    assert writer.lost_steps == 2
    messages = [r.getMessage() for r in caplog.records]
    assert len(messages) == 2
    assert "step 1 could not be saved" in messages[0]
    assert messages[1] == "trackside: 2 of 4 steps could not be saved."


def test_a_full_queue_blocks_for_its_bound_once_and_not_per_step(target: Target) -> None:
    target.gate.clear()
    writer = started(target, memory_bytes=10, block_seconds=0.2)
    writer.submit(step(0, 10))
    began = time.monotonic()
    for number in range(1, 1_000):
        assert not writer.submit(step(number, 10))
    assert 0.2 <= time.monotonic() - began < 100  # one wait of 0.2 s; a wait per step would take 200 s


def test_room_that_comes_in_time_is_used(target: Target) -> None:
    target.gate.clear()
    writer = started(target, memory_bytes=10, block_seconds=LONG)
    writer.submit(step(0, 10))
    assert target.entered.wait(LONG)
    threading.Timer(0.05, target.gate.set).start()
    assert writer.submit(step(1, 10))
    assert writer.close(LONG)
    assert target.saved == [0, 1]


def test_a_step_larger_than_the_budget_passes_alone(target: Target) -> None:
    writer = started(target, memory_bytes=10)
    assert writer.submit(step(0, 1000))
    assert writer.close(LONG)
    assert target.saved == [0]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), id="disk-full"),
        pytest.param(PermissionError(errno.EACCES, "Permission denied"), id="no-permission"),
        pytest.param(ConnectionError("endpoint refused"), id="network"),
    ],
)
def test_an_outage_is_said_once_and_tried_again_sparsely(
    error: Exception, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    clock, guard = Clock(), Guard()
    writer = started(target, guard=guard, clock=clock, first_retry_seconds=10, last_retry_seconds=15)
    target.error = error
    for number in range(30):  # one second a step
        writer.submit(step(number))
        assert writer.flush(LONG)
        clock.now += 1
    assert target.attempts == [0, 10, 25]  # after 10 s, then after 15 s
    assert len(caplog.records) == 1
    assert type(error).__name__ in caplog.records[0].getMessage()
    assert not guard.is_off

    target.error = None
    clock.now += 15
    writer.submit(step(30))
    writer.submit(step(31))
    assert writer.close(LONG)
    assert target.saved == [30, 31]
    assert [r.getMessage() for r in caplog.records[1:]] == [
        "trackside: saving works again from step 30 on.",
        "trackside: 30 of 32 steps could not be saved.",
    ]


def test_our_own_fault_ends_capture_and_never_blocks(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    target.error = ValueError("a bug")
    writer = started(target, guard=guard, block_seconds=LONG, memory_bytes=10)
    writer.submit(step(0, 10))
    assert writer.flush(LONG)
    assert guard.is_off
    for number in range(1, 100):
        assert not writer.submit(step(number, 10))
    assert writer.close(LONG)
    assert "a bug" in caplog.records[0].getMessage()


def test_close_is_bounded_when_the_store_hangs(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    target.gate.clear()
    writer = started(target)
    writer.submit(step(0))
    writer.submit(step(1))
    assert not writer.close(0.05)
    assert caplog.records[-1].getMessage() == "trackside: 2 of 2 steps could not be saved."


class Memory:
    """What an array lies in, as those of tensors do: it tells where it is let go."""

    def __init__(self, freed_by: list[str]) -> None:
        self._freed_by = freed_by
        self.freed = threading.Event()
        self._bytes = np.zeros(8, np.uint8)

    @property
    def __array_interface__(self) -> dict[str, object]:
        return dict(self._bytes.__array_interface__)

    def __del__(self) -> None:
        self._freed_by.append(threading.current_thread().name)
        self.freed.set()

    @staticmethod
    def step(number: int, freed_by: list[str]) -> tuple[StepTensors, threading.Event]:
        """A step in such memory, and what is set when that is gone."""
        memory = Memory(freed_by)
        return replace(step(number), tensors=(("w", np.asarray(memory)),)), memory.freed


def test_a_stored_step_is_let_go_though_none_follows(target: Target) -> None:
    """Its memory may be filled again, and it is not still there when the process ends."""
    writer = started(target)
    freed_by: list[str] = []
    one, freed = Memory.step(0, freed_by)
    assert writer.submit(one)
    del one
    assert freed.wait(LONG)
    assert freed_by == ["trackside-writer"]
    assert writer.close(LONG)


def test_a_thread_that_outlives_its_closing_lets_no_array_go(target: Target) -> None:
    """In a thread whose interpreter has ended, a tensor's last reference aborts the process (SIGABRT)."""
    target.gate.clear()
    writer = started(target)
    freed_by: list[str] = []
    for number in range(3):
        assert writer.submit(Memory.step(number, freed_by)[0])
    assert target.entered.wait(LONG)
    assert not writer.close(0.05)
    target.gate.set()
    assert writer.close(LONG)
    assert target.saved == [0, 1, 2]
    assert freed_by == [threading.current_thread().name] * 3


def test_the_thread_is_gone_when_closing_has_ended(target: Target) -> None:
    """With all it holds, here something of its own that takes a while to go."""
    gone: list[str] = []
    held = threading.local()

    class Slow:
        def __del__(self) -> None:
            threading.Event().wait(0.1)
            gone.append("with the thread")

    class Holding(Target):
        def finish(self, *, is_interrupted: bool) -> None:
            held.slow = Slow()

    assert started(Holding()).close(LONG)
    assert gone == ["with the thread"]


def test_a_healthy_run_says_nothing(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    writer = started(target)
    writer.submit(step(0))
    assert writer.close(LONG)
    assert not caplog.records


def test_steps_are_gathered_and_a_full_half_of_the_budget_ends_that(target: Target) -> None:
    writer = started(target, gather_seconds=LONG, memory_bytes=100)
    writer.submit(step(0, 40))
    assert not target.entered.wait(0.05)
    writer.submit(step(1, 10))
    with ends_early():
        assert target.entered.wait(LONG)
    assert writer.close(LONG)
    assert target.saved == [0, 1]


class Preparing(Target):
    """Does some of the work for several steps at once."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[list[int]] = []

    def prepare(self, steps: Sequence[StepTensors]) -> None:
        assert steps[0].step not in self.attempts
        self.prepared.append([one.step for one in steps])


def test_small_steps_that_wait_are_prepared_together() -> None:
    target = Preparing()
    writer = started(target, gather_seconds=LONG)
    for number, size in enumerate([8, 8, 60_000, 8, 60_000, 100_000, 8]):
        writer.submit(step(number, size))
    assert writer.flush(LONG)
    assert target.prepared == [[0, 1, 2, 3]]
    assert target.saved == [0, 1, 2, 3, 4, 5, 6]
    for number in range(7, 107):
        writer.submit(step(number))
    assert writer.close(LONG)
    assert target.prepared == [[0, 1, 2, 3], list(range(7, 71)), list(range(71, 107))]
    assert target.saved == list(range(107))


def test_nothing_is_prepared_while_the_store_fails() -> None:
    target = Preparing()
    target.error = OSError(errno.ENOSPC, "full")
    writer = started(target, gather_seconds=LONG)
    writer.submit(step(0))
    assert writer.flush(LONG)
    for number in (1, 2):
        writer.submit(step(number))
    assert writer.close(LONG)
    assert target.prepared == []


def test_a_flush_within_submit_does_not_deadlock(target: Target) -> None:
    """A signal handler interrupts the main thread anywhere, so also where it holds the writer's lock."""
    writer = started(target)
    writer.submit(step(0))
    with writer._lock:
        assert writer.flush(LONG)
    assert writer.close(LONG)


def test_the_target_is_told_of_every_lost_step_and_why(target: Target) -> None:
    clock = Clock()
    writer = started(target, clock=clock)
    target.error = OSError("no room")
    for number in range(3):
        writer.submit(step(number))
    assert writer.flush(LONG)
    assert target.lost_steps == [(number, "OSError: no room") for number in range(3)]


def test_a_queue_that_is_full_loses_steps_by_name(target: Target) -> None:
    writer = started(target, memory_bytes=10)
    target.gate.clear()
    writer.submit(step(0))
    assert not writer.submit(step(1))
    assert target.lost_steps == [(1, "storage is slower than what is to be saved")]


def test_a_step_after_the_end_is_lost_without_a_word_about_storage(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread may train on while the process ends around it."""
    writer = started(target)
    assert writer.close(LONG)
    assert not writer.submit(step(7))
    assert not writer.submit(step(8))
    assert target.lost_steps == [(7, "its run is closed"), (8, "its run is closed")]
    assert [record.getMessage() for record in caplog.records] == [
        "trackside: step 7 could not be saved: its run is closed."
    ]


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_the_target_is_told_why_it_ends(target: Target, is_interrupted: bool) -> None:
    assert started(target).close(LONG, is_interrupted=is_interrupted)
    assert target.was_interrupted is is_interrupted


# What else the thread does


class Part:
    """A log that notes what is asked of it."""

    def __init__(self, target: Target, *, due_in_seconds: float = LONG, error: Exception | None = None) -> None:
        self.target, self.due_in_seconds, self.error = target, due_in_seconds, error
        self.asked: list[str] = []
        self.has_been_asked = threading.Event()

    def _note(self, what: str) -> None:
        self.asked.append(what)
        self.target.threads.add(threading.current_thread().name)
        self.has_been_asked.set()
        if self.error is not None:
            raise self.error

    def flush_if_due(self) -> bool:
        self.due_in_seconds = LONG
        self._note("if due")
        return True

    def flush(self) -> None:
        self._note("flush")

    def close(self) -> None:
        self._note(f"close before {self.target.finished} ends")


def with_part(part: Part, guard: Guard | None = None) -> Writer:
    writer = Writer(
        part.target,
        guard=guard or Guard(),
        background=(part,),
        limits=WriterLimits(block_seconds=0.0, gather_seconds=0.0),
        monotonic=Clock(),
    )
    writer.start()
    return writer


def test_a_part_is_flushed_when_due_though_no_step_comes(target: Target) -> None:
    part = Part(target, due_in_seconds=0.0)
    writer = with_part(part)
    assert part.has_been_asked.wait(LONG)
    assert part.asked == ["if due"]
    assert writer.close(LONG)


def test_a_flush_includes_the_parts(target: Target) -> None:
    part = Part(target)
    writer = with_part(part)
    writer.submit(step(0))
    assert writer.flush(LONG)
    assert part.asked[-1] == "flush"
    assert target.saved == [0]
    assert target.threads == {"trackside-writer"}
    assert writer.close(LONG)


def test_parts_are_closed_before_the_end_of_the_run_is_stored(target: Target) -> None:
    part = Part(target)
    writer = with_part(part)
    assert writer.close(LONG)
    assert part.asked == ["close before 0 ends"]
    assert target.finished == 1


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        pytest.param(OSError(errno.ENOSPC, "full"), ["flush", "flush", "close before 0 ends"], id="outage-tries-again"),
        pytest.param(ValueError("a fault of ours"), ["flush"], id="fault-is-given-up"),
    ],
)
def test_a_failing_part_costs_no_step(
    error: Exception, asked: list[str], target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    part = Part(target, error=error)
    guard = Guard()
    writer = with_part(part, guard)
    assert writer.flush(LONG)
    assert writer.flush(LONG)
    writer.submit(step(0))
    assert writer.close(LONG)
    assert [what for what in part.asked if what != "if due"] == asked
    assert target.saved == [0]
    assert target.finished == 1
    assert not guard.is_off
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("is_part_first", "said"),
    [
        pytest.param(True, ["Part cannot store its data", "step 0 could not be saved", "1 of 1 steps"], id="part"),
        pytest.param(False, ["step 0 could not be saved", "1 of 1 steps"], id="step"),
    ],
)
def test_a_lost_step_is_said_though_a_part_has_failed_before(
    is_part_first: bool, said: list[str], target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    part = Part(target)
    target.error = error = OSError(errno.ENOSPC, "full")
    writer = with_part(part)
    if is_part_first:
        part.error = error
        assert writer.flush(LONG)
    writer.submit(step(0))
    assert writer.flush(LONG)
    part.error = error
    assert writer.close(LONG)
    found = [record.getMessage() for record in caplog.records]
    assert len(found) == len(said)
    assert all(part in line for part, line in zip(said, found, strict=True))
