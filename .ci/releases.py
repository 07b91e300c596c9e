"""Run the tests of each framework with the newest or the oldest releases of it, in an environment of their own.

.ci/releases.py newest|oldest

`newest` takes what the index serves today; `oldest` what the README and the extras promise. It needs an index of
packages, some 6 GB and half an hour, so that it stands outside CI. It prints a table; exit 1 if any test failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Release(NamedTuple):
    """The packages beside the tests' own, and the Python that they are for."""

    python: str
    packages: tuple[str, ...]


RELEASES = {
    "newest": Release("python3.11", ("torch", "numpy", "pandas", "scikit-learn", "xgboost-cpu", "lightgbm", "keras")),
    "oldest": Release(
        "python3.10",
        ("torch==2.1.0", "numpy==1.26.4", "pandas==2.0.0", "scikit-learn==1.5.0", "xgboost==2.0.0", "lightgbm==4.0.0"),
    ),
}
TESTS = "tests/training_lib"
PARTS = {  # package: folders of tests
    "torch": (f"{TESTS}/frameworks", f"{TESTS}/speed", f"{TESTS}/rehearsal", f"{TESTS}/rescue"),
    "keras": (f"{TESTS}/adapters/keras",),
    "xgboost": (f"{TESTS}/adapters/xgboost",),
    "lightgbm": (f"{TESTS}/adapters/lightgbm",),
    "scikit-learn": (f"{TESTS}/adapters/sklearn",),
    "numpy": (f"{TESTS}/records", f"{TESTS}/trial", f"{TESTS}/rules", f"{TESTS}/capture"),
    "pandas": (f"{TESTS}/exchange", f"{TESTS}/imported"),
}
NAMES = {"xgboost-cpu": "xgboost"}  # the same module


def main() -> int:
    """Build the environment, run the parts, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=RELEASES)
    options = parser.parse_args()
    python = environment(options.which)
    versions = versions_in(python)
    rows = [row(python, part, folders, versions) for part, folders in PARTS.items() if part in versions]
    table = "\n".join(
        [
            f"{time.strftime('%d %B %Y')}, Python {versions['python']}:",
            "",
            "| package | version | passed | failed | skipped |",
            "|---|---|---|---|---|",
            *(f"| {' | '.join(map(str, cells))} |" for cells in rows),
        ]
    )
    sys.stdout.write(f"{table}\n")
    return int(any(cells[3] for cells in rows))


def environment(which: str) -> Path:
    """Return the Python of an environment with those releases, which is built once."""
    release, place = RELEASES[which], ROOT / ".venv" / which
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        subprocess.run([release.python, "-m", "venv", "--clear", str(place)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "pip>=25.1"], check=True)
        subprocess.run([*install, *release.packages], check=True)
        own = ["-e", ".[cli,aws]", "-e", "training_lib/compat", "-e", "training_lib/localaccount"]
        # In one request, so that none of the tests' packages takes another release of what is tested.
        subprocess.run([*install, "--group", "tests", *own, *release.packages], cwd=ROOT, check=True)
        (place / "ready").touch()
    return python


def versions_in(python: Path) -> dict[str, str]:
    """Return the version of each installed package, and of Python."""
    listing = (
        "import importlib.metadata as m, platform as p; print('python', p.python_version())\n"
        "for d in m.distributions(): print(d.metadata['Name'].lower(), d.version)"
    )
    printed = subprocess.run([python, "-c", listing], check=True, stdout=subprocess.PIPE, text=True).stdout
    pairs = [line.split(" ", 1) for line in printed.splitlines()]
    return {NAMES.get(name, name): version for name, version in pairs}


def row(python: Path, part: str, folders: tuple[str, ...], versions: dict[str, str]) -> tuple[str, str, int, int, int]:
    """Run a part's tests. Return its name, its version, and how many passed, failed and were skipped."""
    found = python.parent.parent / f"{part}.xml"
    found.unlink(missing_ok=True)
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
    ]
    subprocess.run([*command, "--part", "usual", "--junitxml", str(found), *folders], cwd=ROOT, check=False)
    if not found.exists():
        return part, versions[part], 0, 1, 0  # pytest itself ended
    suite = next(ET.parse(found).getroot().iter("testsuite")).attrib  # noqa: S314 - written by pytest, here
    failed = int(suite["failures"]) + int(suite["errors"])
    skipped = int(suite["skipped"])
    return part, versions[part], int(suite["tests"]) - failed - skipped, failed, skipped


if __name__ == "__main__":
    raise SystemExit(main())
