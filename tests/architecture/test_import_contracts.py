"""The promises of .importlinter hold for modules that nobody has listed: planted violations are found."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp
import pytest

from tests.patience import HANGS_SECONDS

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "training_lib" / "src" / "trackside"
PACKAGES = {
    "trackside": LIBRARY,
    "smdebug": ROOT / "training_lib" / "compat" / "smdebug",
    "sagemaker_debug_hook_config": ROOT / "training_lib" / "compat" / "sagemaker_debug_hook_config",
    "trackside_localaccount": ROOT / "training_lib" / "localaccount" / "trackside_localaccount",
    "lambdas": ROOT / "lambdas",
    "stacks": ROOT / "stacks",
    "rule_containers": ROOT / "rule_containers",
}
# importing module -> the import that must be found
PLANTED = {
    "stacks.tagging_stack": "lambdas.tag_job.logic",
    "stacks.constructs.tagging": "lambdas.tag_job.tagging",
    "lambdas.tag_job.settings": "lambdas.tag_job.tagging",
    "stacks.reading_stack": "trackside.records.model_facts",
    "lambdas.tag_job.logic": "trackside.storage.store",
    "trackside.storage.planted": "smdebug.exceptions",
    "trackside.cli.planted": "sagemaker_debug_hook_config",
    "lambdas.tag_job.tagging": "smdebug",
    "rule_containers.planted": "smdebug.trials",
    "trackside.frameworks.shared.one": "trackside.frameworks.plain.run",
    "trackside.exchange.planted": "torch",
    "trackside.runs.planted": "trackside.views.drawn_trial",
    "trackside.capture.planted": "trackside.rescue.rescue",
    "trackside.adapters.keras.planted": "trackside.adapters.jax.run",
    "trackside.capture.steps.planted": "trackside.capture.writing.writer",
    "trackside.collection_pause": "tensorflow",
    "trackside.rules.planted.one": "trackside.rules.planted.other",
    "trackside.rules.planted.clock": "time",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of lint-imports on a copy of the packages with all violations planted."""
    copy = tmp_path_factory.mktemp("copy")
    for name, folder in PACKAGES.items():
        shutil.copytree(folder, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for module, imported in PLANTED.items():
        file = copy.joinpath(*module.split(".")).with_suffix(".py")
        file.parent.mkdir(exist_ok=True)
        (file.parent / "__init__.py").touch()
        with file.open("a") as source:
            source.write(f"\nimport {imported}\n")
    for module in set(PLANTED.values()) | {"trackside.rules.planted.other"}:
        if module.split(".")[0] in PACKAGES and not (path := copy.joinpath(*module.split("."))).is_dir():
            path.with_suffix(".py").touch()
    config = copy / ".importlinter"
    shutil.copy(ROOT / ".importlinter", config)
    outcome = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", config, "--no-cache"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_SECONDS,
    )
    assert outcome.returncode == 1, outcome.stderr + outcome.stdout
    return outcome.stdout


@pytest.mark.parametrize(("module", "imported"), PLANTED.items())
def test_finds(report: str, module: str, imported: str) -> None:
    root = imported.partition(".")[0]
    found = f"{module} -> {imported if root in PACKAGES else root} ("
    assert found in report


def imported_roots(files: Iterable[Path]) -> set[str]:
    found = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found


def test_contracts_import_the_standard_library_and_themselves() -> None:
    assert imported_roots((LIBRARY / "contracts").rglob("*.py")) - set(sys.stdlib_module_names) == {"trackside"}


# A package that is not ours -> the rooms of the library that import it. import-linter has to be told a package's name
# before it can see it; this table sees every new one.
OUTSIDE = {
    "jwt": {"views"},
    "IPython": {"local"},
    "boto3": {"exchange"},
    "botocore": {"aws_clients.py", "cloud", "containers", "exchange", "storage"},
    "click": {"cli"},
    "google_crc32c": {"records"},
    "anyio": {"agents"},
    "mcp": {"agents"},
    "pydantic": {"agents"},
    "numpy": {
        "agents",
        "diagnosis",
        "capture",
        "cli",
        "cloud",
        "evaluation",
        "imported",
        "evidence",
        "language",
        "presets",
        "exchange",
        "adapters/jax",
        "adapters/keras",
        "adapters/lightgbm",
        "adapters/shared",
        "adapters/mxnet",
        "frameworks/plain",
        "frameworks/pytorch",
        "adapters/sklearn",
        "adapters/xgboost",
        "runs",
        "speed",
        "records",
        "rehearsal",
        "views",
        "rules",
        "situation",
        "testing",
        "trial",
        "storage",  # its copies let the training go on
    },
    "pytest": {"integrations", "testing"},
    "rich": {"cli", "integrations"},
    "starlette": {"views"},
    "tomli": {"choosing"},
    "torch": {"frameworks/pytorch", "rehearsal", "rescue", "speed"},
    "jax": {"adapters/jax"},
    "keras": {"adapters/keras"},
    "mxnet": {"adapters/mxnet"},
    "lightgbm": {"adapters/lightgbm"},
    "catboost": {"adapters/catboost"},
    "sklearn": {"adapters/sklearn"},
    "xgboost": {"adapters/xgboost"},
    "trackside_native": {"compiled.py"},
    "trackside_localaccount": {"cloud", "testing"},
    "uvicorn": {"agents", "views"},
    "yaml": {"choosing"},
    **{
        tool: {"integrations"}
        for tool in (
            "accelerate",
            "lightning",
            "mlflow",
            "opentelemetry",
            "pytorch_lightning",
            "trackio",
            "transformers",
            "wandb",
        )
    },
}


def outside_imports(library: Path) -> dict[str, set[str]]:
    """Return the rooms that import each package from outside."""
    found: dict[str, set[str]] = {}
    for file in library.rglob("*.py"):
        parts = file.relative_to(library).parts
        room = "/".join(parts[:2]) if parts[0] in ("adapters", "frameworks") else parts[0]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for package in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"trackside"}:
                found.setdefault(package, set()).add(room)
    return found


def test_packages_from_outside_are_imported_in_their_rooms_only() -> None:
    assert outside_imports(LIBRARY) == OUTSIDE


def test_a_framework_that_nobody_listed_is_seen(tmp_path: Path) -> None:
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "x.py").write_text("def f():\n    import toyframe.nn as nn\n    return nn\n")
    assert outside_imports(tmp_path) == {"toyframe": {"trial"}}


def circles(imports: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the modules that import one another in a circle (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_ones: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        open_ones.append(module)
        for other in imports.get(module, ()):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in open_ones:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = open_ones.index(module)
            found.append(open_ones[at:])
            del open_ones[at:]

    for module in imports:
        if module not in number:
            visit(module)
    return [sorted(circle) for circle in found if len(circle) > 1]


def test_circles_are_seen() -> None:
    assert circles({"a": "b", "b": "c", "c": "ad", "d": ""}) == [["a", "b", "c"]]
    assert circles({"a": "bc", "b": "c", "c": ""}) == []


def test_no_files_import_one_another_in_a_circle() -> None:
    graph = grimp.build_graph("trackside", cache_dir=None)
    modules = graph.modules - {"trackside"}  # whose public names load on first use
    assert not circles({module: sorted(graph.find_modules_directly_imported_by(module)) for module in modules})
