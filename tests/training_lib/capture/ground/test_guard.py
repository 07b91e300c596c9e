"""The guard: what it holds back, what it lets through, what it says."""

from __future__ import annotations

import logging

import pytest

from trackside.capture.ground.guard import Guard, describe


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("odd"), id="ordinary"),
        pytest.param(MemoryError(), id="out-of-memory"),
        pytest.param(RecursionError("deep"), id="recursion"),
        pytest.param(OSError(28, "No space left on device"), id="outage"),
    ],
)
def test_holds_back_and_switches_off(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    protected = guard.protect("capturing a step", fail)
    assert protected(error) is None
    assert guard.is_off
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.name.startswith("trackside")
    assert type(error).__name__ in record.getMessage()
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(KeyboardInterrupt(), id="ctrl-c"),
        pytest.param(SystemExit(3), id="exit"),
        pytest.param(GeneratorExit(), id="generator"),
    ],
)
def test_lets_the_users_exceptions_through(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    with pytest.raises(type(error)) as caught:
        guard.protect("capturing a step", fail)(error)
    assert caught.value is error
    assert not guard.is_off
    assert not caplog.records


def test_is_absent_once_off(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    calls: list[int] = []
    protected = guard.protect("counting", calls.append)
    protected(1)
    guard.switch_off_silently()
    protected(2)
    assert calls == [1]
    assert not caplog.records


def test_passes_values_through() -> None:
    assert Guard().protect("adding", lambda a, *, b: a + b)(1, b=2) == 3


def test_says_each_class_of_failure_once(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    for _ in range(3):
        guard.warn_once("disk", "disk is full")
        guard.warn_once("network", "network is down")
    assert [r.getMessage() for r in caplog.records] == ["trackside: disk is full", "trackside: network is down"]


def test_attempts_even_when_off(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    guard.switch_off_silently()
    assert guard.attempt("closing", lambda: 7) == 7
    assert guard.attempt("closing", lambda: fail(ValueError("x"))) is None
    assert len(caplog.records) == 1


def test_describes_in_one_line() -> None:
    assert describe(ValueError("first\n   second.")) == "ValueError: first second"
    assert describe(MemoryError()) == "MemoryError"
