"""The Lambda layer: AWS Powertools and the X-Ray SDK, as pip fetches them for Lambda's own platform; no Docker.

`.venv/bin/python -m stacks.layer` builds it once into .venv/lambda-layer/<key>; synth then needs no network. All of it
runs as pure Python, so the same folder serves the local account on any processor.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from stacks.paths import LAYERS

PYTHON_VERSION = "3.12"
PLATFORM = "manylinux2014_aarch64"
PACKAGES = ("aws-lambda-powertools==3.37.0", "wrapt==2.5.2")
# The X-Ray SDK asks for botocore (31 MB), which Lambda's runtime brings along; Tracer fails at import without the SDK.
PACKAGES_WITHOUT_DEPENDENCIES = ("aws-xray-sdk==2.15.0",)


class LayerMissingError(FileNotFoundError):
    """The layer was not built yet."""


def layer_folder() -> Path:
    """Return the folder of the layer of these versions, built or not."""
    words = (PYTHON_VERSION, PLATFORM, *PACKAGES, *PACKAGES_WITHOUT_DEPENDENCIES)
    return LAYERS / hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def built_layer() -> Path:
    """Return the layer's folder. Errors: `LayerMissingError`, with the command that builds it."""
    folder = layer_folder()
    if not folder.is_dir():
        raise LayerMissingError(f"No Lambda layer at {folder}. Build it with: {sys.executable} -m stacks.layer")
    return folder


def build_layer() -> Path:
    """Fetch the packages from the package index, unless the layer of these versions exists. Return its folder."""
    folder = layer_folder()
    if folder.is_dir():
        return folder
    LAYERS.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=LAYERS))
    try:
        # The tracer extra would bring botocore along, so its two packages are named one by one.
        _install(partial / "python", PACKAGES)
        _install(partial / "python", PACKAGES_WITHOUT_DEPENDENCIES, "--no-deps")
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _install(target: Path, packages: tuple[str, ...], *options: str) -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        "--upgrade",
    ]
    platform = ["--platform", PLATFORM, "--python-version", PYTHON_VERSION, "--only-binary=:all:"]
    subprocess.run([*pip, *platform, *options, "--target", str(target), *packages], check=True)


if __name__ == "__main__":
    build_layer()
