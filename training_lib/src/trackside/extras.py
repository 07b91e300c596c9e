"""The extras of this installation: the packages that each needs, and the command that installs them here.

Packages of others are named as they are. Our own names belong to nobody on a public index, so that a command of pip
never holds one: it holds the clone, the wheel file or the address from which this installation came.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from trackside.contracts.errors import ConfigurationError, Problem

DISTRIBUTION = "trackside"
ANYWHERE = "in a clone of Trackside's repository"


@dataclass(frozen=True)
class Extra:
    """One extra.

    package   its main package, as users call it
    purpose   the part of Trackside that needs it
    packages  packages of others, as pip takes them
    modules   top-level modules that it brings
    folder    for a package of ours: its folder in a clone; "" otherwise
    """

    package: str
    purpose: str
    packages: tuple[str, ...]
    modules: tuple[str, ...]
    folder: str = ""


_SERVER = ("starlette>=0.40", "uvicorn>=0.30")
_TOML = ("tomli>=2",) if sys.version_info < (3, 11) else ()

EXTRAS: Mapping[str, Extra] = {
    "cli": Extra(
        "click",
        "the trackside command",
        ("click>=8.1", "rich>=13", *_SERVER, *_TOML),
        ("click", "rich", "tomli", "starlette", "uvicorn", "anyio", "h11"),
    ),
    "torch": Extra("torch", "the capture of a PyTorch training", ("torch>=2.1",), ("torch",)),
    "xgboost": Extra("xgboost", "the capture of an XGBoost training", ("xgboost-cpu>=2",), ("xgboost",)),
    "keras": Extra("keras", "the capture of a Keras training", ("keras>=3",), ("keras",)),
    "jax": Extra("jax", "the capture of a JAX training", ("jax>=0.5",), ("jax",)),
    "aws": Extra("boto3", "all work in AWS", ("boto3>=1.34",), ("boto3", "botocore", "s3transfer", "jmespath")),
    "parquet": Extra("pyarrow", "the export to Parquet", ("pyarrow>=14",), ("pyarrow",)),
    "query": Extra(
        "duckdb and pyarrow", "the asking of questions in SQL", ("duckdb>=1.1", "pyarrow>=14"), ("duckdb", "_duckdb")
    ),
    "dashboard": Extra(
        "pyjwt",
        "the dashboard behind a sign-on",
        (*_SERVER, "pyjwt[crypto]>=2.9"),
        ("jwt", "cryptography"),
    ),
    "mcp": Extra(
        "mcp",
        "the server for coding agents",
        ("mcp>=2",),
        ("mcp", "mcp_types", "sse_starlette"),
    ),
    "otel": Extra(
        "opentelemetry-sdk",
        "the sending of metrics to an OpenTelemetry collector",
        ("opentelemetry-sdk>=1.30", "opentelemetry-exporter-otlp-proto-http>=1.30"),
        ("opentelemetry",),
    ),
    "smdebug": Extra(
        "trackside-smdebug",
        "the judging by rules of smdebug",
        (),
        ("smdebug", "sagemaker_debug_hook_config"),
        folder="training_lib/compat",
    ),
    "localcloud": Extra(
        "trackside-localaccount",
        "the local account",
        (),
        ("trackside_localaccount", "moto", "awslambdaric", "flask", "werkzeug"),
        folder="training_lib/localaccount",
    ),
    "native": Extra(
        "trackside-native",
        "the measuring of tensors in one pass, and the cheap storing of small files",
        (),
        ("trackside_native",),
        folder="training_lib/native",
    ),
}


@dataclass(frozen=True)
class Origin:
    """The place from which a distribution was installed, by its `direct_url.json` (PEP 610).

    folder       a clone on this machine; None otherwise
    is_editable  True: the clone itself is imported
    file         a wheel file on this machine; None otherwise
    address      a URL that pip takes; "" otherwise
    """

    folder: Path | None = None
    is_editable: bool = False
    file: Path | None = None
    address: str = ""

    @classmethod
    def read(cls, distribution: str = DISTRIBUTION) -> Origin:
        """Return the origin of an installed distribution; an empty one if it came from an index, or is unknown."""
        from importlib import metadata  # slow to import, and needed for a message only

        try:
            text = metadata.distribution(distribution).read_text("direct_url.json")
            document = json.loads(text) if text else {}
        except (metadata.PackageNotFoundError, ValueError, OSError):
            return cls()
        return cls.of(document) if isinstance(document, dict) else cls()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Origin:
        """Return the origin in the content of a `direct_url.json`."""
        url = str(document.get("url", ""))
        version_control = document.get("vcs_info")
        if isinstance(version_control, Mapping):
            commit = str(version_control.get("commit_id", ""))
            return cls(address=f"{version_control.get('vcs', 'git')}+{url}{f'@{commit}' if commit else ''}")
        if not url.startswith("file:"):
            return cls(address=url)
        path = Path(unquote(urlsplit(url).path))
        if path.is_dir():
            info = document.get("dir_info")
            return cls(folder=path, is_editable=isinstance(info, Mapping) and info.get("editable") is True)
        return cls(file=path) if path.is_file() else cls()

    def arguments(self, distribution: str = DISTRIBUTION, extra: str = "") -> str:
        """Return the arguments of `pip install` for the distribution from here; "" if the origin is unknown."""
        brackets = f"[{extra}]" if extra else ""
        if self.folder is not None:
            return f"{'-e ' if self.is_editable else ''}{_quoted(f'{_shown(self.folder)}{brackets}')}"
        if self.file is not None:
            return _quoted(f"{self.file}{brackets}")
        return _quoted(f"{distribution}{brackets} @ {self.address}") if self.address else ""


def install_command(extra: str, *, origin: Origin | None = None) -> str:
    """Return the command that installs an extra into this environment.

    Args:
        extra: Name of the extra.
        origin: Origin of this installation; None: read it.
    """
    wanted = EXTRAS[extra]
    if wanted.packages:
        return f"{pip_install()} {' '.join(map(_quoted, wanted.packages))}"
    return f"{pip_install()} {_beside(wanted, origin or Origin.read())}"


def reinstall_command(distribution: str = DISTRIBUTION, *, origin: Origin | None = None) -> str:
    """Return the command that installs one of our own distributions here again.

    Args:
        distribution: Its name.
        origin: Its origin; None: read it.
    """
    place = (origin or Origin.read(distribution)).arguments(distribution)
    if not place:
        folder = next((extra.folder for extra in EXTRAS.values() if extra.package == distribution), "")
        place = f"{_quoted(f'./{folder}' if folder else '.')}   # {ANYWHERE}"
    return f"{pip_install()} --force-reinstall --no-deps {place}"


def install_elsewhere(python: str, *, origin: Origin | None = None) -> str:
    """Return the command that installs this Trackside into another Python.

    Args:
        python: The other interpreter.
        origin: Origin of this installation; None: read it.
    """
    place = (origin or Origin.read()).arguments() or f".   # {ANYWHERE}"
    return f"{_quoted(python)} -m pip install {place}"


def missing_extra(extra: str) -> ConfigurationError:
    """Return the error of every command that needs an extra which is not installed.

    Args:
        extra: Name of the extra.
    """
    wanted = EXTRAS[extra]
    verb = "are" if " and " in wanted.package else "is"
    what = f"{wanted.package} {verb} not installed, which {wanted.purpose} needs."
    return ConfigurationError([Problem(f"the extra {extra!r}", what, install_command(extra))], subject="Extras")


def extra_of(module: str | None) -> str:
    """Return the extra that brings a module; "" if none does.

    Args:
        module: Full name of the module.
    """
    top = (module or "").partition(".")[0]
    return next((name for name, extra in EXTRAS.items() if top in extra.modules), "")


def pip_install() -> str:
    """Return the beginning of a command that installs packages into this environment."""
    import shutil  # brings four packers, and this is for a message

    own = Path(sys.executable).parent / "pip"
    found = shutil.which("pip")
    if found is not None and Path(found) == own:
        return "pip install"
    if PathFinder.find_spec("pip") is not None:  # `util.find_spec` makes setuptools warn
        return f"{_quoted(sys.executable)} -m pip install"
    if found is not None and shutil.which("uv") is None:
        return f"pip --python {_quoted(sys.executable)} install"
    return f"uv pip install --python {_quoted(sys.executable)}"  # environments of uv have no pip


def _beside(wanted: Extra, origin: Origin) -> str:
    """Return the argument of pip for a package of ours: it lies in the clone, or beside the wheel."""
    if origin.folder is not None and (origin.folder / wanted.folder).is_dir():
        return f"{'-e ' if origin.is_editable else ''}{_quoted(_shown(origin.folder / wanted.folder, dotted=True))}"
    if origin.file is not None:
        name = f"{wanted.package.replace('-', '_')}-{origin.file.name.split('-')[1]}-"
        wheel = next((file for file in sorted(origin.file.parent.glob("*.whl")) if file.name.startswith(name)), None)
        if wheel is not None:
            return _quoted(str(wheel))
    return f"./{wanted.folder}   # {ANYWHERE}"


def _shown(folder: Path, *, dotted: bool = False) -> str:
    """Return the folder as the user would type it where the command runs."""
    try:
        inner = folder.relative_to(Path.cwd())
    except (ValueError, OSError):
        return str(folder)
    return f"./{inner}" if dotted and str(inner) != "." else str(inner)


def _quoted(argument: str) -> str:
    """Return the argument in quotes if a shell needs them."""
    return shlex.quote(argument)
