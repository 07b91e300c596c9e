"""The packages of the functions: AWS Powertools and the X-Ray SDK, fetched by pip for Lambda's platform; no Docker.

`.venv/bin/python -m stacks.lambda_packages` fetches them once into .venv/lambda-packages/<key>; synth then needs no
network. All of it runs as pure Python, so the same folder serves the local account on any processor.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from stacks.paths import LAMBDA_PACKAGES

PYTHON_VERSION = "3.12"
PLATFORM = "manylinux2014_aarch64"
PACKAGES = ("aws-lambda-powertools==3.37.0", "jmespath==1.1.0", "typing_extensions==4.16.0", "wrapt==2.5.2")
# The X-Ray SDK asks for botocore (31 MB), which Lambda's runtime brings along; Tracer fails at import without the SDK.
PACKAGES_WITHOUT_DEPENDENCIES = ("aws-xray-sdk==2.15.0",)


class PackagesMissingError(FileNotFoundError):
    """The packages were not fetched yet."""


def packages_folder() -> Path:
    """Return the folder of the packages of these versions, fetched or not."""
    words = ("without scripts", PYTHON_VERSION, PLATFORM, *PACKAGES, *PACKAGES_WITHOUT_DEPENDENCIES)
    return LAMBDA_PACKAGES / hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def fetched_packages() -> Path:
    """Return the folder of the packages. Errors: `PackagesMissingError`, with the command that fetches them."""
    folder = packages_folder()
    if not folder.is_dir():
        raise PackagesMissingError(
            f"No packages of the functions at {folder}. Fetch them with: {sys.executable} -m stacks.lambda_packages"
        )
    return folder


def fetch_packages() -> Path:
    """Fetch the packages from the package index, unless they are in their folder. Return the folder."""
    folder = packages_folder()
    if folder.is_dir():
        return folder
    LAMBDA_PACKAGES.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=LAMBDA_PACKAGES))
    try:
        # The tracer extra would bring botocore along, so its two packages are named one by one.
        _install(partial, PACKAGES)
        _install(partial, PACKAGES_WITHOUT_DEPENDENCIES, "--no-deps")
        _remove_scripts(partial)
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _remove_scripts(folder: Path) -> None:
    """Delete the scripts of packages, and their lines in the lists of files, which hold a hash of this clone's path."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for record in folder.glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("../../bin/")]
        record.write_text("".join(kept), encoding="utf-8", newline="\n")


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
    fetch_packages()
