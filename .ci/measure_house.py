"""Measures the sizes of a checkout: files, functions, classes, imports.

python .ci/measure_house.py [CHECKOUT]
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PRODUCT = ("training_lib/", "lambdas/", "stacks/", "rule_containers/")
ROOTS = ("training_lib/src/", "training_lib/compat/", "training_lib/localaccount/", "")
ROOMS = (*ROOTS[:3], "stacks/", "lambdas/", "benchmarks/", "tests/")
Function = ast.FunctionDef | ast.AsyncFunctionDef
LISTED = 12  # classes and files


def module_of(file: str) -> str:
    root = next(root for root in ROOTS if file.startswith(root))
    return file.removeprefix(root).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def lines_of(node: ast.ClassDef | Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def body_lines(function: Function) -> int:
    """Return the lines of the body, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def imports_of(tree: ast.AST, modules: set[str]) -> set[str]:
    """Return the modules of ours that are imported anywhere in a file."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & modules) or {node.module}
    return found & modules


def is_typed(function: Function) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    named = [argument for argument in arguments if argument.arg not in {"self", "cls"}]
    return function.returns is not None and all(argument.annotation for argument in named)


def public(tree: ast.AST) -> Iterator[ast.ClassDef | Function]:
    """Yield the classes and functions without an underscore."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            yield node


def share(truths: list[bool]) -> str:
    return f"{100 * sum(truths) / max(1, len(truths)):.0f} %"


def measure(checkout: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=checkout, capture_output=True, text=True, check=True)
    files = listed.stdout.split()
    texts = {file: (checkout / file).read_text(encoding="utf-8") for file in files}
    trees = {file: ast.parse(text) for file, text in texts.items()}
    print("room: files, lines; file median/max; function median/p90/max; typed; public docstrings")
    for room in ROOMS:
        within = [file for file in files if file.startswith(room)]
        if not within:
            continue
        lines = [texts[file].count("\n") for file in within]
        nodes = [node for file in within for node in ast.walk(trees[file])]
        functions = [node for node in nodes if isinstance(node, Function)]
        lengths = sorted(map(body_lines, functions))
        documented = [ast.get_docstring(node) is not None for file in within for node in public(trees[file])]
        print(
            f"{room}: {len(within)}, {sum(lines)}; {statistics.median(lines):.0f}/{max(lines)}; "
            f"{statistics.median(lengths):.0f}/{lengths[len(lengths) * 9 // 10]}/{lengths[-1]}; "
            f"{share([is_typed(function) for function in functions])}; {share(documented)}"
        )
    product = [file for file in files if file.startswith(PRODUCT)]
    classes = [(node, file) for file in product for node in ast.walk(trees[file]) if isinstance(node, ast.ClassDef)]
    sizes = [
        (sum(isinstance(part, Function) for part in node.body), lines_of(node), f"{file}:{node.name}")
        for node, file in classes
    ]
    modules = {module_of(file) for file in files}
    fan_out = sorted(((len(imports_of(trees[file], modules)), file) for file in product), reverse=True)
    for title, rows in (("methods, lines, class", sorted(sizes, reverse=True)), ("modules of ours, file", fan_out)):
        print(title, *(" ".join(map(str, row)) for row in rows[:LISTED]), sep="\n  ")


if __name__ == "__main__":
    measure(Path(sys.argv[1] if sys.argv[1:] else "."))
