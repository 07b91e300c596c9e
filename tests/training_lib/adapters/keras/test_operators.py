"""Windows of detailed profiling in trainings of Keras: TensorFlow's operators, and Python's functions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

import trackside
from trackside.adapters.keras.adapter import KerasAdapter
from trackside.contracts.capture_request import CaptureRequest, StatisticsRequest
from trackside.contracts.run.profiling_request import ProfilingRequest, Window
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.speed.performance.details import OPERATORS, PYTHON, Detail, read_details
from trackside.speed.profiler_report import profiler_report
from trackside.storage.open_store import open_store

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
only_on_tensorflow = pytest.mark.skipif(not ON_TENSORFLOW, reason="the operators of TensorFlow")


class _Own(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
    """The script's own profile of six batches."""

    def __init__(self, folder: Path, first: int) -> None:
        super().__init__()
        self._folder, self._first = folder, first

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """Begin and end it."""
        import tensorflow

        if batch == self._first:
            tensorflow.profiler.experimental.start(str(self._folder))
        if batch == self._first + 6:
            tensorflow.profiler.experimental.stop()


def _model() -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    return model


def _fit(folder: Path, *, steps: int = 40, callbacks: tuple[keras.callbacks.Callback, ...] = ()) -> list[float]:
    profiling = ProfilingRequest(operators=Window(10, 5), python=Window(20, 3))
    request = CaptureRequest(statistics=StatisticsRequest(budget=1.0), profiling=profiling)
    adapter = KerasAdapter(CaptureEnvironment(str(folder), request.to_json(), 0, 1))
    adapter.install()
    try:
        return _losses(steps, callbacks)
    finally:
        adapter.uninstall()


def _losses(steps: int, callbacks: tuple[keras.callbacks.Callback, ...] = ()) -> list[float]:
    given = np.random.default_rng(0).normal(size=(steps * 8, 16)).astype("float32")
    history = _model().fit(given, given[:, :1], batch_size=8, verbose=0, shuffle=False, callbacks=list(callbacks))
    return [float(loss) for loss in history.history["loss"]]


def _details(folder: Path) -> dict[str, Detail]:
    return {one.kind: one for one in read_details(open_store(RunLocation(str(folder)).profiles))}


@only_on_tensorflow
def test_the_operators_of_the_requested_steps(tmp_path: Path) -> None:
    _fit(tmp_path / "run")
    operators = _details(tmp_path / "run")[OPERATORS]
    assert (operators.first_step, operators.last_step) == (10, 14)
    calls = {row.name: row.calls for row in operators.rows}
    products = sum(count for name, count in calls.items() if "MatMul" in name)  # some are fused with what follows
    assert products == 5 * 5  # of a step: two layers, the gradients of both weights, and that of the hidden layer
    assert all(row.self_seconds <= row.total_seconds + 1e-9 for row in operators.rows)
    assert not list(Path(tempfile.gettempdir()).glob("trackside-operators-*"))
    trial = trackside.open_trial(str(tmp_path / "run"))
    trial.refresh()
    report = profiler_report(trial, run="run", now=0.0, details=[operators])  # what TfOperatorTime shows
    (of_worker,) = report["operators"]
    assert {row["name"] for row in of_worker["rows"]} == set(calls)
    assert sum(row["percent"] for row in of_worker["rows"]) == pytest.approx(100)


def test_the_functions_of_the_requested_steps(tmp_path: Path) -> None:
    _fit(tmp_path / "run")
    functions = _details(tmp_path / "run")[PYTHON]
    assert (functions.first_step, functions.last_step) == (20, 22)
    assert functions.rows


@only_on_tensorflow
@pytest.mark.parametrize("first", [8, 12], ids=["before ours", "within ours"])
def test_the_scripts_own_profiler_goes_first(tmp_path: Path, first: int) -> None:
    _fit(tmp_path / "run", callbacks=(_Own(tmp_path / "own", first),))
    assert list((tmp_path / "own").rglob("*.xplane.pb"))
    assert OPERATORS not in _details(tmp_path / "run")


def test_the_training_is_the_same(tmp_path: Path) -> None:
    assert _fit(tmp_path / "run") == _losses(40)
