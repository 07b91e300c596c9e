"""The processor time of what the writer's thread does between steps, as the training thread reads it."""

from __future__ import annotations

import threading
import time

import pytest

from tests.patience import HANGS_SECONDS
from trackside.capture.ground.guard import Guard
from trackside.capture.writing.background_parts import BackgroundParts

SPENT_SECONDS = 0.02


class Part:
    """A part that works for a while, and waits for `gate` then."""

    due_in_seconds = 0.0

    def __init__(self) -> None:
        self.has_worked, self.gate = threading.Event(), threading.Event()

    def flush(self) -> None:
        began = time.thread_time()
        while time.thread_time() - began < SPENT_SECONDS:
            pass
        self.has_worked.set()
        assert self.gate.wait(HANGS_SECONDS)

    def flush_if_due(self) -> bool:
        self.flush()
        return True

    close = flush


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no clock of another thread on this system")
def test_the_time_of_what_is_under_way_counts_once() -> None:
    part = Part()
    parts = BackgroundParts([part], guard=Guard())
    assert parts.processor_seconds() == 0.0
    thread = threading.Thread(target=lambda: parts.flush_if_due(is_outage_known=False))
    thread.start()
    assert part.has_worked.wait(HANGS_SECONDS)
    assert SPENT_SECONDS <= parts.processor_seconds() < 2 * SPENT_SECONDS
    part.gate.set()
    thread.join()
    assert SPENT_SECONDS <= parts.processor_seconds() < 2 * SPENT_SECONDS
