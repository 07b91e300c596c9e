"""The live screen: an interrupt ends it, though its exception be lost."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import signal
import sys

import pytest
from rich.console import Console

from trackside.cli.terminal.views.live_screen import LiveScreen


def test_an_interrupt_that_got_lost_ends_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    before = signal.getsignal(signal.SIGINT)
    with os.fdopen(theirs) as keys, os.fdopen(ours):
        monkeypatch.setattr(sys, "stdin", keys)
        with LiveScreen(Console(file=io.StringIO())) as screen:
            with contextlib.suppress(KeyboardInterrupt):  # as Python does in a finalizer
                signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                screen.left_within(30)
    assert signal.getsignal(signal.SIGINT) is before
