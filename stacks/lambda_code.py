"""The code of all reactions: lambdas/, trackside/contracts/ and the packages that they import, and nothing else."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from stacks.lambda_packages import fetched_packages
from stacks.paths import BUILD, LAMBDAS, LIBRARY, READY_CODE, ROOT


def prepare_lambda_code() -> Path:
    """Return a folder with just these files, named by their content: the same sources are never copied twice.

    The wheel `trackside-cdk` brings it along.
    """
    if READY_CODE.is_dir():
        return READY_CODE
    files = {target: source.read_bytes() for target, source in sorted(_sources().items())}
    packages = fetched_packages()
    digest = hashlib.sha256(packages.name.encode())
    for target, content in files.items():
        digest.update(f"{target}\0{len(content)}\0".encode())
        digest.update(content)
    folder = BUILD / f"lambda-code-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        _write_whole(folder, files, packages)
    return folder


def _sources() -> dict[str, Path]:
    contracts = LIBRARY / "contracts"
    library = [LIBRARY / "__init__.py", *contracts.rglob("*.py"), *contracts.rglob("*.json")]
    return {
        **{str(path.relative_to(ROOT)): path for path in LAMBDAS.rglob("*.py")},
        **{str(path.relative_to(LIBRARY.parent)): path for path in library},
    }


def _write_whole(folder: Path, files: dict[str, bytes], packages: Path) -> None:
    BUILD.mkdir(exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=BUILD))
    try:
        shutil.copytree(packages, partial, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        for target, content in files.items():
            path = partial / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        partial.chmod(0o755)
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another synth was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
