"""The rooms of the library by floor, for docs/architecture.md: floors of `.importlinter`, first lines of docstrings."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "training_lib" / "src" / "trackside"
HOUSE, PYTORCH = "layers", "rooms-of-pytorch"  # contracts of .importlinter
_ADDRESS = re.compile(r" See docs/\S+$")


def floors(contract: str, file: Path = ROOT / ".importlinter") -> list[list[str]]:
    """Return the rooms of a contract of layers, floor by floor, the highest first."""
    contracts = ConfigParser()
    contracts.read(file, encoding="utf-8")
    lines = contracts[f"importlinter:contract:{contract}"]["layers"].split("\n")
    return [re.split(r"\s*[|:]\s*", line.strip(" ()")) for line in lines if line.strip()]


def rooms_table(contract: str, folder: Path = LIBRARY) -> list[str]:
    """Return a table with a row for each room: its floor, counted from below, its name, and its first line."""
    house = floors(contract)
    rows = [
        f"| {len(house) - above} | `{room}` | {first_line(folder, room)} |"
        for above, floor in enumerate(house)
        for room in floor
    ]
    return ["| floor | room | what stands there |", "|---|---|---|", *rows]


def first_line(folder: Path, room: str) -> str:
    """Return the first line of the docstring of a package or module.

    Raises:
        ValueError: It has none.
    """
    package = folder / room / "__init__.py"
    source = package if package.exists() else folder / f"{room}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    if not text:
        raise ValueError(f"{source.relative_to(folder)} has no docstring: docs/architecture.md shows its first line.")
    return _ADDRESS.sub("", text.split("\n")[0]).replace("|", r"\|")
