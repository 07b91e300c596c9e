"""Hold what a program can hold of docs/contributing/style.md: how docstrings open, and their sections on public API.

.ci/check_style.py             exit 1 and list every offence
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (
    "training_lib/src/trackside",
    "training_lib/localaccount/trackside_localaccount",
    "training_lib/compat",
    "lambdas",
    "stacks",
    "rule_containers",
)
_PREFIXES = ("training_lib/src/", "training_lib/localaccount/", "training_lib/compat/")
PUBLIC_PAGE = "docs/public-api.md"
PUBLIC_NAMES = "training_lib/src/trackside/__init__.py"

OPENING, WORD, SECTION = "opening", "word", "section"
BANNED_OPENING = re.compile(
    r"(As|The same|See|What|Which|Who|Whom|Whose|Whatever|Whether|None for|None of|So many|So much|Into|Nothing)\b"
)
BANNED_WORDS = re.compile(
    r"\b(said|says|say|told|tells|tell|there|whose|climbs?|hops?|heart|speaks?|spoken)\b", re.IGNORECASE
)
THIRD_PERSON = re.compile(r"(?!Pass\b|Process\b|This\b|Lines\b)[A-Z][a-z]+s\b")
_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"")
_LIST = re.compile(r"`((?:trackside|trackside_localaccount)(?:\.[a-z_]+)+)`")


@dataclass(frozen=True)
class Offence:
    """One docstring that breaks a rule: its place, the kind of rule, and the text that breaks it."""

    place: str
    kind: str
    text: str


def main() -> int:
    """Return 1 and list the offences if there are any, else 0."""
    offences = list(find_offences(ROOT))
    sys.stderr.writelines(f"{each.place}: {each.kind}: {each.text}\n" for each in offences)
    if offences:
        sys.stderr.write("The rules: docs/contributing/style.md\n")
    return 1 if offences else 0


def find_offences(root: Path) -> Iterator[Offence]:
    """Yield every offence below `root`, by file."""
    public = public_modules(root)
    for source in SOURCES:
        for path in sorted((root / source).rglob("*.py")):
            module = _module(path.relative_to(root).as_posix())
            yield from check_source(path.read_text(encoding="utf-8"), module=module, is_public=module in public)


def public_modules(root: Path) -> frozenset[str]:
    """Return the modules of the public API: those that the page lists, and those where `trackside`'s names are from."""
    listed = set(_LIST.findall((root / PUBLIC_PAGE).read_text(encoding="utf-8")))
    tree = ast.parse((root / PUBLIC_NAMES).read_text(encoding="utf-8"))
    offered = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return frozenset(listed | {name for name in offered if name.startswith("trackside.")})


def check_source(source: str, *, module: str, is_public: bool) -> Iterator[Offence]:
    """Yield the offences of one file."""
    for node, names in _definitions(ast.parse(source), ()):
        place = f"{module}:{getattr(node, 'lineno', 1)}{' ' + '.'.join(names) if names else ''}"
        documentation = ast.get_docstring(node) or ""
        first = documentation.partition("\n")[0]
        if BANNED_OPENING.match(first):
            yield Offence(place, OPENING, first)
        if isinstance(node, ast.FunctionDef) and not _is_property(node) and THIRD_PERSON.match(first):
            yield Offence(place, OPENING, f"{first!r}: begin with the verb, as an order")
        if found := BANNED_WORDS.search(_CODE.sub("", first)):
            yield Offence(place, WORD, f"{found[0]!r} in {first!r}")
        if is_public and isinstance(node, ast.FunctionDef) and not any(name.startswith("_") for name in names):
            yield from (Offence(place, SECTION, f"lacks {each}") for each in _lacking(node, documentation))


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(node: _Documented, names: tuple[str, ...]) -> Iterator[tuple[_Documented, tuple[str, ...]]]:
    yield node, names
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _definitions(child, (*names, child.name))


def _lacking(function: ast.FunctionDef, documentation: str) -> Iterator[str]:
    """Yield the sections that a public function needs and lacks."""
    if _is_property(function) or not documentation:
        return
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if [name for name in names if name not in {"self", "cls"}] and "\nArgs:" not in documentation:
        yield "Args:"
    if re.search(r"^ *Errors:", documentation, re.MULTILINE) or "Errors: `" in documentation:
        yield "Raises: (it has Errors:)"


def _is_property(function: ast.FunctionDef) -> bool:
    return bool({ast.unparse(each) for each in function.decorator_list} & {"property", "cached_property", "overload"})


def _module(path: str) -> str:
    for prefix in _PREFIXES:
        path = path.removeprefix(prefix)
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


if __name__ == "__main__":
    sys.exit(main())
