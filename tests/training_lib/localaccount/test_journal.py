from __future__ import annotations

import threading
from itertools import count

import pytest

from trackside_localaccount.journal import Journal, JournalEntry


def journal() -> Journal:
    ticks = count()
    return Journal(clock=lambda: float(next(ticks)))


def test_keeps_order_time_and_names() -> None:
    written = journal()
    written.write("job-state", kind="Training", attempt=1)
    written.write("alarm")

    assert list(written) == [
        JournalEntry(0.0, "job-state", {"kind": "Training", "attempt": "1"}),
        JournalEntry(1.0, "alarm", {}),
    ]
    assert [hop.at for hop in written.find("job-state", attempt=1)] == [0.0]
    assert written.find("job-state", attempt=2) == ()
    assert str(written.find("job-state")[0]) == "job-state kind=Training attempt=1"


def test_waits_for_what_another_thread_writes() -> None:
    written = journal()
    threading.Timer(0.05, lambda: written.write("late", name="a")).start()

    (hop,) = written.wait_for("late", name="a")

    assert hop.kind == "late"


def test_answers_as_soon_as_there_is_more_and_with_nothing_when_the_time_is_over() -> None:
    written = journal()
    written.write("first")
    threading.Timer(0.05, lambda: written.write("second")).start()

    assert [hop.kind for hop in written.after(0, within_seconds=0)] == ["first"]
    assert [hop.kind for hop in written.after(1, within_seconds=10)] == ["second"]
    assert written.after(2, within_seconds=0) == ()


def test_waiting_in_vain_says_what_was_seen() -> None:
    written = journal()
    written.write("other", name="a")

    with pytest.raises(TimeoutError, match=r"(?s)not 1 of late .*other name=a"):
        written.wait_for("late", within_seconds=0.01)
