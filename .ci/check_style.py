"""Check the part of docs/contributing/style.md that a program can: openings of docstrings, their sections, and names.

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
    ".ci",
)
_PREFIXES = ("training_lib/src/", "training_lib/localaccount/", "training_lib/compat/")
PUBLIC_PAGE = "docs/public-api.md"
PUBLIC_NAMES = "training_lib/src/trackside/__init__.py"

OPENING, WORD, SECTION, NAME = "opening", "word", "section", "name"
BANNED_OPENING = re.compile(
    r"(As|The same|See|What|Which|Who|Whom|Whose|Whatever|Whether|None for|None of|So many|So much|Into|Nothing)\b"
)
BANNED_WORDS = re.compile(
    r"\b(said|says|say|told|tells|tell|there|whose|climbs?|hops?|heart|speaks?|spoken)\b", re.IGNORECASE
)
# Words of a name, of which `_` or a capital letter begins the next: verbs of speech, pronouns and private metaphors.
BANNED_IN_NAMES = re.compile(
    r"(?:^|_)(said|says?|saying|told|tells?|telling|asks?|asked|asker|asking|speaks?|spoken|hears?|heard|whose|whom|there|"
    r"climb(?:s|er)?|hops?|rungs?|lifeline|last_words?|abreast|apart|bears?)(?=_|$)"
)
ALLOWED_NAMES = {
    "is_asked_for": "public: attribute of rules, and key of the rule catalogue",
    "hops": "public: the journal of a local account",
}
THIRD_PERSON = re.compile(r"(?!Pass\b|Process\b|This\b|Lines\b)[A-Z][a-z]+s\b")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"")
_LIST = re.compile(r"`((?:trackside|trackside_localaccount)(?:\.[a-z_]+)+)`")


@dataclass(frozen=True)
class Offence:
    """One docstring that breaks a rule: its place, the kind of rule, and the text that breaks it."""

    place: str
    kind: str
    text: str


def main() -> int:
    """List the offences. Return 1 if any was found, else 0."""
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
    tree = ast.parse(source)
    yield from check_names(tree, module=module)
    for node, names in _definitions(tree, ()):
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


def check_names(tree: ast.Module, *, module: str) -> Iterator[Offence]:
    """Yield the banned words in the name of a module, and in the names that it defines."""
    places = [(part, 1) for part in module.split(".")]
    places += sorted((one for one in set(_defined(tree)) if one[0] not in ALLOWED_NAMES), key=lambda one: one[::-1])
    for name, line in places:
        if found := BANNED_IN_NAMES.search(_CAPITAL.sub("_", name).lower()):
            yield Offence(f"{module}:{line}", NAME, f"{found[1]!r} in {name!r}")


def names_of(path: Path) -> set[str]:
    """Return the names that a file defines."""
    return {name for name, _ in _defined(ast.parse(path.read_text(encoding="utf-8")))}


def _defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the names of functions, classes, arguments, variables and attributes that a file defines, with lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno


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
