"""Holds what a program can hold of docs/contributing/style.md: how docstrings open, and their sections on public API.

.ci/check_style.py             exit 1 and list what is new, by package
.ci/check_style.py --all       list everything, today's exceptions included
.ci/check_style.py --shrink    write the exceptions that are left; they may move between packages, and never grow
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = Path(__file__).with_name("style_exceptions.json")
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
_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"")
_LIST = re.compile(r"`((?:trackside|trackside_localaccount)(?:\.[a-z_]+)+)`")


@dataclass(frozen=True)
class Offence:
    """One docstring that breaks a rule: its package, place, kind, and the text that breaks it."""

    package: str
    place: str
    kind: str
    text: str


def main(arguments: list[str]) -> int:
    """Return 0 if nothing is new, 1 if something is, 2 for unknown arguments."""
    if arguments not in ([], ["--all"], ["--shrink"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    offences = list(find_offences(ROOT))
    allowed: Counts = json.loads(EXCEPTIONS.read_text(encoding="utf-8")) if EXCEPTIONS.exists() else {}
    if arguments == ["--shrink"]:
        return shrink(count(offences), allowed, EXCEPTIONS)
    if arguments == ["--all"]:
        sys.stdout.writelines(f"{each.place}: {each.kind}: {each.text}\n" for each in offences)
        return 0
    problems = compare(offences, allowed)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


Counts = Mapping[str, Mapping[str, int]]


def count(offences: Iterable[Offence]) -> dict[str, dict[str, int]]:
    """Return the number of offences by package and kind."""
    counted = Counter((each.package, each.kind) for each in offences)
    found: dict[str, dict[str, int]] = {}
    for (package, kind), number in sorted(counted.items()):
        found.setdefault(package, {})[kind] = number
    return found


def compare(offences: list[Offence], allowed: Counts) -> list[str]:
    """Return one line for each package and kind that differs from its allowed number, with the offences if it grew."""
    found = count(offences)
    problems = []
    for package in sorted(found.keys() | allowed.keys()):
        for kind in (OPENING, WORD, SECTION):
            number, limit = found.get(package, {}).get(kind, 0), allowed.get(package, {}).get(kind, 0)
            if number > limit:
                problems.append(f"{package}: {number} offences of kind {kind}, {limit} allowed:")
                mine = [each for each in offences if (each.package, each.kind) == (package, kind)]
                problems += [f"  {each.place}: {each.text}" for each in mine]
            elif number < limit:
                problems.append(
                    f"{package}: {kind}: {number} left of {limit}. Run: .venv/bin/python .ci/check_style.py --shrink"
                )
    if problems:
        problems.append("The rules: docs/contributing/style.md")
    return problems


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
    package = ".".join(module.split(".")[:2])
    for node, names in _definitions(ast.parse(source), ()):
        place = f"{module}:{getattr(node, 'lineno', 1)}{' ' + '.'.join(names) if names else ''}"
        documentation = ast.get_docstring(node) or ""
        first = documentation.partition("\n")[0]
        if BANNED_OPENING.match(first):
            yield Offence(package, place, OPENING, first)
        if found := BANNED_WORDS.search(_CODE.sub("", first)):
            yield Offence(package, place, WORD, f"{found[0]!r} in {first!r}")
        if is_public and isinstance(node, ast.FunctionDef) and not any(name.startswith("_") for name in names):
            yield from (Offence(package, place, SECTION, f"lacks {each}") for each in _lacking(node, documentation))


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(node: _Documented, names: tuple[str, ...]) -> Iterator[tuple[_Documented, tuple[str, ...]]]:
    yield node, names
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _definitions(child, (*names, child.name))


def _lacking(function: ast.FunctionDef, documentation: str) -> Iterator[str]:
    """Yield the sections that a public function needs and lacks."""
    decorators = {ast.unparse(each) for each in function.decorator_list}
    if decorators & {"property", "cached_property", "overload"} or not documentation:
        return
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if [name for name in names if name not in {"self", "cls"}] and "\nArgs:" not in documentation:
        yield "Args:"
    if re.search(r"^ *Errors:", documentation, re.MULTILINE) or "Errors: `" in documentation:
        yield "Raises: (it has Errors:)"


def _module(path: str) -> str:
    for prefix in _PREFIXES:
        path = path.removeprefix(prefix)
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def shrink(found: Counts, allowed: Counts, file: Path) -> int:
    """Write the numbers that are left. Return 1, and write nothing, if a kind has more of them than before."""
    for kind in (OPENING, WORD, SECTION):
        now, before = (sum(each.get(kind, 0) for each in counts.values()) for counts in (found, allowed))
        if allowed and now > before:
            sys.stderr.write(f"{kind}: {now} offences, {before} allowed: exceptions never grow.\n")
            return 1
    file.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
