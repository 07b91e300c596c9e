"""The settings of a project: `trackside.toml`, or `[tool.trackside]` in pyproject.toml, and environment variables.

The file is looked for in the working folder and in the folders above it. The command line counts more than a variable,
a variable more than the file, the file more than the default.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from trackside.choosing.rule_choice import WORDS, Layer, key_place, layer_of_document
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.environment import project_variable, project_variables
from trackside.extras import install_command

FILE, PYPROJECT, TABLE = "trackside.toml", "pyproject.toml", "trackside"
MOST_BYTES = 1 << 20
ON_ISSUE = ("stop", "notify", "nothing")
FAIL_ON = ("warning", "critical", "never")
CLUSTER_JOB = ("none", "report", "stop")
RULES_FILE, CAPTURE = "rules-file", "capture"


@dataclass(frozen=True)
class Value:
    """The value of one setting, and the source that gave it."""

    value: Any
    source: str


@dataclass(frozen=True)
class SettingKind:
    """One setting: its key in a file, the check of its value, its default and its description.

    check  returns the value, or raises `ValueError` with the permitted values
    """

    key: str
    default: Any
    help: str
    check: Callable[[object], Any]


@dataclass(frozen=True)
class ProjectSettings:
    """The settings of one project.

    file         the file that was read; None if none was found
    values       settings by key, as far as a file or a variable gives them
    rule_layers  the rule words of the file, then those of the variables
    capture      tensors to save; None without such a table
    """

    file: Path | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    rule_layers: tuple[Layer, ...] = ()
    capture: CaptureRequest | None = None

    @property
    def rules_file(self) -> Path | None:
        """The file of rules; a relative path is below the folder of the settings' file."""
        found = self.values.get(RULES_FILE)
        return None if found is None else Path(found.value)

    def default_map(self) -> dict[str, Any]:
        """Return the values as defaults of command-line options, by parameter name."""
        shared = {key: one.value for key, one in self.values.items() if key in {kind.key for kind in SETTINGS}}
        return {key.replace("-", "_"): value for key, value in shared.items()}


def _one_of(*allowed: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in allowed:
            hint = did_you_mean(str(value), allowed)
            raise ValueError(f"must be one of {', '.join(allowed)}, but is {value!r}. {hint}".strip())
        return str(value)

    return check


def _whole(value: object) -> int:
    number = _number(value)
    if number < 1 or number != int(number):
        raise ValueError(f"must be a whole number from 1 on, but is {value!r}.")
    return int(number)


def _seconds(value: object) -> float:
    number = _number(value)
    if number < 0:
        raise ValueError(f"must be a number of seconds from 0 on, but is {value!r}.")
    return number


def _number(value: object) -> float:
    try:
        number = math.nan if isinstance(value, bool) or value is None else float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"must be a number, but is {value!r}.")
    return number


SETTINGS = (
    SettingKind("on-issue", "notify", "act on an issue: stop, notify or nothing", _one_of(*ON_ISSUE)),
    SettingKind("fail-on", "critical", "severity of an issue that makes the exit code 1", _one_of(*FAIL_ON)),
    SettingKind("save-interval", None, "steps between saves (default: as the rules need)", _whole),
    SettingKind("cluster-job", "none", "act on the job of Slurm, Kubernetes or AWS Batch", _one_of(*CLUSTER_JOB)),
    SettingKind("grace", 30.0, "seconds to end after a stop, before SIGKILL", _seconds),
)
OF_VARIABLES = (*WORDS, *(kind.key for kind in SETTINGS), RULES_FILE)
KEYS = (*OF_VARIABLES, CAPTURE)


