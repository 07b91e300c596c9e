"""Promises about the training half: no class and no file that everything leads through."""

from __future__ import annotations

import ast
from configparser import ConfigParser
from pathlib import Path

import trackside
from tests.for_each import for_each
from trackside import products

PACKAGE = Path(trackside.__file__).parent
FILES = sorted(
    file for half in ("capture", "frameworks", "rehearsal", "rescue") for file in (PACKAGE / half).rglob("*.py")
)

every_file = for_each({str(file.relative_to(PACKAGE)): (file,) for file in FILES})

MOST_METHODS = 20
MOST_MODULES = 20
MOST_LINES_OF_THE_CORE = 87_500  # of its Python files; the aim is 76,000
MOST_FILES = 25  # side by side in a folder, beside its `__init__.py`


def methods_of(file: Path) -> dict[str, int]:
    """How many methods each class of the file has, private ones and properties too."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name: sum(isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) for part in node.body)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def modules_of(file: Path) -> set[str]:
    """The modules of ours that the file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "trackside":
            found |= {_module(node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.partition(".")[0] == "trackside"}
    return found


def _module(package: str, name: str) -> str:
    inner = PACKAGE.parent / package.replace(".", "/") / name
    return f"{package}.{name}" if inner.is_dir() or inner.with_suffix(".py").exists() else package


@every_file
def test_no_class_has_too_many_methods(file: Path) -> None:
    for name, count in methods_of(file).items():
        assert count <= MOST_METHODS, f"{name} has {count} methods: split it by what they are for"


@every_file
def test_no_file_imports_too_many_of_our_modules(file: Path) -> None:
    modules = modules_of(file)
    assert len(modules) <= MOST_MODULES, f"{len(modules)} modules: {', '.join(sorted(modules))}"


def test_no_folder_is_a_hall() -> None:
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    counts = {str(folder.relative_to(PACKAGE)): len(list(folder.glob("[!_]*.py"))) for folder in folders}
    assert not {name: count for name, count in counts.items() if count > MOST_FILES}, (
        "give what belongs together a room"
    )


def lines_by_room() -> dict[str, int]:
    """Return the number of lines of each room of the library, and of each file beside them."""
    counts: dict[str, int] = {}
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        counts[room] = counts.get(room, 0) + file.read_bytes().count(b"\n")
    return counts


def rooms_named(key: str) -> set[str]:
    """Return the rooms that the contract of the products names, of the core or of the products."""
    contracts = ConfigParser()
    contracts.read(Path(__file__).parents[2] / ".importlinter", encoding="utf-8")
    return {name.removeprefix("trackside.") for name in contracts["importlinter:contract:products"][key].split()}


def test_the_core_does_not_grow() -> None:
    """The core is all that one engineer must know to capture, judge and act: every room that is no product."""
    no_core = rooms_named("forbidden_modules")
    core = {room: count for room, count in lines_by_room().items() if room not in no_core}
    assert sum(core.values()) <= MOST_LINES_OF_THE_CORE, core


def test_each_room_is_of_the_core_or_a_product() -> None:
    packages = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert packages == rooms_named("source_modules") | rooms_named("forbidden_modules")


def test_what_the_core_begins_by_name_is_of_a_product() -> None:
    named = [value for name, value in vars(products).items() if name.isupper()]
    modules = [module for value in named for module in (value if isinstance(value, tuple) else (value,))]
    assert {module.split(".")[1] for module in modules} <= rooms_named("forbidden_modules")
    for module in modules:
        place = PACKAGE.parent.joinpath(*module.split("."))
        assert place.is_dir() or place.with_suffix(".py").is_file(), module
