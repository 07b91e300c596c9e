"""The state of the installation: its parts, whether they fit together, and the environment variables."""

from __future__ import annotations

import base64
import hashlib
import inspect
import math
import re
import site
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import metadata, util
from pathlib import Path

from trackside import __version__, environment
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, did_you_mean
from trackside.extras import install_command, pip_install, reinstall_command
from trackside.storage.open_store import open_store

OLDEST_PYTHON = (3, 10)
START_UP_FILE = "trackside.pth"
OURS, ORIGINAL = "trackside-smdebug", "smdebug"
FOLDER = "smdebug"  # what both own
IMPORT = "import smdebug"
REINSTALL = "Install it again."
SOLVE_CLASH = (
    "Uninstall both, for removing one deletes files of the other, then install the one that you want. "
    "Trackside's reads all that the original's could:"
)
UNINSTALL_BOTH = "pip uninstall -y smdebug trackside-smdebug"
OPTIONAL = {"torch": "torch", "boto3": "aws"}
_EVALUATOR = (
    "import trackside.evaluation.__main__\n"
    "from trackside.rules.catalogue import build_rules, default_request\n"
    "print(len(build_rules(default_request())))"
)


class State(str, Enum):
    """The result of a check. `problem` makes `trackside doctor` fail."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    """One checked item: the observation and, unless all is well, a cure with commands for it."""

    name: str
    state: State
    found: str
    fix: str = ""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ownership:
    """A package's files in the shared folder: their total, and the number still unchanged."""

    intact: int
    total: int


def check_installation(environ: Mapping[str, str]) -> tuple[Check, ...]:
    """Return every check of this interpreter and of the given environment variables."""
    return (
        _python(),
        Check("trackside", State.OK, f"{__version__}, in {Path(environment.__file__).parent}"),
        *_old_names(),
        _required("numpy"),
        _required("google-crc32c"),
        *(_optional(name, extra) for name, extra in OPTIONAL.items()),
        check_start_up_file(site_folders(), environ),
        check_evaluator(environ),
        *check_variables(environ),
    )


def check_start_up_file(folders: Iterable[Path], environ: Mapping[str, str]) -> Check:
    """Return the check of the start-up file, by which a script is captured unchanged."""
    found = next((folder / START_UP_FILE for folder in folders if (folder / START_UP_FILE).is_file()), None)
    if found is None:
        return Check(
            "start-up file",
            State.PROBLEM,
            f"no {START_UP_FILE}: scripts are not captured",
            REINSTALL,
            (reinstall_command(),),
        )
    if "trackside.frameworks.attach" not in found.read_text(encoding="utf-8", errors="replace"):
        what = f"{found} is not what Trackside installs"
        return Check("start-up file", State.PROBLEM, what, REINSTALL, (reinstall_command(),))
    run = environ.get("TRACKSIDE_RUN")
    state = f"active: this environment captures into {run}" if run else "inert: TRACKSIDE_RUN is not set"
    return Check("start-up file", State.OK, state)


def check_evaluator(environ: Mapping[str, str]) -> Check:
    """Return the check of the process that judges: it is started here, with the default rules and without a run."""
    own = {name: text for name, text in environ.items() if not name.startswith("TRACKSIDE_")}
    started = subprocess.run([sys.executable, "-c", _EVALUATOR], env=own, capture_output=True, text=True, check=False)
    if not started.returncode:
        return Check("evaluator", State.OK, f"starts, with {started.stdout.strip()} rules")
    last = (started.stderr.strip().splitlines() or [f"exit code {started.returncode}"])[-1]
    return Check("evaluator", State.PROBLEM, f"no run can be judged: {last}", REINSTALL, (reinstall_command(),))


def check_variables(environ: Mapping[str, str]) -> tuple[Check, ...]:
    """Return one check for each TRACKSIDE_* variable that is set."""
    known = known_variables()
    return tuple(_variable(name, environ[name], known) for name in sorted(environ) if name.startswith("TRACKSIDE_"))


def known_variables() -> frozenset[str]:
    """Return the TRACKSIDE_* variables that `environment.py` reads.

    Taken from its source, so that no list can go stale.
    """
    return frozenset(re.findall(r"\bTRACKSIDE_[A-Z_]+\b", inspect.getsource(environment)))


def site_folders() -> list[Path]:
    """Return the folders in which Python looks for start-up files."""
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return [Path(folder) for folder in folders]


