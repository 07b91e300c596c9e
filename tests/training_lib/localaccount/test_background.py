from __future__ import annotations

import logging
import threading
from queue import Queue

import pytest

from trackside_localaccount.background import Background


def test_runs_now_and_later_in_order_of_time() -> None:
    background, done = Background(threads=1), Queue[str]()

    background.run(lambda: done.put("second"), after_seconds=0.1)
    background.run(lambda: done.put("first"), after_seconds=0.02)
    background.run(lambda: done.put("now"))

    assert [done.get(timeout=5) for _ in range(3)] == ["now", "first", "second"]
    background.close()


def test_closing_forgets_what_is_not_due_and_leaves_no_thread() -> None:
    before, background, done = threading.active_count(), Background(threads=2), Queue[str]()
    background.run(lambda: done.put("never"), after_seconds=60)

    background.close()
    background.run(lambda: done.put("too late"))

    assert done.empty()
    assert threading.active_count() == before


def test_a_task_that_fails_is_logged_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    background, done = Background(threads=1), Queue[str]()

    def fail() -> None:
        raise ValueError("broken task")

    with caplog.at_level(logging.ERROR):
        background.run(fail)
        background.run(lambda: done.put("after"))
        assert done.get(timeout=5) == "after"

    background.close()
    assert "broken task" in caplog.text
