from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trackside.contracts.run_layout import index_key
from trackside.environment import inherited
from trackside.extras import install_elsewhere
from trackside.local.capture_check import rule_progress, saved_steps, why_nothing_was_captured
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


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(["bash", "train.sh"], "bash may start no Python", id="a-shell"),
        pytest.param(["torchrun", "train.py"], "torchrun may start no Python", id="a-launcher"),
        pytest.param([sys.executable, "train.py"], "took no optimizer step", id="a-python-that-has-trackside"),
        pytest.param(["/nowhere/python", "train.py"], "took no optimizer step", id="a-python-that-is-gone"),
    ],
)
def test_the_likeliest_reason_is_told(command: list[str], said: str) -> None:
    assert said in why_nothing_was_captured(command, environment=inherited())


def test_a_python_without_trackside_is_named_with_the_way_to_mend_it(tmp_path: Path) -> None:
    """Isolated mode and no site-packages: what a Python looks like in which Trackside was never installed."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o700)
    said = why_nothing_was_captured([str(bare), "train.py"], environment=inherited())
    assert said == f"{bare} has no Trackside. Install it there: {install_elsewhere(str(bare))}"
