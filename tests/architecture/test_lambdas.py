"""Every reaction: small, complete, tested, and importable from the deployed folder alone."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest

from stacks.deployment_settings import DeploymentSettings
from stacks.lambda_code import prepare_lambda_code
from stacks.settings.setting import declared_settings
from tests.lambda_settings import made, settings_class
from tests.patience import HANGS_SECONDS
from trackside.contracts.action import Action

ROOT = Path(__file__).resolve().parents[2]
LAMBDAS = ROOT / "lambdas"
REACTIONS = sorted(path.name for path in LAMBDAS.iterdir() if (path / "__init__.py").exists() and path.name != "shared")
MOST_HANDLER_LINES = 40

# What Lambda's Python runtime brings along; everything else must come from the asset.
RUNTIME = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3")
VARIABLES_OF_LAMBDA = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_LAMBDA_FUNCTION_NAME": "reaction",
    "LAMBDA_TASK_ROOT": "/var/task",  # switches the tracer on
    "_X_AMZN_TRACE_ID": "Root=1-00000000-000000000000000000000000;Parent=0000000000000000;Sampled=0",
}


def test_there_are_reactions() -> None:
    assert {"start_evaluation", "stop_training", "notify_owner", "record_verdict"} <= set(REACTIONS)


def is_one_file(reaction: str) -> bool:
    """An action of one file: decision and act fit on a screen together, and its settings are those of all actions."""
    files = {path.name for path in (LAMBDAS / reaction).glob("*.py")}
    return reaction in {action.unit.reaction for action in Action} and files == {"__init__.py", "handler.py"}


@pytest.mark.parametrize("reaction", REACTIONS)
def test_is_complete_and_its_handler_fits_on_a_screen(reaction: str) -> None:
    folder = LAMBDAS / reaction
    files = {path.name for path in folder.iterdir()}
    assert {"handler.py", "logic.py", "settings.py"} <= files or is_one_file(reaction)
    assert len((folder / "handler.py").read_text().splitlines()) <= MOST_HANDLER_LINES


@pytest.mark.parametrize("reaction", REACTIONS)
def test_has_a_test_of_its_logic_and_of_its_handler(reaction: str) -> None:
    folder = ROOT / "tests" / "lambdas" / reaction
    assert (folder / "test_logic.py").is_file() or is_one_file(reaction)
    assert (folder / "test_handler.py").is_file()


@pytest.mark.parametrize("reaction", REACTIONS)
def test_settings_come_back_from_the_environment_as_they_went(reaction: str) -> None:
    kind = settings_class(reaction)
    settings = made(kind)
    others: dict[type, Any] = {bool: True, int: 7, str: "another", tuple: tuple(Action)}
    changes = {field.name: others[type(getattr(settings, field.name))] for field in fields(kind)}
    for each in (settings, replace(settings, **changes)):
        assert kind.from_environment(each.to_environment()) == each


@pytest.mark.parametrize("reaction", REACTIONS)
def test_a_setting_of_the_deployment_has_no_second_default(reaction: str) -> None:
    """Its one default stands in `stacks/settings`; a function without its variable fails, and never guesses."""
    of_deployment = {name for one in declared_settings(DeploymentSettings) for name in (one.key, one.name)}
    with_default = {field.name for field in fields(settings_class(reaction)) if field.default is not MISSING}
    assert with_default & (of_deployment | {"retention_days", "every_minutes", "evaluator_mode"}) == set()


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of Lambda's runtime, and no others."""
    folder = tmp_path_factory.mktemp("runtime")
    for name in RUNTIME:
        module = importlib.import_module(name)
        assert module.__file__ is not None
        source = Path(module.__file__)
        source = source.parent if source.name == "__init__.py" else source
        (folder / source.name).symlink_to(source)
    return folder


@pytest.fixture(scope="module")
def imported(runtime: Path) -> Mapping[str, list[str]]:
    """Reaction -> the modules that its handler brought along, in a process that sees only what Lambda would."""
    program = (
        "import sys, json, importlib\n"
        f"sys.path[:0] = {[str(prepare_lambda_code()), str(runtime)]!r}\n"
        "before = set(sys.modules)\n"
        "found = {}\n"
        f"for name in {REACTIONS!r}:\n"
        "    for known in [known for known in sys.modules if known.split('.')[0] in ('lambdas', 'trackside')]:\n"
        "        del sys.modules[known]\n"
        "    module = importlib.import_module(f'lambdas.{name}.handler')\n"
        "    assert callable(module.handle)\n"
        "    found[name] = sorted(set(sys.modules) - before)\n"
        "print(json.dumps(found))\n"
    )
    # -S and -I: no site-packages, no current folder, no PYTHON variables.
    command = [sys.executable, "-S", "-I", "-B", "-W", "error::ImportWarning", "-c", program]
    outcome = subprocess.run(
        command, capture_output=True, text=True, cwd="/", env=VARIABLES_OF_LAMBDA, check=False, timeout=HANGS_SECONDS
    )
    assert outcome.returncode == 0, outcome.stderr
    modules: dict[str, list[str]] = json.loads(outcome.stdout.splitlines()[-1])
    return modules


@pytest.mark.parametrize("reaction", REACTIONS)
def test_imports_contracts_and_nothing_else_of_the_library(imported: Mapping[str, list[str]], reaction: str) -> None:
    ours = {name for name in imported[reaction] if name.split(".")[0] == "trackside"}
    assert "trackside.contracts.event" in ours
    assert {name for name in ours if not name.startswith("trackside.contracts")} == {"trackside"}


@pytest.mark.parametrize("reaction", REACTIONS)
def test_imports_no_heavy_package(imported: Mapping[str, list[str]], reaction: str) -> None:
    roots = {name.split(".")[0] for name in imported[reaction]}
    assert not roots & {"numpy", "torch", "pydantic", "moto", "click", "rich", "google_crc32c"}


@pytest.mark.parametrize("reaction", REACTIONS)
def test_imports_no_other_reaction(imported: Mapping[str, list[str]], reaction: str) -> None:
    folders = {name.split(".")[1] for name in imported[reaction] if name.startswith("lambdas.")}
    assert folders == {reaction, "shared"}


def test_one_place_makes_the_logger_the_tracer_and_the_metrics() -> None:
    makers = {
        str(path.relative_to(LAMBDAS))
        for path in LAMBDAS.rglob("*.py")
        for word in ("Logger(", "Tracer(", "Metrics(")
        if word in path.read_text()
    }
    assert makers == {"shared/observability.py"}
