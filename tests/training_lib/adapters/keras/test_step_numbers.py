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
from trackside.adapters.keras.adapter import RATE
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run.recorded_names import (
    BACKWARD_SECONDS,
    DATA_SECONDS,
    OPTIMIZER_SECONDS,
    STEP_SECONDS,
    UPDATE_SIZE,
)
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
    """A callback that loads the first weights at each epoch, or once those that the epoch before began with."""

    def __init__(self, *, once: bool) -> None:
        super().__init__()
        self._once, self._first = once, list[Any]()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == (1 if self._once else 0):
            self._first = self.model.get_weights()
        elif epoch == 2 or (epoch and not self._once):
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


class Rates(keras.callbacks.Callback):  # type: ignore[misc]  # as above
    """The rate of each batch, before it."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.used.append(float(self.model.optimizer.learning_rate))


@pytest.mark.skipif(BACKEND not in HERE, reason="rates of compiled steps are not at hand")
@pytest.mark.parametrize("parts", [None, 2])
def test_the_rate_of_a_step_is_the_one_that_it_used(parts: int | None, tmp_path: Path) -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=1, decay_rate=0.5)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(schedule, gradient_accumulation_steps=parts), "mse")
    rates = Rates()
    with trackside.KerasHook(str(tmp_path), save=REQUEST) as hook:
        model.fit(np.ones((16, 2)), np.ones((16, 1)), batch_size=4, verbose=0, callbacks=[hook, rates])
    recorded = trackside.open_trial(str(tmp_path)).tensor(RATE).statistic("mean")
    assert recorded.values.tolist() == rates.used


PAUSE = 0.02


class SlowBatches(keras.utils.PyDataset):  # type: ignore[misc]  # as above
    """Sixteen batches, each after a pause or without one."""

    def __init__(self, pause: float, *, workers: int = 1) -> None:
        super().__init__(workers=workers)
        self._pause, self._random = pause, np.random.default_rng(0)

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        time.sleep(self._pause)
        inputs = self._random.normal(size=(8, 6)).astype(np.float32)
        return inputs, inputs[:, :1]


class SlowOptimizer(keras.optimizers.SGD):  # type: ignore[misc]  # as above
    """An optimizer that pauses."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        time.sleep(PAUSE)
        super().update_step(gradient, variable, learning_rate)


class SlowCallback(keras.callbacks.Callback):  # type: ignore[misc]  # as above
    """A callback that pauses at the end or the start of batches, and where epochs and evaluations begin and end."""

    def __init__(self, where: str) -> None:
        super().__init__()
        setattr(self, where, lambda *_, **__: time.sleep(PAUSE))


class SlowBackward(keras.layers.Layer):  # type: ignore[misc]  # as above
    """A layer whose gradient pauses, on PyTorch."""

    def call(self, inputs: Any) -> Any:
        if getattr(inputs, "requires_grad", False):
            inputs.register_hook(lambda gradient: time.sleep(PAUSE))
        return inputs


class SlowForward(keras.layers.Layer):  # type: ignore[misc]  # as above
    """A layer that pauses."""

    def call(self, inputs: Any) -> Any:
        time.sleep(PAUSE)
        return inputs


# On PyTorch Keras makes all batches of a `PyDataset` with workers between two epochs, where no wait is recorded.
@pytest.mark.parametrize("workers", [1] if BACKEND in HERE else [1, 2])
@pytest.mark.parametrize("batches", [0.0, PAUSE], ids=["quick", "slow"])
def test_waits_for_batches_are_found(batches: float, workers: int, tmp_path: Path) -> None:
    others = None if batches else SlowCallback("on_train_batch_end")  # a busy machine delays batches too
    phases_of(tmp_path, batches=batches * workers, slow=others, workers=workers, epochs=8)
    configured = RuleConfiguration("data-starvation", parameters={"steps": "20"})
    found = backtest(str(tmp_path), [configured], clock=lambda: 0.0)
    assert bool(found.issues) == (batches > 0), found
    if batches:
        assert "test_step_numbers.py" in str(found.issues), found


def phases_of(
    folder: Path, *, batches: float = 0.0, slow: Any = None, workers: int = 1, epochs: int = 2
) -> dict[str, float]:
    """Train some epochs. Return the median seconds of each phase; an absent one is absent."""
    keras.utils.set_random_seed(1)
    layers = [slow] if isinstance(slow, keras.layers.Layer) else []
    callbacks = [slow] if isinstance(slow, keras.callbacks.Callback) else []
    optimizer = SlowOptimizer(0.01) if slow == "optimizer" else keras.optimizers.SGD(0.01)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), *layers, keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    validation = SlowBatches(0.0) if callbacks else None
    with trackside.KerasHook(str(folder), save=REQUEST) as hook:
        data = SlowBatches(batches, workers=workers)
        model.fit(data, epochs=epochs, verbose=0, validation_data=validation, callbacks=[hook, *callbacks])
    trial = trackside.open_trial(str(folder))
    keys = {"data": DATA_SECONDS, "backward": BACKWARD_SECONDS, "optimizer": OPTIMIZER_SECONDS}
    values = {phase: trial.tensor(key).statistic("mean").values for phase, key in keys.items() if key in trial.names}
    return {phase: float(np.median(each)) for phase, each in values.items()}


@pytest.mark.skipif(BACKEND not in HERE, reason="a compiled step has no phases that Python sees")
@pytest.mark.parametrize(
    ("options", "slow_phase"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"batches": PAUSE}, "data", id="batches"),
        pytest.param({"slow": SlowBackward()}, "backward", id="backward"),
        pytest.param({"slow": "optimizer"}, "optimizer", id="optimizer"),
        pytest.param({"slow": SlowForward()}, "", id="forward"),
        pytest.param({"slow": SlowCallback("on_train_batch_begin")}, "", id="begin-of-a-batch"),
        pytest.param({"slow": SlowCallback("on_train_batch_end")}, "", id="end-of-a-batch"),
        pytest.param({"slow": SlowCallback("on_epoch_end")}, "", id="end-of-an-epoch"),
        pytest.param({"slow": SlowCallback("on_test_batch_end")}, "", id="evaluation"),
    ],
)
def test_phases_of_a_step(options: dict[str, Any], slow_phase: str, tmp_path: Path) -> None:
    found = phases_of(tmp_path, **options)
    assert set(found) == {"data", "backward", "optimizer"}
    assert {phase for phase, seconds in found.items() if seconds >= PAUSE} == ({slow_phase} if slow_phase else set())


@pytest.mark.skipif(BACKEND in HERE, reason="PyTorch has all phases")
@pytest.mark.parametrize("batches", [0.0, PAUSE], ids=["quick", "slow"])
def test_a_compiled_step_has_its_waits_at_most(batches: float, tmp_path: Path) -> None:
    found = phases_of(tmp_path, batches=batches)
    assert set(found) == ({"data"} if BACKEND == "jax" else set())  # on TensorFlow samples show them
    assert all((seconds >= PAUSE) == (batches > 0) for seconds in found.values())
