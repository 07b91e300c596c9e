"""The synthesized deployment (a cloud assembly), made again only when one of its inputs has changed.

For tests, the demo and the drill: a synthesis takes six seconds and more, and several of them may request it at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from stacks.lambda_packages import packages_folder
from stacks.paths import BUILD, LAMBDAS, LIBRARY, ROOT

CDK = ROOT / ".ci" / "cdk"
PRINTED = "printed.txt"  # output of the synthesis


class SynthesisError(RuntimeError):
    """`cdk synth` failed; the message is its output."""


def assembly(context: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the assembly for cdk.json's settings, with `context` laid over them, as `-c` would.

    Errors: `SynthesisError`.
    """
    options = [word for key, value in sorted((context or {}).items()) for word in ("-c", f"{key}={value}")]
    BUILD.mkdir(exist_ok=True)
    folder = BUILD / f"assembly-{_fingerprint(options)}"
    with (BUILD / "assembly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process finds the folder ready
        if not (folder / "manifest.json").is_file():
            _synthesize(folder, options)
    return folder


def _synthesize(folder: Path, options: list[str]) -> None:
    partial = folder.with_name(f".partial-{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    command = [str(CDK), "synth", "--quiet", "--output", str(partial), *options]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        raise SynthesisError(f"{' '.join(command)} failed:\n{outcome.stdout}{outcome.stderr}")
    (partial / PRINTED).write_text(outcome.stdout + outcome.stderr, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _fingerprint(options: list[str]) -> str:
    contracts = LIBRARY / "contracts"
    sources = [
        ROOT / "app.py",
        ROOT / "cdk.json",
        LIBRARY / "__init__.py",
        *(path for folder in (ROOT / "stacks", LAMBDAS) for path in folder.rglob("*.py")),
        *(path for path in contracts.rglob("*") if path.suffix in (".py", ".json")),
    ]
    digest = hashlib.sha256("\0".join([*options, packages_folder().name]).encode())
    for source in sorted(sources):
        digest.update(f"\0{source.relative_to(ROOT)}\0".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":  # python -m stacks.assembly [trackside:name=value ...]: prints where it lies
    sys.stdout.write(f"{assembly(dict(entry.split('=', 1) for entry in sys.argv[1:]))}\n")
