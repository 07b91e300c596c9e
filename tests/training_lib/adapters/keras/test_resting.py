"""A training at rest meets nothing of ours but a counter; a step of a burst is recorded as if all were watched."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.training_lib.adapters.keras.test_adapter import network
from trackside.adapters.keras.adapter import KerasAdapter
from trackside.capture.statistics.rest import LEAST_BURST
from trackside.contracts.capture_request import CaptureRequest, StatisticsRequest
from trackside.contracts.run.recorded_names import OVERHEAD, PROCESSOR_WAIT_SECONDS, RESTED_STEPS, STEP_SECONDS
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.storage.local import LocalStore
from trackside.trial.recorded.recorded_statistics import RecordedStatistics

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

BACKEND = keras.backend.backend()
FIRST, REST, LAST = 12, 7, 10**9
WATCHED = StatisticsRequest(budget=1.0, dear_interval=1, dense_start_steps=0, dense_after_steps=0)  # all, at each
LOSS = ("loss_output_0", "mean", "TRAIN")
OTHERWISE = {OVERHEAD, PROCESSOR_WAIT_SECONDS, RESTED_STEPS}

Recorded = dict[tuple[str, str, str], dict[int, float]]
Train = Callable[[], "list[keras.Model]"]


def batches(count: int) -> tuple[Any, Any]:
    """Return `count` batches of 8 rows."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(8 * count, 6)).astype(np.float32)
    return inputs, inputs[:, :3].argmax(axis=1).astype(np.int64)


def fit(model: keras.Model, *, count: int = 30, epochs: int = 2, **settings: Any) -> list[keras.Model]:
    model.fit(*batches(count), batch_size=8, epochs=epochs, shuffle=False, verbose=0, **settings)
    return [model]


def plain() -> list[keras.Model]:
    return fit(network())


def in_short_epochs() -> list[keras.Model]:
    return fit(network(), count=5, epochs=12)


def in_many_fits() -> list[keras.Model]:
    model = network()
    for _ in range(20):
        fit(model, count=3, epochs=1)
    return [model]


def with_validation() -> list[keras.Model]:
    return fit(network(), count=20, epochs=3, validation_data=batches(3), validation_batch_size=8)


