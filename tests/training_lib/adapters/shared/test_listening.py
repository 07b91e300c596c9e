"""Adapters that listen to a framework's own calls: what they share. The frameworks' own folders hold the rest."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.patience import HANGS_SECONDS
from trackside.adapters.shared.listening import ListeningAdapter, ListeningScript
from trackside.capture.place import Place
from trackside.capture.session import Rank
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.model_facts import ModelFacts
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared.adapter import Undo


class Counting(ListeningAdapter):
    """An adapter of a framework that calls it itself."""

    listens = 0

    def listen(self) -> Undo:
        self.listens += 1

        def undo() -> None:
            self.listens -= 1

        return undo

    def step(self) -> None:
        if not self.has_begun:
            self.begin_run(Rank(0, 1), ModelFacts())
        self.session.engine.end_step()


def script(folder: Path | str = "") -> ListeningScript:
    request = CaptureRequest((CollectionRequest("losses"),))
    return ListeningScript(lambda: request, Counting, place=Place(run=str(folder)))


def test_listens_from_the_beginning_to_the_end(tmp_path: Path) -> None:
    capture = script(tmp_path / "run")
    assert (capture.now.step, capture.now.has_begun, capture.now.mode) == (-1, False, "TRAIN")
    capture.begin()
    capture.begin()
    adapter: Any = capture.adapter
    assert adapter.listens == 1
    adapter.step()
    assert (capture.now.step, capture.now.has_begun, capture.now.mode_steps()) == (0, True, {"TRAIN": 0})
    capture.set_mode("EVAL")
    assert capture.now.position() == ("EVAL", 0)
    capture.close()
    capture.close()
    assert (adapter.listens, capture.is_over, capture.adapter) == (0, True, None)
    capture.begin()
    assert capture.adapter is None


@pytest.mark.parametrize(
    ("value", "is_saved"),
    [
        pytest.param(3, True, id="number"),
        pytest.param(np.float32(2), True, id="NumPy's"),
        pytest.param([1, 2], False, id="several"),
        pytest.param(None, False, id="none"),
        pytest.param("text", False, id="text"),
    ],
)
def test_a_scalar_is_one_number(value: Any, is_saved: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    capture = script(tmp_path / "run")
    capture.begin()
    capture.save_scalar("x", value)
    assert ("scalar/x" in capture.now.open_tensors()) == is_saved
    assert ("cannot be saved" in caplog.text) != is_saved
    capture.close()


def test_values_wait_for_the_beginning(tmp_path: Path) -> None:
    capture = script(tmp_path / "run")
    capture.save_tensor("x", np.ones(2), collections=["own"])
    capture.begin()
    assert capture.now.open_tensors()["x"].tolist() == [1, 1]
    capture.close()


def test_the_machine_is_sampled_if_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(beside))
    request = CaptureRequest((), machine_interval_ms=100)
    run = str(tmp_path / "run")
    adapter = Counting(CaptureEnvironment(run_uri=run, capture_request=request.to_json(), rank=0, world_size=1))
    adapter.install()
    adapter.step()
    until = time.monotonic() + HANGS_SECONDS
    while not any(beside.rglob("*.open")) and time.monotonic() < until:
        time.sleep(0.05)
    adapter.uninstall()
    assert any((tmp_path / "run" / "profiler-output" / "system").rglob("*.json"))
