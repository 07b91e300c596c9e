"""What one copy of the function remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lambdas.start_evaluation import started
from trackside.contracts.event import TrainingJob

JOB = TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01", 7)


def test_knows_what_it_noted_and_nothing_else() -> None:
    assert not started.is_known("one", JOB)
    started.note("one", JOB)
    assert started.is_known("one", JOB)
    assert not started.is_known("two", JOB)
    assert not started.is_known("one", replace(JOB, created_at=8)), "a later job of the same name"
    started.forget_all()
    assert not started.is_known("one", JOB)


def test_never_grows_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, "MOST_NAMES", 3)
    for name in "abcd":
        started.note(name, JOB)
    assert [name for name in "abcd" if started.is_known(name, JOB)] == ["b", "c", "d"]