def read_settings(folder: Path, environ: Mapping[str, str]) -> ProjectSettings:
    """Return the settings that hold in a folder.

    Args:
        folder: The working folder.
        environ: The environment variables.

    Raises:
        ConfigurationError: The file or a variable is wrong. Lists every problem at once.
    """
    problems: list[Problem] = []
    file, table, where = find_settings(folder)
    unknown = [key for key in table if key not in KEYS]
    problems += [Problem(key_place(where, key), "is not known.", did_you_mean(key, KEYS)) for key in unknown]
    values: dict[str, Value] = {}
    layers = []
    if file is not None:
        values |= _values(table, lambda key: key_place(where, key), where, problems)
        layers.append(layer_of_document(table, where=where, problems=problems))
        if isinstance(table.get(RULES_FILE), str):
            values[RULES_FILE] = Value(str(file.parent / table[RULES_FILE]), where)
        elif RULES_FILE in table:
            problems.append(Problem(key_place(where, RULES_FILE), "must be the path of a file."))
    variables = project_variables(OF_VARIABLES, environ)
    values |= _values(variables, project_variable, "", problems)
    layers.append(layer_of_document(variables, where="TRACKSIDE_", problems=problems, variables=True))
    if RULES_FILE in variables:
        values[RULES_FILE] = Value(variables[RULES_FILE], project_variable(RULES_FILE))
    capture = _capture(table, where, problems)
    if problems:
        raise ConfigurationError(problems, subject="The configuration of this project")
    return ProjectSettings(file, values, tuple([layer for layer in layers if layer]), capture)


def find_settings(folder: Path) -> tuple[Path | None, Mapping[str, Any], str]:
    """Return the nearest file with settings, its table, and the table's name in messages.

    Args:
        folder: Folder to begin in.

    Raises:
        ConfigurationError: A file is no TOML, or cannot be read.
    """
    for place in (folder, *folder.parents):
        own = place / FILE
        if own.is_file():
            return own, _parsed(own), _shown(own, folder)
        project = place / PYPROJECT
        if _mentions_us(project):
            tools = _parsed(project).get("tool", {})
            if isinstance(tools, Mapping) and isinstance(tools.get(TABLE), Mapping):
                return project, tools[TABLE], f"{_shown(project, folder)}, tool.{TABLE}"
    return None, {}, ""


def _mentions_us(project: Path) -> bool:
    """Return True for a file that may have our table. One that cannot be read is of no interest."""
    try:
        return project.is_file() and b"tool.trackside" in _content(project)
    except (ConfigurationError, OSError):
        return False


def _values(
    given: Mapping[str, Any], place: Callable[[str], str], source: str, problems: list[Problem]
) -> dict[str, Value]:
    found = {}
    for kind in SETTINGS:
        if kind.key not in given:
            continue
        try:
            found[kind.key] = Value(kind.check(given[kind.key]), source or place(kind.key))
        except ValueError as error:
            problems.append(Problem(place(kind.key), str(error)))
    return found


def _capture(table: Mapping[str, Any], where: str, problems: list[Problem]) -> CaptureRequest | None:
    if CAPTURE not in table:
        return None
    try:
        return CaptureRequest.from_json(json.dumps(table[CAPTURE], default=str))
    except ConfigurationError as error:
        place = key_place(where, CAPTURE)
        problems += [Problem(f"{place}.{one.where}", one.what, one.fix) for one in error.problems]
        return None


def _shown(file: Path, folder: Path) -> str:
    return file.name if file.parent == folder else str(file)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as error:
        raise ConfigurationError([Problem(str(path), f"cannot be read: {error.strerror}.")]) from error


def _toml_parser() -> ModuleType:
    try:
        return import_module("tomllib")
    except ModuleNotFoundError:  # Python 3.10
        import tomli

        return tomli


def _parsed(path: Path) -> dict[str, Any]:
    try:
        parser = _toml_parser()
    except ModuleNotFoundError as error:
        problem = Problem(str(path), "needs tomli, which is not installed.", install_command("cli"))
        raise ConfigurationError([problem], subject="The settings file") from error
    try:
        settings: dict[str, Any] = parser.loads(_content(path).decode("utf-8"))
        return settings
    except (ValueError, RecursionError) as error:  # TOMLDecodeError names line and column
        raise ConfigurationError([Problem(str(path), f"is no TOML: {error}.")], subject="The settings file") from error
