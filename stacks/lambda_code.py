"""The code of all reactions: lambdas/ and trackside/contracts/, laid out as in the repository, and nothing else."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from stacks.paths import BUILD, LAMBDAS, LIBRARY, ROOT


def prepare_lambda_code() -> Path:
    """Return a folder with just these files, named by their content: the same sources are never copied twice."""
    files = {target: source.read_bytes() for target, source in sorted(_sources().items())}
    digest = hashlib.sha256()
    for target, content in files.items():
        digest.update(f"{target}\0{len(content)}\0".encode())
        digest.update(content)
    folder = BUILD / f"lambda-code-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        _write_whole(folder, files)
    return folder


def _sources() -> dict[str, Path]:
    contracts = LIBRARY / "contracts"
    library = [LIBRARY / "__init__.py", *contracts.rglob("*.py"), *contracts.rglob("*.json")]
    return {
        **{str(path.relative_to(ROOT)): path for path in LAMBDAS.rglob("*.py")},
        **{str(path.relative_to(LIBRARY.parent)): path for path in library},
    }


def _write_whole(folder: Path, files: dict[str, bytes]) -> None:
    BUILD.mkdir(exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=BUILD))
    try:
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
