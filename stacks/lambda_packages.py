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
from collections.abc import Mapping
from pathlib import Path

from stacks.paths import LAMBDA_PACKAGES

PYTHON_VERSION = "3.12"
PLATFORM = "manylinux2014_aarch64"
# The file of each, by its hash: pip takes no other. Powertools' extra for tracing, and the X-Ray SDK, ask for botocore
# (31 MB), which Lambda's runtime brings along: what they need besides stands here, and dependencies are not looked up.
PACKAGES: Mapping[str, str] = {
    "aws-lambda-powertools==3.37.0": "92df3f790851a30cfb5ed45ff8e11f2de9b74e60aed0169d2a6b6da2362b45fb",
    "aws-xray-sdk==2.15.0": "422d62ad7d52e373eebb90b642eb1bb24657afe03b22a8df4a8b2e5108e278a3",
    "jmespath==1.1.0": "a5663118de4908c91729bea0acadca56526eb2698e83de10cd116ae0f4e97c64",
    "typing_extensions==4.16.0": "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8",
    "wrapt==2.5.2": "d108bd98ab2c5ccbf55cf2154e0a73341df930030df2e01ee35d71a44a99d3ad",
}


class PackagesMissingError(FileNotFoundError):
    """The packages were not fetched yet."""


def packages_folder() -> Path:
    """Return the folder of the packages of these versions, fetched or not."""
    words = ("without scripts", PYTHON_VERSION, PLATFORM, *_requirements())
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
        _install(partial)
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


def _requirements() -> list[str]:
    return [f"{package} --hash=sha256:{digest}" for package, digest in PACKAGES.items()]


def _install(target: Path) -> None:
    """https://pip.pypa.io/en/stable/topics/secure-installs/"""
    wanted = target.with_suffix(".txt")
    wanted.write_text("\n".join(_requirements()), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    platform = ["--platform", PLATFORM, "--python-version", PYTHON_VERSION, "--only-binary=:all:"]
    options = ["--no-deps", "--require-hashes", "--upgrade", "--target", str(target), "--requirement", str(wanted)]
    try:
        subprocess.run([*pip, *platform, *options], check=True)
    finally:
        wanted.unlink()


if __name__ == "__main__":
    fetch_packages()
