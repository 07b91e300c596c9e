"""The real TensorBoard, in an environment of its own that is built once and kept in `.venv/tensorboard-peer`."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.patience import HANGS_SECONDS

ENVIRONMENT = Path(__file__).parents[3] / ".venv" / "tensorboard-peer"
SCRIPT = Path(__file__).with_name("tensorboard_reader.py")
PACKAGES = ("tensorboard==2.21.0", "setuptools<81")  # the latter has pkg_resources, which it imports

Read = Callable[[Path], dict[str, Any]]


@pytest.fixture(scope="session")
def tensorboard_python() -> Path:
    """The interpreter that has TensorBoard. Fails, never skips, where it cannot be built."""
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    ready = ENVIRONMENT / "ready"
    recipe = f"{sys.version_info[:2]} {PACKAGES}"
    with ENVIRONMENT.with_suffix(".lock").open("w") as lock:  # several test processes want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != recipe:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            python = ENVIRONMENT / "bin" / "python"
            run_or_fail([sys.executable, "-m", "venv", "--without-pip", ENVIRONMENT], timeout=HANGS_SECONDS)
            # The pip of this environment spares one there; what is used is compiled as it is imported.
            pip: list[str | Path] = [sys.executable, "-I", "-m", "pip", "--python", python, "install", "--no-compile"]
            run_or_fail([*pip, "--quiet", "--disable-pip-version-check", *PACKAGES], timeout=HANGS_SECONDS)
            ready.write_text(recipe)
    return ENVIRONMENT / "bin" / "python"


@pytest.fixture(scope="session")
def read_with_tensorboard(tensorboard_python: Path) -> Read:
    """A function folder -> what TensorBoard finds in it, by its name of the run: see `tensorboard_reader.py`."""

    def read(folder: Path) -> dict[str, Any]:
        text = run_or_fail([tensorboard_python, "-I", "-W", "ignore", SCRIPT, folder], timeout=HANGS_SECONDS)
        return dict(json.loads(text.splitlines()[-1]))

    return read


def run_or_fail(command: list[str | Path], *, timeout: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        pytest.fail(f"No answer within {timeout:.0f} s: {' '.join(map(str, command))}", pytrace=False)
    if done.returncode:
        pytest.fail(
            "The proof needs the real TensorBoard from the package index (network or a mirror), in "
            f"{ENVIRONMENT}.\nThis failed: {' '.join(map(str, command))}\n{done.stderr[-3000:]}",
            pytrace=False,
        )
    return done.stdout
