"""Numbers of each step beside losses, and the rules that read them: each fault beside the same program without it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import trackside
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.recorded_names import STEP_SECONDS, UPDATE_SIZE
from trackside.contracts.rule_request import RuleConfiguration
from trackside.evaluation.backtest import backtest

BACKEND = keras.backend.backend()
EVERYWHERE, HERE = frozenset({"torch", "tensorflow", "jax"}), frozenset({"torch"})
REQUEST = CaptureRequest(
    (CollectionRequest("losses", Schedule(10**6)),), statistics=StatisticsRequest(budget=1.0, dear_interval=1)
)
BATCHES, EPOCHS = 28, 4
STEPS = BATCHES * EPOCHS


class Sleeps(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """A callback that makes some steps of the training long, or the evaluations."""

    def __init__(self, *, in_training: bool) -> None:
        super().__init__()
        self._in_training = in_training

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._in_training and batch in (8, 20):
            time.sleep(0.2)

    def on_test_begin(self, logs: Any = None) -> None:
        if not self._in_training:
            time.sleep(0.2)


class Rate(keras.callbacks.Callback):  # type: ignore[misc]  # as above
    """A callback that raises the learning rate at the end, or a little."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._step, self._factor = 0, factor

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._step += 1
        if self._step > STEPS - 8:
            self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) * self._factor


class PutsBack(keras.callbacks.Callback):  # type: ignore[misc]  # as above
    """A callback that loads the first weights at each epoch, or once."""

    def __init__(self, *, once: bool) -> None:
        super().__init__()
        self._once, self._first = once, list[Any]()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 0:
            self._first = self.model.get_weights()
        elif epoch == 1 or not self._once:
            self.model.set_weights(self._first)


def train(folder: Path, callback: Any) -> None:
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    inputs = random.normal(size=(BATCHES * 16, 6)).astype(np.float32)
    answers = (inputs @ random.normal(size=(6, 1))).astype(np.float32)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    with trackside.KerasHook(str(folder), save=REQUEST) as hook:
        validation = (inputs[:16], answers[:16]) if isinstance(callback, Sleeps) else None
        model.fit(
            inputs,
            answers,
            batch_size=16,
            epochs=EPOCHS,
            verbose=0,
            validation_data=validation,
            callbacks=[hook, callback],
        )


# rule and parameters, the fault, the same without it, and the backends on which the number is recorded
CASES: dict[str, tuple[Mapping[str, str], Any, Any, frozenset[str]]] = {
    "step-outlier": (
        {"milliseconds": "50", "n_outliers": "4", "stddev": "2"},
        Sleeps(in_training=True),
        Sleeps(in_training=False),
        EVERYWHERE,
    ),
    "runaway-updates": ({}, Rate(2.0), Rate(1.001), HERE),
    "weights-set-back": ({}, PutsBack(once=False), PutsBack(once=True), HERE),
}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras's `set_weights` on PyTorch
@pytest.mark.parametrize("is_faulty", [True, False], ids=["fault", "clean"])
@pytest.mark.parametrize("rule", CASES)
def test_rules_about_steps_find_their_faults(rule: str, is_faulty: bool, tmp_path: Path) -> None:
    parameters, fault, twin, backends = CASES[rule]
    train(tmp_path, fault if is_faulty else twin)
    found = backtest(str(tmp_path), [RuleConfiguration(rule, parameters=parameters)], clock=lambda: 0.0)
    assert bool(found.issues) == (is_faulty and BACKEND in backends), found


def test_steps_are_timed_and_updates_measured(tmp_path: Path) -> None:
    train(tmp_path, keras.callbacks.Callback())
    trial = trackside.open_trial(str(tmp_path))
    seconds = trial.tensor(STEP_SECONDS).statistic("mean")
    assert len(seconds.values) == STEPS - 1
    assert (np.asarray(seconds.values) > 0).all()
    assert (UPDATE_SIZE in trial.names) == (BACKEND in HERE)
