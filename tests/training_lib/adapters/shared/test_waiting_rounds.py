"""Rounds that wait for one another: which are recorded together, and that nothing of them is lost or changed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from xgboost.callback import TrainingCallback

import trackside
from trackside.adapters.shared.waiting_rounds import FLUSH_SECONDS, MOST_WAITING, WAIT_SECONDS, WaitingRounds
from trackside.capture.session import RunSession
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.environment import CaptureEnvironment
from trackside.profiling.windows import ProfilingWindows
from trackside.trial.trial import Trial

LAST = 10**9


class Recorder:
    """A training of rounds of `seconds` each, whose rounds wait. Keeps the groups that were recorded together."""

    def __init__(self, seconds: float, every: int, window_from: float | None = None) -> None:
        request = CaptureRequest((CollectionRequest("metrics", Schedule(every)),))
        self.session = RunSession(CaptureEnvironment("memory://run", request.to_json(), 0, 1))
        self.now, self.groups = 100.0, list[list[int]]()
        windows = ProfilingWindows()
        if window_from is not None:
            windows.watched_from = window_from
        self._seconds = seconds
        self.waiting = WaitingRounds[int](self.session, windows, self._record, monotonic=lambda: self.now)

    def train(self, count: int) -> None:
        for number in range(count):
            if number and self.waiting.take(number):
                self.now += self._seconds
                continue
            with self.waiting.alone() as may_record:
                assert may_record
                self._record(deque([number]))
            self.now += self._seconds

    def _record(self, rounds: deque[int]) -> None:
        group = list(rounds)
        self.groups.append(group)
        for number in group:
            assert self.session.engine.step == number
            rounds.popleft()
            self.session.engine.end_step()


@pytest.mark.parametrize(
    ("seconds", "every", "window_from", "groups"),
    [
        pytest.param(0.125, LAST, None, [[0], [1, 2], [3, 4], [5, 6], [7]], id="a quarter of a second together"),
        pytest.param(1.0, LAST, None, [[0], [1], [2], [3], [4], [5], [6], [7]], id="long rounds one by one"),
        pytest.param(
            0.001, 4, None, [[0], [1, 2], [3], [4], [5, 6], [7]], id="those before a round that saves, which is alone"
        ),
        pytest.param(0.001, 1, None, [[k] for k in range(8)], id="each round saves"),
        pytest.param(0.001, LAST, 4, [[0], [1, 2], [3], [4], [5], [6], [7]], id="up to a window of profiling"),
        pytest.param(0.001, LAST, None, [[0], [1, 2, 3, 4, 5, 6, 7]], id="quick rounds at the end"),
    ],
)
def test_which_rounds_are_recorded_together(
    seconds: float, every: int, window_from: float | None, groups: list[list[int]]
) -> None:
    recorder = Recorder(seconds, every, window_from)
    recorder.train(8)
    recorder.waiting.close()
    assert recorder.groups == groups
    assert recorder.session.engine.step == 8


def test_no_more_wait_than_fit() -> None:
    recorder = Recorder(0.0, LAST)
    recorder.train(3 * MOST_WAITING)
    assert max(map(len, recorder.groups)) == MOST_WAITING


@pytest.mark.parametrize(
    ("paused", "is_flushed"), [(0.0, False), (FLUSH_SECONDS, True)], ids=["just now", "after a pause"]
)
def test_the_writers_thread_records_rounds_before_a_pause(paused: float, is_flushed: bool) -> None:
    recorder = Recorder(WAIT_SECONDS / 100, LAST)
    recorder.train(5)
    recorder.now += paused
    writer = threading.Thread(target=recorder.waiting.flush_if_due)
    writer.start()
    writer.join()
    assert (recorder.groups[-1] == [1, 2, 3, 4]) == is_flushed


def sets() -> list[tuple[xgboost.DMatrix, str]]:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(80, 3))
    answers = inputs[:, 0] + random.normal(size=80)
    return [(xgboost.DMatrix(inputs[:50], answers[:50]), "train"), (xgboost.DMatrix(inputs[50:], answers[50:]), "test")]


Log = dict[str, dict[str, list[float]]]


def trained(hook: Any, log: Log, *others: Any, rounds: int = 100, **given: Any) -> xgboost.Booster:
    (training, name), *rest = sets()
    settings = {"nthread": 1, "max_depth": 2, "eta": 0.3}
    return xgboost.train(
        settings, training, rounds, evals=[(training, name), *rest], evals_result=log, verbose_eval=False,
        callbacks=[hook, *others], **given,
    )  # fmt: skip


class Ends(TrainingCallback):
    """A callback that ends the training after round 60, by an error or as early stopping does."""

    def __init__(self, error: type[BaseException] | None = None) -> None:
        self._error = error

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch == 60 and self._error is not None:
            raise self._error
        return epoch == 60


def curves(trial: Trial) -> Iterator[tuple[str, list[int], list[float]]]:
    for mode, name in (("TRAIN", "train"), ("EVAL", "test")):
        (column,) = trial.columns("rmse_loss_output_0", "mean", last_step=LAST, mode=mode)
        yield name, column.steps.tolist(), column.values.tolist()


@pytest.mark.parametrize(
    ("others", "given"),
    [
        pytest.param((), {}, id="to its end"),
        pytest.param((), {"early_stopping_rounds": 5}, id="early stopping"),
        pytest.param((Ends(),), {}, id="a callback of the script ends it"),
        pytest.param((Ends(RuntimeError),), {}, id="an error ends it"),
        pytest.param((Ends(KeyboardInterrupt),), {}, id="the user ends it"),
    ],
)
def test_each_round_of_a_training_is_recorded_as_xgboost_logs_it(
    others: tuple[Any, ...], given: dict[str, Any], tmp_path: Path
) -> None:
    log: Log = {}
    with (
        trackside.XGBoostHook(str(tmp_path), save={"metrics": 7, "predictions": 7}) as hook,
        contextlib.suppress(RuntimeError, KeyboardInterrupt),
    ):
        trained(hook, log, *others, **given)
    trial = trackside.open_trial(str(tmp_path))
    error = any(getattr(each, "_error", None) for each in others)
    for name, steps, values in curves(trial):
        logged = log[name]["rmse"][:-1] if error and "rmse" in log.get(name, {}) else log.get(name, {}).get("rmse", [])
        expected = logged or values  # XGBoost hands no log out of a training that failed
        assert steps == list(range(len(expected)))
        assert values == expected
        assert len(values) > (59 if others else 10)
    assert list(trial.steps()) == list(range(0, len(values), 7))


def test_rounds_that_save_are_saved_with_the_model_of_that_round(tmp_path: Path) -> None:
    log: Log = {}
    with trackside.XGBoostHook(str(tmp_path), save={"metrics": 7, "predictions": 7, "feature_importance": 7}) as hook:
        model = trained(hook, log)
    trial, held_back = trackside.open_trial(str(tmp_path)), sets()[1][0]
    for step in trial.steps():
        so_far = model[: step + 1]
        assert trial.tensor("test-rmse").value(step) == pytest.approx(log["test"]["rmse"][step])
        assert np.allclose(trial.tensor("predictions").value(step), so_far.predict(held_back))
        scores = so_far.get_score(importance_type="total_gain")
        for name, score in scores.items():
            found = trial.tensor(f"feature_importance/total_gain/{name}").value(step)
            assert found == pytest.approx(score / sum(scores.values()))


def test_each_round_keeps_its_own_moment(tmp_path: Path) -> None:
    times = list[float]()

    class Clock(TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            times.append(time.time())
            return False

    with trackside.XGBoostHook(str(tmp_path)) as hook:
        trained(hook, {}, Clock())
    trial = trackside.open_trial(str(tmp_path))
    found = [moment for _, moments in trial.parts.steps.moments(trial.workers[0]) for moment in moments.tolist()]
    after = [*times[1:], float("inf")]
    assert all(a <= moment <= b for a, moment, b in zip(times, found, after, strict=True))
