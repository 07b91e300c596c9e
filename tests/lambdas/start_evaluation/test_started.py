"""What one copy of the function remembers."""

from __future__ import annotations

import pytest

from lambdas.start_evaluation import started


def test_knows_what_it_noted_and_nothing_else() -> None:
    assert not started.is_known("one")
    started.note("one")
    assert started.is_known("one")
    assert not started.is_known("two")
    started.forget_all()
    assert not started.is_known("one")


def test_never_grows_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, "MOST_NAMES", 3)
    for name in "abcd":
        started.note(name)
    assert [name for name in "abcd" if started.is_known(name)] == ["b", "c", "d"]
