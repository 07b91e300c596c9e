from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.patience import HANGS_SECONDS, ends_early
from trackside.local.signal_inbox import PASSED_ON, SignalInbox


@pytest.mark.parametrize("number", [number for number in PASSED_ON if number is not signal.SIGINT])
def test_a_signal_is_kept_and_does_not_act(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with SignalInbox() as inbox:
        os.kill(os.getpid(), number)
        assert inbox.wait(HANGS_SECONDS) == (number,)
        assert inbox.wait(0) == ()
    assert signal.getsignal(number) is before


def test_the_end_of_a_child_wakes_at_once_and_is_no_signal_to_pass_on() -> None:
    with SignalInbox() as inbox:
        child = subprocess.Popen([sys.executable, "-c", "pass"])
        with ends_early():
            assert inbox.wait(HANGS_SECONDS) == ()
        child.wait()


def test_what_was_ignored_stays_ignored() -> None:
    """nohup: a training that was to survive the end of the terminal survives it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalInbox() as inbox:
            os.kill(os.getpid(), signal.SIGHUP)
            assert inbox.wait(0) == ()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nothing_stays_open() -> None:
    before = len(os.listdir("/dev/fd"))
    with SignalInbox():
        pass
    assert len(os.listdir("/dev/fd")) == before
