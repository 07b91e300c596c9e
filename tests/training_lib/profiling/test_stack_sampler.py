"""Samples of a running thread: its line, also where Python has none."""

from __future__ import annotations

import threading
from types import FunctionType

import pytest

from tests.patience import HANGS_SECONDS, wait_until
from trackside.profiling.hang_watch import HangWatch
from trackside.profiling.phase_clock import DATA, PhaseClock
from trackside.profiling.stack_sampler import FIRST_STEP, StackSampler


def waits(up: threading.Event, may_end: threading.Event) -> None:
    up.set()
    may_end.wait(HANGS_SECONDS)


WITHOUT_LINES = FunctionType(waits.__code__.replace(co_linetable=b""), globals())
FIRST = waits.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("function", "line"),
    [pytest.param(waits, FIRST + 2, id="its-line"), pytest.param(WITHOUT_LINES, FIRST, id="no-line: the function's")],
)
def test_the_line_of_a_sample(function: FunctionType, line: int) -> None:
    clock, up, may_end = PhaseClock(), threading.Event(), threading.Event()
    sampler = StackSampler(
        clock,
        is_user_file=lambda file: file == __file__,
        model_file="",
        failed=lambda error: pytest.fail(str(error)),
        watch=HangWatch(clock, is_user_file=lambda file: True),
    )
    thread = threading.Thread(target=function, args=(up, may_end))
    thread.start()
    assert up.wait(HANGS_SECONDS)
    assert thread.ident is not None
    clock.thread, clock.current = thread.ident, DATA
    for _ in range(20):
        sampler.sample()
    may_end.set()
    thread.join(HANGS_SECONDS)
    found = sampler.lines.most_common(1)[0][0]
    assert (found.phase, found.file, found.function, found.line) == (DATA, __file__, "waits", line)


@pytest.mark.parametrize("is_stopped", [pytest.param(False, id="watched"), pytest.param(True, id="at-rest: no phase")])
def test_samples_are_taken_of_watched_steps_alone(*, is_stopped: bool) -> None:
    clock, up, may_end = PhaseClock(), threading.Event(), threading.Event()
    sampler = StackSampler(
        clock,
        is_user_file=lambda file: file == __file__,
        model_file="",
        failed=lambda error: pytest.fail(str(error)),
        watch=None,
    )
    thread = threading.Thread(target=waits, args=(up, may_end))
    thread.start()
    assert up.wait(HANGS_SECONDS)
    assert thread.ident is not None
    clock.thread, clock.steps = thread.ident, FIRST_STEP
    if is_stopped:
        clock.stop()
    sampler.start()
    wait_until(lambda: sampler.seconds > 0 or is_stopped)
    sampler.sample()
    if is_stopped:
        assert not sampler.lines
        clock.restart(7)
        wait_until(lambda: bool(sampler.lines))
    sampler.stop()
    may_end.set()
    thread.join(HANGS_SECONDS)
    assert sampler.lines
    assert sampler.seconds > 0
