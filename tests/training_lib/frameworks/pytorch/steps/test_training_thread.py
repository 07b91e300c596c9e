"""Of two trainings in two threads one is captured, and a training may move from thread to thread."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest
import torch

from trackside.frameworks.pytorch.steps.training_thread import QUIET_SECONDS, TrainingThread


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def in_another(function: Callable[[], bool], *, waits: bool) -> bool:
    """Return what the function returns in another thread. `waits`: this one waits for it, and is not at work."""
    found: list[bool] = []
    has_started: list[bool] = []

    def run() -> None:
        while not has_started:  # to start a thread is to wait for it
            pass
        found.append(function())

    thread = threading.Thread(target=run)
    if waits:
        has_started.append(True)
    thread.start()
    has_started.append(True)
    while not waits and not found:
        pass
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    ("is_same", "waits", "seconds", "is_another"),
    [
        pytest.param(False, False, 0.0, True, id="a second training beside it"),
        pytest.param(False, False, 0.9 * QUIET_SECONDS, True, id="that has been quiet for a moment"),
        pytest.param(False, False, QUIET_SECONDS, False, id="that has been quiet for long"),
        pytest.param(False, True, 0.0, False, id="a training that the first thread waits for"),
        pytest.param(True, False, 0.0, False, id="the same training in another thread"),
    ],
)
def test_a_step_in_another_thread(is_same: bool, waits: bool, seconds: float, is_another: bool) -> None:
    moves: list[int] = []
    times = itertools.count(0.0, seconds or 1e-9)
    thread = TrainingThread(lambda: 7, moved=lambda: moves.append(1), clock=lambda: next(times))
    first = optimizer()
    assert not thread.is_another(first)
    second = first if is_same else optimizer()
    thread._is_quiet()
    assert in_another(lambda: thread.is_another(second), waits=waits) is is_another
    assert len(moves) == (not is_another)


def test_the_thread_of_a_training_that_has_ended_is_free() -> None:
    thread = TrainingThread(lambda: 0, moved=lambda: None)
    assert not in_another(lambda: thread.is_another(optimizer()), waits=True)
    assert not thread.is_another_pass()
    assert not thread.is_another(optimizer())


def test_passes_of_another_thread_are_left_alone() -> None:
    thread = TrainingThread(lambda: 0, moved=lambda: None)
    assert not thread.is_another_pass()
    assert not thread.is_another(optimizer())
    assert not thread.is_another_pass()
    assert in_another(thread.is_another_pass, waits=False)


@pytest.mark.parametrize(
    ("is_same", "waits", "first", "second", "of_none"),
    [
        pytest.param(True, False, True, None, True, id="the same training in another thread"),
        pytest.param(False, False, True, False, False, id="a second training beside it"),
        pytest.param(False, True, False, True, False, id="a second training that this one waits for"),
    ],
)
def test_gradients_that_may_be_read(
    is_same: bool, waits: bool, first: bool, second: bool | None, of_none: bool
) -> None:
    """PyTorch writes gradients without Python's lock: who reads one meanwhile may end the process."""
    thread = TrainingThread(lambda: 7, moved=lambda: None, clock=lambda: 0.0)
    one = optimizer()
    assert not thread.is_another(one)
    assert thread.may_read(one)
    assert thread.may_read(None)
    other = one if is_same else optimizer()
    in_another(lambda: thread.is_another(other), waits=waits)
    assert thread.may_read(one) is first
    assert second is None or thread.may_read(other) is second
    assert thread.may_read(None) is of_none


def test_passes_of_another_thread_forbid_what_no_optimizer_of_this_one_holds() -> None:
    thread = TrainingThread(lambda: 0, moved=lambda: None)
    one = optimizer()
    assert not thread.is_another(one)
    assert in_another(thread.is_another_pass, waits=False)
    assert thread.may_read(one)
    assert not thread.may_read(None)
    assert not thread.may_read(optimizer())