class Evaluates(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """A callback that evaluates within an epoch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch % 9 == 8:
            self.model.predict(batches(1)[0], verbose=0)


def with_predictions_between() -> list[keras.Model]:
    return fit(network(), callbacks=[Evaluates()])


def accumulating() -> list[keras.Model]:
    model = network()
    optimizer = keras.optimizers.SGD(0.05, gradient_accumulation_steps=3)
    model.compile(optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return fit(model)


class OwnStep(keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model whose step is the script's own, with a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = keras.layers.Dense(3, name="layer")

    def call(self, inputs: Any) -> Any:
        return self.layer(inputs)

    def train_step(self, data: Any) -> dict[str, Any]:
        inputs, labels = data
        self.zero_grad()
        loss = keras.ops.mean(keras.losses.sparse_categorical_crossentropy(labels, self(inputs), from_logits=True))
        loss.backward()
        variables = self.trainable_weights
        self.optimizer.apply([variable.value.grad for variable in variables], variables)
        return {"loss": float(loss.detach())}


def with_its_own_step() -> list[keras.Model]:
    keras.utils.set_random_seed(1)
    model = OwnStep()
    model.compile(optimizer=keras.optimizers.SGD(0.05))
    return fit(model)


def by_hand() -> list[keras.Model]:
    model = network()
    inputs, labels = batches(60)
    for number in range(60):
        rows = slice(8 * number, 8 * number + 8)
        model.train_on_batch(inputs[rows], labels[rows])
    return [model]


def two_by_hand() -> list[keras.Model]:
    models = [network(), network()]
    inputs, labels = batches(60)
    for number in range(60):
        rows = slice(8 * number, 8 * number + 8)
        models[number % 2].train_on_batch(inputs[rows], labels[rows])
    return models


def in_turn() -> list[keras.Model]:
    """A loop by hand, `fit`, another model, and a loop by hand again."""
    return [*by_hand(), *plain(), *fit(network(), count=10), *by_hand()]


def several_a_call() -> list[keras.Model]:
    model = network()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss=loss, steps_per_execution=2)
    return fit(model, count=61)


RESTS = [plain, in_short_epochs, in_many_fits, with_validation, with_predictions_between, accumulating, in_turn]
if BACKEND == "torch":
    RESTS += [with_its_own_step, by_hand, two_by_hand]
else:
    RESTS += [several_a_call]


@contextmanager
def capturing(run: Path, *, rests: bool = True) -> Iterator[KerasAdapter]:
    capture = KerasAdapter(CaptureEnvironment(str(run), CaptureRequest((), statistics=WATCHED).to_json(), 0, 1))
    capture.install()
    capture.session.has_place_for_profiles = False  # no window opens by the clock
    capture.session.statistics.budget.share = 1e9  # a busy machine takes the same tiers
    rest = capture.session.rest
    rest.first_watched, rest.wanted, rest.longest_seconds = FIRST, lambda: REST if rests else 0, 1e9
    try:
        yield capture
    finally:
        capture.uninstall()


def recorded(run: Path) -> Recorded:
    """Return {(name, statistic, mode): {step: value}}."""

    def refuse(error: Exception) -> None:
        raise error

    found = RecordedStatistics(LocalStore(RunLocation(str(run)).statistics), report=refuse)
    found.refresh()
    return {
        (tensor, statistic, mode): dict(zip(column.steps.tolist(), column.values.tolist(), strict=True))
        for tensor in found.tensors
        for statistic in found.statistics_of(tensor)
        for mode in ("TRAIN", "EVAL", "PREDICT")
        for column in found.columns(tensor, statistic, last_step=LAST, mode=mode)
    }


def weights(models: list[keras.Model]) -> list[Any]:
    return [np.array(weight) for model in models for weight in model.get_weights()]


@pytest.mark.parametrize("train", RESTS, ids=[train.__name__ for train in RESTS])
def test_a_burst_records_what_a_watched_training_does(train: Train, tmp_path: Path) -> None:
    bare = weights(train())
    with capturing(tmp_path / "watched", rests=False) as capture:
        train()
        position = capture.session.engine.position()
        assert not capture.session.rest.steps
    with capturing(tmp_path / "rested") as capture:
        rested = weights(train())
        capture.resting.end()
        at_rest = capture.session.rest.steps
        assert capture.session.engine.position() == position
        assert capture.session.statistics.is_on
        assert not capture.session.guard.is_off
    for one, other in zip(bare, rested, strict=True):
        assert np.array_equal(one, other)
    expected, found = recorded(tmp_path / "watched"), recorded(tmp_path / "rested")
    assert at_rest >= len(expected[LOSS]) / 5
    differing = {  # of two models in turn, the size of an update is known after a rest alone
        (key, step): (value, expected.get(key, {}).get(step))
        for key, values in found.items()
        if key in expected and key[0] not in OTHERWISE and not key[0].endswith("_seconds")
        for step, value in values.items()
        if expected[key].get(step) != value
    }
    assert not differing
    assert {key: values for key, values in expected.items() if key[2] != "TRAIN"} == {
        key: values for key, values in found.items() if key[2] != "TRAIN"
    }
    losses, gaps = [*found[LOSS]], found[RESTED_STEPS, "mean", "TRAIN"]
    assert max(gaps.values()) <= REST + 1, "one more where a callback ended the rest within a step"
    assert {*gaps} <= {*losses}
    assert {step - gap for step, gap in gaps.items()} <= {step + 1 for step in losses} | {*expected[LOSS]}
    assert [*found[STEP_SECONDS, "mean", "TRAIN"]] == losses[1:]
    of_each = [key for key, values in expected.items() if key[2] == "TRAIN" and {*expected[LOSS]} == {*values}]
    assert {key: [*found[key]] for key in of_each if key[0] not in OTHERWISE} == {
        key: losses for key in of_each if key[0] not in OTHERWISE
    }


def test_an_evaluation_within_an_epoch_costs_no_step(tmp_path: Path) -> None:
    with capturing(tmp_path / "run", rests=False) as capture:
        with_predictions_between()
        counts = capture.session.engine.position().mode_steps
    assert counts == {"TRAIN": 60, "PREDICT": 6}
    assert len(recorded(tmp_path / "run")[LOSS]) == 60


def _in_place() -> dict[str, Any]:
    """Return what a step may meet of ours, by name."""
    methods = [
        (keras.Model, "compute_loss"),
        (keras.losses.Loss, "__call__"),
        (keras.layers.Layer, "__call__"),
        (keras.layers.Dropout, "call"),
        (keras.layers.BatchNormalization, "call"),
        *([(sys.modules["torch"].autograd, "backward")] if BACKEND == "torch" else []),
    ]
    return {f"{owner.__name__}.{name}": getattr(owner, name) for owner, name in methods}


class Looks(keras.callbacks.Callback):  # type: ignore[misc]  # as above
    """A callback that notes what is in place, by whether the training is at rest."""

    def __init__(self, capture: KerasAdapter) -> None:
        super().__init__()
        self._capture, self.seen = capture, list[tuple[bool, dict[str, Any]]]()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.seen.append((self._capture.session.rest.is_on, _in_place()))


def test_nothing_of_ours_is_in_place_at_rest(tmp_path: Path) -> None:
    before = _in_place()
    with capturing(tmp_path / "run") as capture:
        looks = Looks(capture)
        fit(network(), callbacks=[looks])
    at_rest, watched = ([found for is_on, found in looks.seen if is_on is each] for each in (True, False))
    assert len(at_rest) > 20
    assert len(watched) > FIRST + LEAST_BURST
    assert all(found == before for found in at_rest)
    assert all(found[name] is not before[name] for found in watched for name in before)
    assert _in_place() == before


def test_a_library_that_has_wrapped_ours_ends_all_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = keras.layers.Layer.__call__
    with capturing(tmp_path / "run") as capture:
        wrapped = functools.partialmethod(keras.layers.Layer.__call__)
        monkeypatch.setattr(keras.layers.Layer, "__call__", wrapped)
        plain()
        assert not capture.session.rest.steps
        assert capture.session.engine.step == 60
        monkeypatch.undo()
    assert keras.layers.Layer.__call__ is original
    assert len(recorded(tmp_path / "run")[LOSS]) == 60
