"""The debugger's module of the real SDK, versions 2 and 3, in an environment that is built once, in 15 s and 60 MB."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

ROOT = Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".venv" / "sagemaker-peer"
V2 = ("sagemaker==2.257.7", "smdebug_rulesconfig==1.0.1", "attrs")
V3 = ("sagemaker-core==2.27.0",)  # has its home in a folder of its own: both call themselves `sagemaker`


@pytest.fixture(scope="session")
def sdk_python() -> Path:
    """The peer's interpreter. Fails, never skips, where the peer cannot be built."""
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    ready = ENVIRONMENT / "ready"
    recipe = f"{sys.version_info[:2]} {V2} {V3}"
    with ENVIRONMENT.with_suffix(".lock").open("w") as lock:  # several test processes want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != recipe:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            # The pip of this environment spares one there; what is used is compiled as it is imported.
            pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", ENVIRONMENT / "bin" / "python", "install"]
            pip += ["--no-compile", "--quiet", "--disable-pip-version-check"]
            run_or_fail([sys.executable, "-m", "venv", "--without-pip", ENVIRONMENT])
            run_or_fail([*pip, "--no-deps", *V2])
            run_or_fail([*pip, "--no-deps", "--target", ENVIRONMENT / "v3", *V3])
            ready.write_text(recipe)
    return ENVIRONMENT / "bin" / "python"


@pytest.fixture(scope="session", params=["v2", "v3"])
def real(request: pytest.FixtureRequest, sdk_python: Path) -> dict[str, Any]:
    """What `sdk_peer.py` tells under that version of the SDK."""
    script = Path(__file__).with_name("sdk_peer.py")
    command = [sdk_python, "-W", "ignore", script, request.param, ENVIRONMENT / "v3", ROOT / "training_lib" / "src"]
    return dict(json.loads(run_or_fail(command, timeout=HANGS_SECONDS)))


def run_or_fail(command: list[str | Path], *, timeout: float = 300) -> str:
    environment = {name: value for name, value in inherited().items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        pytest.fail(f"No answer within {timeout:.0f} s: {' '.join(map(str, command))}", pytrace=False)
    if done.returncode:
        pytest.fail(
            "The proof needs the real SDK from the package index (network or a mirror), in "
            f"{ENVIRONMENT}.\nThis failed: {' '.join(map(str, command))}\n{done.stderr[-2000:]}",
            pytrace=False,
        )
    return done.stdout
