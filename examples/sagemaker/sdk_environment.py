"""The real SageMaker Python SDK, in an environment of its own below `.venv`, built once: it is 300 MB, and pins what
Trackside does not."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from trackside.environment import inherited

HOME = Path(__file__).resolve().parents[2] / ".venv"
V2 = ("sagemaker==2.257.7", "google-crc32c>=1.5")  # and what Trackside itself needs
V3 = ("sagemaker-train==1.27.0", "google-crc32c>=1.5")


class CannotBuild(RuntimeError):
    """The environment cannot be made; the message says what pip said."""


def sdk_python(name: str = "sagemaker-sdk", wanted: tuple[str, ...] = V2) -> Path:
    """The interpreter of the environment of that name, which is made first if need be. Errors: `CannotBuild`."""
    folder = HOME / name
    python = folder / "bin" / "python"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:  # several processes want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_built(name, wanted):
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", folder])
            pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "--no-compile", *wanted])  # what is used is compiled as it is imported: 9 s less
            (folder / "ready").write_text(_recipe(wanted))
    return python


def is_built(name: str, wanted: tuple[str, ...]) -> bool:
    """True if the environment of that name is there, and of these packages."""
    ready = HOME / name / "ready"
    return ready.is_file() and ready.read_text() == _recipe(wanted)


def _recipe(wanted: tuple[str, ...]) -> str:
    return f"{sys.version_info[:2]} {wanted}"


def _run(command: list[str | Path]) -> None:
    environment = {name: value for name, value in inherited().items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        words = " ".join(map(str, command))
        raise CannotBuild(f"{words} failed. It needs the package index (network or a mirror).\n{done.stderr[-2000:]}")