def ownership(package: metadata.Distribution) -> Ownership:
    """Compare a package's files with the hashes in its RECORD. An editable package brings no file into the folder."""
    files = [file for file in package.files or () if file.parts[0] == FOLDER and file.hash is not None]
    intact = 0
    for file in files:
        try:
            content = Path(str(file.locate())).read_bytes()
        except OSError:
            continue
        digest = hashlib.new(file.hash.mode, content).digest() if file.hash else b""
        intact += file.hash is not None and base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value
    return Ownership(intact, len(files))


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    found = f"{version}, {sys.executable}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Check("python", State.PROBLEM, found, "Trackside needs Python 3.10 or newer.")
    return Check("python", State.OK, found)


def _old_names() -> tuple[Check, ...]:
    ours, original = _package(OURS), _package(ORIGINAL)
    return (
        Check(OURS, State.OK, ours.version if ours else f"not installed ({install_command('smdebug')})"),
        Check(ORIGINAL, State.OK, original.version if original else "not installed"),
        _import_smdebug(ours, original),
    )


def _import_smdebug(ours: metadata.Distribution | None, original: metadata.Distribution | None) -> Check:
    place = _place_of_smdebug()
    if ours and original:
        return _clash(ours, original, place)
    if ours:
        return _ours_alone(ours, place)
    if original:
        found = f"the original's: rules written for it are judged with {OURS} only"
        return Check(IMPORT, State.OK, found)
    if place:
        fix = f"Remove {place}, or install what it came from again."
        return Check(IMPORT, State.NOTE, f"{place}, of no installed package", fix)
    return Check(IMPORT, State.OK, "not installed")


def _clash(ours: metadata.Distribution, original: metadata.Distribution, place: Path | None) -> Check:
    own, theirs = ownership(ours), ownership(original)
    file_counts = (
        f"{own.intact} of {own.total} files of {OURS} lie there, {theirs.intact} of {theirs.total} of {ORIGINAL}"
    )
    where = f", {place}" if place else ""
    found = f"{OURS} and {ORIGINAL} own the same folder{where}: {file_counts}"
    return Check(IMPORT, State.PROBLEM, found, SOLVE_CLASH, (UNINSTALL_BOTH, install_command("smdebug")))


def _ours_alone(ours: metadata.Distribution, place: Path | None) -> Check:
    if ours.version != __version__:
        command = install_command("smdebug")
        found = f"{OURS} {ours.version} beside trackside {__version__}"
        return Check(IMPORT, State.PROBLEM, found, "Both must be of one version.", (command,))
    own = ownership(ours)
    if own.intact == own.total and place is not None:
        return Check(IMPORT, State.OK, f"{OURS}'s")
    found = f"{own.intact} of {own.total} files are as {OURS} installed them"
    command = reinstall_command(OURS)
    return Check(IMPORT, State.PROBLEM, found, "Another package has overwritten or removed the rest.", (command,))


def _place_of_smdebug() -> Path | None:
    """Return the folder that `import smdebug` would take. Imports nothing."""
    spec = util.find_spec(FOLDER)
    if spec is None:
        return None
    if spec.origin:
        return Path(spec.origin).parent
    return next((Path(place) for place in spec.submodule_search_locations or ()), None)


def _required(name: str) -> Check:
    package = _package(name)
    if package is None:
        command = (f"{pip_install()} {name}",)
        return Check(name, State.PROBLEM, "not installed", "Nothing works without it.", command)
    return Check(name, State.OK, package.version)


def _optional(name: str, extra: str) -> Check:
    package = _package(name)
    return Check(name, State.OK, package.version if package else f"not installed ({install_command(extra)})")


def _package(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _variable(name: str, value: str, known: frozenset[str]) -> Check:
    if name not in known:
        return Check(name, State.NOTE, "nothing reads it", did_you_mean(name, known))
    problem = _wrong_with(name, value)
    if problem is None:
        return Check(name, State.OK, value or "empty")
    return Check(name, State.PROBLEM, problem[0], problem[1])


def _wrong_with(name: str, value: str) -> tuple[str, str] | None:
    if not value:
        return None  # the same as unset
    try:
        if name == "TRACKSIDE_RUN":
            open_store(value)
        elif name == "TRACKSIDE_CAPTURE_REQUEST":
            CaptureRequest.from_json(value)
        elif name.endswith("_SECONDS") and not 0 < _number(value) < math.inf:
            return f"{value!r} is no number of seconds above 0, so the default holds", "Give a number such as 1."
    except ConfigurationError as error:
        problems = "; ".join(f"{problem.where}: {problem.what}" for problem in error.problems)
        return problems, error.problems[0].fix or "Mend its text, or unset it."
    return None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
