"""Steps on the short way are recorded as those on the long one, and leave it wherever anything else is to be done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import trackside
from trackside.contracts.recorded_names import UPDATE_SIZE
from trackside.frameworks.keras.short_way import RATE, ShortWay

BACKEND = keras.backend.backend()
BATCHES, EPOCHS = 40, 4
LOSS = "loss_output_0"


class Falls(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """A callback that lowers the learning rate now and then."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch % 7 == 0:
            self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) * 0.9


class Breaks(keras.callbacks.Callback):  # type: ignore[misc]  # as above
    """A callback that gives the run a number at some steps, and evaluates at others."""

    def __init__(self, hook: Any, rows: Any) -> None:
        super().__init__()
        self._hook, self._rows = hook, rows

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch % 9 == 5:
            self.model.predict(self._rows[0], verbose=0)


class Twice(keras.Model):  # type: ignore[misc]  # as above
    """A model with two optimizers that take turns, one update or two a step."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.count = keras.layers.Dense(1), 0
        self.other = keras.optimizers.SGD(0.001)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        import torch

        x, y = data
        self.count += 1
        for optimizer in (self.optimizer, self.other)[: 1 + (self.count % 5 == 0)]:
            self.zero_grad()
            loss = self.compute_loss(x, y, self(x, training=True))
            loss.backward()
            weights = list(self.trainable_weights)
            with torch.no_grad():
                optimizer.apply([weight.value.grad for weight in weights], weights)
        return {"loss": loss}


def _network() -> keras.Model:
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])


def _nothing(hook: Any, rows: Any) -> list[Any]:
    return []


CASES: dict[str, tuple[Callable[[], keras.Model], Callable[[Any, Any], list[Any]]]] = {
    "plain": (_network, _nothing),
    "a rate that changes": (_network, lambda hook, rows: [Falls()]),
    "predictions between": (_network, lambda hook, rows: [Breaks(hook, rows)]),
    "two updates": (Twice, _nothing),
}


def trained(folder: Path, case: str, *, batch_size: int = 8) -> dict[str, list[tuple[int, float]]]:
    make, callbacks = CASES[case]
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    inputs = random.normal(size=(BATCHES * batch_size, 6)).astype(np.float32)
    rows = inputs, (inputs @ random.normal(size=(6, 1))).astype(np.float32)
    model = make()
    model.compile(keras.optimizers.SGD(0.01), "mse")

    with trackside.KerasHook(str(folder), save={"losses": 10**6}) as hook:
        validation = tuple(part[:16] for part in rows)
        model.fit(
            *rows,
            batch_size=batch_size,
            epochs=EPOCHS,
            verbose=0,
            shuffle=False,
            validation_data=validation,
            callbacks=[hook, *callbacks(hook, rows)],
        )
    trial = trackside.open_trial(str(folder))
    found = {}
    for name in (LOSS, RATE, UPDATE_SIZE) if BACKEND == "torch" else (LOSS,):
        for column in trial.columns(name, "mean", last_step=trial.recorded_through, mode="TRAIN"):
            found[name] = list(zip(map(int, column.steps), map(float, column.values), strict=True))
    return found


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("case", [name for name in CASES if BACKEND == "torch" or name != "two updates"])
def test_the_same_is_recorded(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    keep = ShortWay._keep

    def counted(self: ShortWay, further: tuple[float, ...] = ()) -> Any:
        found = keep(self, further)
        kept.append(found is not None)
        return found

    monkeypatch.setattr(ShortWay, "_keep", counted)
    short = trained(tmp_path / "short", case)
    assert sum(kept) > BATCHES, "most steps are plain"
    monkeypatch.setattr(ShortWay, "_plan", lambda self: None)
    kept.clear()
    long = trained(tmp_path / "long", case)
    assert not kept
    assert short.keys() == long.keys()
    assert dict(short[LOSS]) == pytest.approx(dict(long[LOSS]))
    assert short.get(RATE) == long.get(RATE)
    sizes = dict(long.get(UPDATE_SIZE, ()))  # at the steps that each budget takes
    for step, size in short.get(UPDATE_SIZE, ()):
        assert step not in sizes or np.isfinite(size)
