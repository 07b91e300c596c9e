"""Builds the pinned environments of the corpus, one a family.

    python -m benchmarks.wild.environments build                # all that are missing or out of date
    python -m benchmarks.wild.environments build vision graphs
    python -m benchmarks.wild.environments lock vision          # choose versions again, by today's index

They lie in build/wild/environments. Files are linked from one cache, so that PyTorch takes its space once. Packages
come from the places that pip is set up with on this machine; torch is the CPU build if one is found.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine.options import parser
from benchmarks.wild.program import Family, all_families
from trackside.environment import inherited

ROOT = Path("build/wild")
ENVIRONMENTS = ROOT / "environments"
REPOSITORY = Path(__file__).resolve().parent.parent.parent
EVERYWHERE = ("numpy", "google-crc32c")  # the needs of Trackside itself
FRAMEWORKS = {
    "torch": ("torch==2.13.0",),
    "keras": ("keras==3.15.1", "tensorflow==2.21.0"),
    "xgboost": ("xgboost==3.2.0",),
}
UV = "uv==0.13.9"
_STAMP = "wild-environment.txt"  # in a finished environment: the digest of its lock file


def python_of(family: Family) -> Path:
    """Return the interpreter of a family's environment, as an absolute path."""
    return (ENVIRONMENTS / family.name / "bin" / "python").absolute()


def is_built(family: Family) -> bool:
    """Return True if the environment is whole and has the versions of the lock file."""
    stamp = ENVIRONMENTS / family.name / _STAMP
    return family.lock.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == _digest(family)


def build(family: Family) -> None:
    """Make a family's environment from its lock file, with Trackside installed as a user would from a clone.

    Raises:
        CalledProcessError: If a package cannot be installed.
    """
    folder = ENVIRONMENTS / family.name
    shutil.rmtree(folder, ignore_errors=True)
    uv = _uv()
    base = Path(sys.base_prefix) / "bin" / "python3"
    _call([uv, "venv", "--quiet", "--python", str(base), str(folder)])
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--python", str(python_of(family)), *_sources()]
    _call([*install, "--requirement", str(family.lock)])
    _call([*install, "--editable", str(REPOSITORY)])
    (folder / _STAMP).write_text(_digest(family), encoding="utf-8")


def lock(family: Family) -> None:
    """Choose a version for each package that the family needs, and write them into its lock file."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "requirements.in"
        asked.write_text(
            "\n".join([*FRAMEWORKS[family.framework], *EVERYWHERE, *family.requirements]) + "\n", encoding="utf-8"
        )
        command = [_uv(), "pip", "compile", "--quiet", "--no-header", "--no-annotate", *_sources(), str(asked)]
        found = _call([*command, "--no-emit-package", "nvidia-nccl-cu12"])  # XGBoost's, for several GPUs
    # A CPU build has a local version, which the index of another machine may not know.
    lines = [line.partition("+")[0] for line in found.splitlines() if line.strip() and not line.startswith("#")]
    family.lock.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _uv() -> str:
    """Return the path of the installer, which is installed on first use."""
    folder = ROOT / "uv"
    if not (folder / "bin" / "uv").exists():
        _call([sys.executable, "-m", "venv", str(folder)])
        _call([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", UV])
    return str(folder / "bin" / "uv")


def _sources() -> list[str]:
    """Return the arguments by which uv looks for packages where pip does."""
    settings = dict(line.split("=", 1) for line in _call([sys.executable, "-m", "pip", "config", "list"]).splitlines())
    words = {
        name.rpartition(".")[2]: str(ast.literal_eval(value)).split()
        for name, value in settings.items()
        if name.rpartition(".")[2] in {"index-url", "extra-index-url", "find-links"}
    }
    return [
        *["--index-strategy", "unsafe-best-match"],
        *[word for name, places in words.items() for place in places for word in (f"--{name}", place)],
    ]


def _call(command: Sequence[str]) -> str:
    # uv knows no setting of pip's but this one: the file of certificates.
    certificates = {"SSL_CERT_FILE": inherited().get("PIP_CERT", "")}
    environment = {**inherited(), **{name: value for name, value in certificates.items() if value}}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def _digest(family: Family) -> str:
    return hashlib.sha256(family.lock.read_bytes()).hexdigest()


def main(words: Sequence[str] | None = None) -> int:
    """Build or lock the chosen families; 1 if one cannot be."""
    options = parser(__doc__)
    options.add_argument("act", choices=["build", "lock"])
    options.add_argument("families", nargs="*", help="all by default")
    options.add_argument("--fresh", action="store_true", help="build again what is there")
    arguments = options.parse_args(words)
    families = all_families()
    failed = []
    for name in arguments.families or families:
        family = families[name]
        if arguments.act == "build" and is_built(family) and not arguments.fresh:
            continue
        try:
            (build if arguments.act == "build" else lock)(family)
            print(f"{name}: {'built' if arguments.act == 'build' else 'locked'}", flush=True)
        except subprocess.CalledProcessError as error:
            failed.append(name)
            print(f"{name}: failed with code {error.returncode}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
