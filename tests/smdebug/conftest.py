"""The real smdebug 1.0.34, in an environment of its own that is built once and kept in `.venv/smdebug-peer`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import HANGS_SECONDS
from tests.smdebug.peer_process import PeerError, PeerProcess
from trackside.environment import inherited

os.environ.setdefault("KERAS_BACKEND", "torch")  # noqa: TID251 - Keras has no other way in

ENVIRONMENT = Path(__file__).parents[2] / ".venv" / "smdebug-peer"

# smdebug alone without its dependencies: it pins a pyinstrument that no longer builds, and serves only its profiler.
ALONE = ("smdebug==1.0.34",)
# requests and six are imported but not declared by it; setuptools gives distutils back to Python 3.12.
BESIDE = ("protobuf==3.20.3", "numpy<2.3", "packaging", "boto3", "requests", "six", "setuptools<81")

Peer = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="session")
def smdebug_python() -> Path:
    """The peer's interpreter. Fails, never skips, where the peer cannot be built."""
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    ready = ENVIRONMENT / "ready"
    recipe = f"{sys.version_info[:2]} {ALONE} {BESIDE}"
    with ENVIRONMENT.with_suffix(".lock").open("w") as lock:  # several test processes want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != recipe:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            # The pip of this environment spares one there; what is used is compiled as it is imported.
            pip: list[str | Path] = [
                sys.executable,
                "-m",
                "pip",
                "--python",
                ENVIRONMENT / "bin" / "python",
                "install",
                "--no-compile",
            ]
            pip += ["--quiet", "--disable-pip-version-check"]
            run_or_fail([sys.executable, "-m", "venv", "--without-pip", ENVIRONMENT])
            run_or_fail([*pip, "--no-deps", *ALONE])
            run_or_fail([*pip, *BESIDE])
            ready.write_text(recipe)
    return ENVIRONMENT / "bin" / "python"


@pytest.fixture(scope="session")
def peer(smdebug_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A function (command, order) -> answer, carried out by `peer.py` under the real smdebug."""

    def environment() -> dict[str, str]:
        return {**_without_our_paths(), "SMDEBUG_TRAINING_END_DELAY_REFRESH": "0", "SMDEBUG_LOG_LEVEL": "error"}

    process = PeerProcess(smdebug_python, environment())

    def ask(command: str, order: dict[str, Any]) -> dict[str, Any]:
        try:
            return dict(process.ask(command, order, tmp_path_factory.mktemp("answer"), environment()))
        except PeerError as error:
            pytest.fail(f"The real smdebug 1.0.34, in {ENVIRONMENT}: {error}", pytrace=False)

    yield ask
    process.close()


def _without_our_paths() -> dict[str, str]:
    """With ours on its path the peer would be our own `smdebug`, and every answer the same."""
    return {name: value for name, value in inherited().items() if name != "PYTHONPATH"}


def run_or_fail(
    command: list[str | Path], *, stdin: str = "", env: dict[str, str] | None = None, timeout: float = HANGS_SECONDS
) -> None:
    try:
        done = subprocess.run(
            command, input=stdin, env=env, capture_output=True, text=True, check=False, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"No answer within {timeout:.0f} s: {' '.join(map(str, command))}", pytrace=False)
    if done.returncode:
        pytest.fail(
            "The interop proof needs the real smdebug 1.0.34 from the package index (network or a mirror), in "
            f"{ENVIRONMENT}.\nThis failed: {' '.join(map(str, command))}\n{done.stderr[-3000:]}",
            pytrace=False,
        )


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of checkpoints, as a job on spot capacity names it. It is looked at between any two steps."""
    from smdebug.core.checkpoint_watch import CheckpointWatch

    folder = tmp_path / "checkpoints"
    folder.mkdir()
    configuration = tmp_path / "checkpointconfig.json"
    configuration.write_text(json.dumps({"LocalPath": str(folder)}), "utf-8")
    monkeypatch.setenv("CHECKPOINT_CONFIG_FILE_PATH", str(configuration))
    monkeypatch.setattr(CheckpointWatch, "step_ends", CheckpointWatch.look)
    return folder


@pytest.fixture
def states(checkpoints: Path) -> Callable[[], list[dict[str, Any]]]:
    """Return the states that were left beside the checkpoints."""

    def read() -> list[dict[str, Any]]:
        path = checkpoints / "metadata.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else []

    return read
