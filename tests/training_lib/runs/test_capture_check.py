from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.contracts.run_layout import index_key, uncaptured_key
from trackside.environment import inherited
from trackside.runs.capture_check import (
    lacks_trackside,
    nothing_captured_yet,
    rule_progress,
    saved_steps,
    uncaptured_processes,
    why_nothing_was_captured,
)
from trackside.storage.memory import MemoryStore


def test_steps_are_counted_once_for_all_workers() -> None:
    store = MemoryStore()
    for step, worker in [(0, "worker_0"), (0, "worker_1"), (1000, "worker_0"), (20, "worker_0")]:
        store.put(index_key(step, worker), b"{}")
    store.put("index/000000000/notes.txt", b"")
    assert saved_steps(store) == (0, 20, 1000)


def test_nothing_saved_is_no_step() -> None:
    assert saved_steps(MemoryStore()) == ()
    assert rule_progress(MemoryStore()) == {}


def a_python_with(folder: Path, *modules: str) -> str:
    """Return a command that finds these modules alone, as an environment with no other framework."""
    for name in modules:
        (folder / f"{name}.py").touch()
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.base_prefix}/bin/python3 -S "$@"\n', "utf-8")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        pytest.param(("torch",), "no training step of torch has ended", id="torch"),
        pytest.param(("keras", "tensorflow"), "no training step of keras has ended", id="keras on tensorflow"),
        pytest.param(("xgboost", "sklearn"), "no training step of xgboost or sklearn has ended", id="two"),
        pytest.param(("torch", "keras", "mxnet"), "step of torch, keras or mxnet has ended", id="three"),
        pytest.param(("jax",), "jax is captured by a call, trackside.JaxRun", id="jax alone"),
        pytest.param((), "a program without a framework calls trackside.Run", id="none"),
    ],
)
def test_a_run_without_a_step_yet_names_the_frameworks_that_are_there(
    modules: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    command = [a_python_with(tmp_path, *modules), "train.py"]
    found = nothing_captured_yet(command, environment=inherited())
    assert said in found
    assert ("torch" in found) is ("torch" in modules)


@pytest.mark.parametrize("command", [["no-such-program"], ["true"]], ids=["no program", "no Python"])
def test_without_a_python_it_names_none(command: list[str]) -> None:
    assert "trackside.Run" in nothing_captured_yet(command, environment=inherited())


def process(**signs: Any) -> UncapturedProcess:
    return UncapturedProcess(**{"program": "train.py", "frameworks": ("torch",), **signs})


@pytest.mark.parametrize(
    ("command", "status", "processes", "said"),
    [
        pytest.param(["bash", "t.sh"], 0, (), "bash started no Python that has Trackside", id="a-shell"),
        pytest.param(["python", "t.py"], 0, (), "the script never imported a framework", id="no-torch"),
        pytest.param(["python", "t.py"], 2, (), "code 2 before it imported a framework; its own", id="misspelt"),
        pytest.param(
            ["python", "t.py"], -9, (),
            "SIGKILL ended the command (exit code 137) before a training step was recorded", id="killed",
        ),
        pytest.param(
            ["python", "t.py"], 1, (process(error="ImportError"),),
            "ImportError ended it before the first optimizer step; the traceback is above", id="an-early-crash",
        ),
        pytest.param(
            ["python", "t.py"], 0, (process(backward_passes=9, manual_update="main.py:181"),),
            "weights change by hand, without a torch.optim optimizer (main.py:181); put `hook = trackside.Hook()`",
            id="an-update-by-hand",
        ),
        pytest.param(
            ["python", "t.py"], 0, (process(backward_passes=1, optimizers=("Adam", "Adam")),),
            "Adam was made and 1 backward pass ran, but `optimizer.step()` was never called", id="no-step",
        ),
        pytest.param(
            ["python", "t.py"], 0, (process(backward_passes=3),),
            "backward ran, but no torch.optim optimizer was made", id="no-optimizer",
        ),
        pytest.param(
            ["python", "t.py"], 0, (process(),), "torch was imported, but `backward` was never called", id="inference",
        ),
        pytest.param(
            ["python", "t.py"], 0, (process(frameworks=("sklearn",)),),
            "captures; fits in worker processes (n_jobs) are captured only where the estimator keeps losses",
            id="sklearn",
        ),
        pytest.param(
            ["python", "t.py"], 0, (process(frameworks=("mxnet",)),),
            "the script uses mxnet, and no training was seen that `trackside run` captures", id="another-framework",
        ),
        pytest.param(
            ["python", "t.py"], 3, (process(error="SystemExit"),),
            "torch was imported, but `backward` was never called", id="an-exit-is-no-crash",
        ),
    ],
)  # fmt: skip
def test_the_likeliest_reason(
    command: list[str], status: int, processes: tuple[UncapturedProcess, ...], said: str
) -> None:
    assert said in why_nothing_was_captured(command, status=status, has_begun=False, processes=processes)


def test_steps_that_were_not_due_are_no_missing_training() -> None:
    said = why_nothing_was_captured(["python", "t.py"], status=0, has_begun=True, processes=())
    assert "none was due (a short run may need --save-interval 1)" in said


def test_the_likeliest_training_stands_first_and_damage_is_left_out() -> None:
    store = MemoryStore()
    helper, trainer = process(frameworks=("sklearn",)), process(backward_passes=2)
    store.put(uncaptured_key(1), helper.to_json().encode())
    store.put(uncaptured_key(2), trainer.to_json().encode())
    store.put(uncaptured_key(3), b"{")
    assert uncaptured_processes(store) == (trainer, helper)


@pytest.mark.parametrize("form", ["python", "script", "script-by-env"])
def test_a_python_without_trackside_is_named_before_the_training(tmp_path: Path, form: str) -> None:
    """Isolated mode and no site-packages: what a Python looks like in which Trackside was never installed."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    script = tmp_path / "torchrun"
    script.write_text("#!/usr/bin/env python\n" if form == "script-by-env" else f"#!{bare}\n")
    for file in (bare, script):
        file.chmod(0o700)
    command = str(bare if form == "python" else script)
    environment = {**inherited(), "PATH": f"{tmp_path}:{inherited().get('PATH', '')}"}
    assert lacks_trackside([command, "train.py"], environment=environment) == str(bare)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(sys.executable, id="this-python"),
        pytest.param("/nowhere/python", id="gone"),
        pytest.param("sh", id="a-program"),
    ],
)
def test_others_are_not_warned_of(program: str) -> None:
    assert lacks_trackside([program, "train.py"], environment=inherited()) == ""
