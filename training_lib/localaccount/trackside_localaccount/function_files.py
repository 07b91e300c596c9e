"""A deployed function's files on disk: its code as /var/task, its layers as /opt, and what AWS's runtime brings along.

The runtime offers awslambdaric and boto3, and nothing else: a dependency that the function's package lacks is missing
here as it would be in Lambda.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.extras import install_command

# What a Python 3.12 Lambda can import without any package of the function's own.
_OFFERED = (
    "awslambdaric",
    "runtime_client",
    "snapshot_restore_py",
    "simplejson",
    "boto3",
    "botocore",
    "s3transfer",
    "jmespath",
    "dateutil",
    "six",
    "urllib3",
)
_OPTIONAL = ("runtime_client", "simplejson")  # compiled parts of awslambdaric; it works without


@dataclass(frozen=True)
class FunctionFiles:
    """Folders of one version of one function."""

    task: Path
    layers: Path

    @property
    def import_path(self) -> tuple[Path, ...]:
        """In Lambda's order, without the runtime's own folder, which comes last."""
        return (self.task, self.layers / "python", *sorted((self.layers / "python" / "lib").glob("*/site-packages")))


def lay_out_runtime(folder: Path) -> Path:
    """Link the packages that the runtime offers into `folder`. Errors: `ConfigurationError` if one is missing."""
    folder.mkdir(parents=True)
    missing = []
    for name in _OFFERED:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            missing.append(name)
            continue
        origin = Path(found.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (folder / source.name).symlink_to(source)
    if lacking := [name for name in missing if name not in _OPTIONAL]:
        fix = install_command("localcloud")
        raise ConfigurationError([Problem(name, "is not installed.", fix) for name in lacking], subject="Lambda here")
    return folder


def unpack(code: bytes, layers: Iterable[bytes], folder: Path) -> FunctionFiles:
    """Unpack the function's zip and its layers' zips, later layers over earlier ones, as Lambda does."""
    files = FunctionFiles(folder / "task", folder / "opt")
    for target, archives in ((files.task, (code,)), (files.layers, tuple(layers))):
        target.mkdir(parents=True)
        for archive in archives:
            with zipfile.ZipFile(io.BytesIO(archive)) as opened:
                opened.extractall(target)  # zipfile drops absolute paths and ".." by itself
    return files
