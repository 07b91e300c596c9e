"""One trial read by several threads: one at a time, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from tests.patience import HANGS_SECONDS
from trackside.evaluation.rule_processes.shared_reading import RunLock, SharedSource
from trackside.testing.fake_trial import fake_trial
from trackside.trial.window import Window

LOSS = "CrossEntropyLoss_output_0"
LOSSES = {LOSS: {0: 1.0, 1: 2.0, 2: 4.0}}


def in_thread(act: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda window: window.tensors("losses"), id="names"),
        pytest.param(lambda window: window.tensors("weights"), id="no-names"),
        pytest.param(lambda window: window.statistic(LOSS, "mean")[0].series, id="columns"),
        pytest.param(lambda window: window.statistic("gone", "mean"), id="no-columns"),
        pytest.param(lambda window: window.value(LOSS, worker="worker_0").tolist(), id="a-value"),
        pytest.param(lambda window: window.facts, id="facts"),
    ],
)
def test_shows_what_the_trial_shows(ask: Callable[[Window], Any]) -> None:
    trial = fake_trial(LOSSES)
    own = trial.window(1, now=0.0)
    shared = Window(SharedSource(trial, RunLock(), nullcontext()), 1, own.mode, 0.0, 0.0)
    assert ask(shared) == ask(own)


def test_says_where_a_trial_lies_and_nothing_of_what_lies_nowhere() -> None:
    trial = fake_trial(LOSSES)
    shared = SharedSource(trial, RunLock(), nullcontext())
    assert shared.uri == trial.uri != ""
    assert SharedSource(shared, RunLock(), nullcontext()).uri == ""


def test_nothing_is_read_while_the_evaluator_has_its_turn() -> None:
    run_lock, read = RunLock(), threading.Event()
    shared = SharedSource(fake_trial(LOSSES), run_lock, nullcontext())
    with run_lock.lock:

        def reads() -> None:
            shared.tensor_names(collection="losses")
            read.set()

        thread = in_thread(reads)
        assert not read.wait(0.05)
        with run_lock.released():
            assert read.wait(HANGS_SECONDS)
    thread.join(HANGS_SECONDS)


def test_a_thread_gets_its_turn_between_the_evaluators_steps() -> None:
    run_lock, read = RunLock(), threading.Event()
    deadline = time.monotonic() + HANGS_SECONDS
    with run_lock.lock:
        in_thread(lambda: run_lock.read(read.set))
        while not read.is_set():
            assert time.monotonic() < deadline
            run_lock.let_readers_in()


def test_a_read_that_fails_gives_the_turn_back() -> None:
    run_lock = RunLock()

    def fail() -> None:
        raise ZeroDivisionError

    def reads_twice() -> None:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                run_lock.read(fail)

    reads_twice()
    run_lock.lock.acquire()
    thread = in_thread(reads_twice)  # one that had to wait
    with run_lock.released():
        thread.join(HANGS_SECONDS)
    run_lock.lock.release()
    assert not thread.is_alive()


def test_many_threads_read_what_one_would() -> None:
    count, steps = 8, 200
    rng = np.random.default_rng(7)
    tensors = {f"gradient/Net_fc{i}.weight": dict(enumerate(rng.normal(size=steps).tolist())) for i in range(4)}
    expected = {name: tuple(series.values()) for name, series in tensors.items()}
    run_lock, wrong = RunLock(), []
    shared = SharedSource(fake_trial(tensors), run_lock, nullcontext())

    def reads() -> None:
        for name, values in expected.items():
            for step in range(0, steps, 10):
                (column,) = shared.columns(name, "mean", last_step=step, mode="TRAIN")
                if not np.allclose(column.values, values[: step + 1]):
                    wrong.append((name, step))

    threads = [in_thread(reads) for _ in range(count)]
    for thread in threads:
        thread.join(HANGS_SECONDS)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)
