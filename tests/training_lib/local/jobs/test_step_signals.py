"""Whether a signal went to every process of a step, or to one."""

from __future__ import annotations

import os
import select
import signal

import pytest

from tests.patience import HANGS_SECONDS
from trackside.local.jobs import step_signals
from trackside.local.jobs.step_signals import StepSignals
from trackside.local.process_table import living_processes


def awaited(signals: StepSignals) -> int:
    """Wait until its process is ready, which it says by a first byte. Return its number."""
    assert signals._process is not None
    assert signals._process.stdout is not None
    assert select.select([signals._process.stdout], [], [], HANGS_SECONDS)[0]
    return signals._process.pid


def test_a_signal_to_all_is_told_from_one_to_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_signals, "ARRIVES_SECONDS", 0.2)
    signals = StepSignals()
    try:
        pid = awaited(signals)
        assert not signals.reached_all(signal.SIGUSR1)
        monkeypatch.setattr(step_signals, "ARRIVES_SECONDS", HANGS_SECONDS)
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGUSR1)
        assert signals.reached_all(signal.SIGUSR1)
        assert signals.reached_all(signal.SIGTERM)
        monkeypatch.setattr(step_signals, "ARRIVES_SECONDS", 0.2)
        assert not signals.reached_all(signal.SIGUSR1)  # the next one is another
    finally:
        signals.close()
    assert pid not in living_processes()


def test_one_that_died_reaches_nobody() -> None:
    signals = StepSignals()
    pid = awaited(signals)
    os.kill(pid, signal.SIGKILL)
    assert not signals.reached_all(signal.SIGTERM)
    signals.close()


def test_one_that_cannot_be_started_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    signals = StepSignals()
    assert not signals.reached_all(signal.SIGTERM)
    signals.close()
