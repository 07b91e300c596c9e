"""The example: the healthy twin learns, each fault shows from the first steps, and the script knows nothing of us."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trackside.capture.session import SessionOptions
from trackside.contracts import run_layout
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.records.tfevents import read_records
from trackside.storage.memory import MemoryStore

SCRIPT = Path(__file__).parents[2] / "examples" / "digits" / "train.py"
Play = Callable[..., str]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Play:
    """Runs the script in this process with the given arguments; what it printed."""
    spec = importlib.util.spec_from_file_location("digits_train", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        script.main()
        return capsys.readouterr().out

    return run


def captured(play: Play, *arguments: str) -> dict[str, list[np.ndarray]]:
    """Every gradient and loss of every 15th step of one epoch."""
    request = CaptureRequest((CollectionRequest("gradients", Schedule(15)), CollectionRequest("losses", Schedule(1))))
    store = MemoryStore()
    capture = PyTorchAdapter(
        CaptureEnvironment("memory://run", request.to_json(), 0, 1), options=SessionOptions(open_store=lambda _: store)
    )
    capture.install()
    try:
        play("--epochs", "1", *arguments)
    finally:
        capture.uninstall()
    series: dict[str, list[np.ndarray]] = {}
    for key in store.list(run_layout.EVENTS_PREFIX):
        for record in read_records(store.get(key), key=key):
            series.setdefault(record.name, []).append(record.value)
    return series


def means(series: dict[str, list[np.ndarray]], layer: str) -> list[float]:
    return [float(np.abs(value).mean()) for value in series[f"gradient/DigitClassifier_{layer}.weight"]]


def test_the_healthy_twin_learns(play: Play) -> None:
    printed = play("--epochs", "60").splitlines()
    losses = [float(line.split()[4]) for line in printed[:-1]]
    assert len(losses) == 60
    assert losses[-1] < losses[30] < losses[10] < losses[0]
    assert float(printed[-1].removeprefix("test accuracy ")) > 0.95


def test_the_same_seed_prints_the_same(play: Play) -> None:
    assert play("--epochs", "2") == play("--epochs", "2")
    assert play("--epochs", "2") != play("--epochs", "2", "--seed", "1")


def test_a_training_until_stopped_outlasts_any_number_of_epochs(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock passes the end of its time after three epochs, of which one was asked for."""
    seconds = itertools.chain([0.0, 0.0, 1.0, 7000.0], itertools.repeat(8000.0))
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    printed = play("--epochs", "1", "--until-stopped").splitlines()
    assert [line.split()[1] for line in printed[:-1]] == ["0", "1", "2"]


def test_healthy_gradients_reach_the_first_layer(play: Play) -> None:
    series = captured(play)
    assert min(means(series, "hidden.0")) > 1e-5
    assert len(series["CrossEntropyLoss_output_0"]) == 45


def test_vanishing_gradients_show_from_the_first_step(play: Play) -> None:
    series = captured(play, "--fault", "vanishing")
    assert all(max(means(series, f"hidden.{layer}")) < 1e-7 for layer in range(8))
    assert min(means(series, "output")) > 1e-4  # the last layer still learns, so the loss alone does not show it


def test_an_exploding_learning_rate_shows_within_a_few_steps(play: Play) -> None:
    losses = np.array(captured(play, "--fault", "exploding")["CrossEntropyLoss_output_0"])
    assert np.isfinite(losses[0])
    assert not np.isfinite(losses[5:]).any()


def test_the_script_knows_nothing_of_trackside() -> None:
    modules = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(SCRIPT.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }
    assert modules == {"argparse", "itertools", "sklearn", "time", "torch"}
