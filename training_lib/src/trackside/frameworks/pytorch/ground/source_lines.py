"""Lines in the user's own files that created modules, optimizers and losses.

While training runs, a place is the innermost frame of the user's own code: a file and a number. The places of objects
that were built before are found in the syntax trees of those files: `self.fc1 = nn.Linear(...)` in the class of the
parent module.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from trackside.capture.ground.script_lines import Place, absolute, is_user_file

MOST_SOURCE_BYTES = 512 << 10  # a longer file takes longer to parse than its lines are worth
MOST_FILES = 50

_SCALINGS = {"scale", "mean", "sum", "div", "mul", "neg"}  # what a loss passes through on its way to `backward`
_CONTAINERS = {"Sequential", "ModuleList", "ModuleDict"}
_COLLECTIONS = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.GeneratorExp, ast.Name)
_DEEPEST = 8  # container in container, or one function that returns what another makes
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class ModuleTree:
    """The class of a module, the user-written files of it and of its bases, and its child modules by name."""

    type_name: str
    classes: tuple[tuple[str, str], ...] = ()  # (file, name) of the class and its bases, as far as they are the user's
    children: dict[str, ModuleTree] = field(default_factory=dict)


def user_classes(kind: type) -> tuple[tuple[str, str], ...]:
    """Return (file, qualified name) of the class and its bases, as far as they are in the user's files."""
    found = []
    for base in kind.__mro__:
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if file is None and base.__module__ == "__main__":  # a class of a notebook's cell
            file = getattr(getattr(base.__dict__.get("__init__"), "__code__", None), "co_filename", None)
        if isinstance(file, str) and is_user_file(file):
            found.append((absolute(file), base.__qualname__))
    return tuple(found)


class _Expression(NamedTuple):
    """The expression that created a module, with its function and file."""

    file: _File
    node: ast.expr
    scope: ast.AST

    @property
    def place(self) -> Place:
        return Place(self.file.path, self.node.lineno)


class SourceLines:
    """A reader of source files, each read once. Errors: none; a file that cannot be read has no places."""

    def __init__(self) -> None:
        self._files: dict[str, _File | None] = {}
        self._members: dict[tuple[str, str], dict[str, _Expression]] = {}
        self._used: set[int] = set()  # calls that some root was created by

    def modules(self, root: ModuleTree, *, files: Iterable[str]) -> dict[str, Place]:
        """Return the place of each module by its dotted path, "" for the root.

        The root is searched in `files` and its own.
        """
        found: dict[str, Place] = {}
        self._visit(root, self._root(root, [*files, *(file for file, _ in root.classes)]), "", found)
        return found

    def loss(self, backward: Place) -> Place | None:
        """Return the place that computed the value on which `backward` is called in that line; None without a call."""
        file = self._file(backward.file)
        call = file.call_at(backward.line, "backward") if file else None
        if file is None or call is None:
            return None
        value = call.args[0] if call.args else _callee(call)
        while isinstance(value, ast.Call) and _called(value) in _SCALINGS:
            value = value.args[0] if value.args else _callee(value)
        if isinstance(value, ast.Call):
            return Place(file.path, value.lineno)
        scope = file.scopes.get(call, file.tree)
        for name in [node.id for node in ast.walk(value) if isinstance(node, ast.Name)] if value else []:
            line = _last_assignment(scope, name, before=backward.line)
            if line is not None:
                return Place(file.path, line)
        return None

    def created_before(self, use: Place, name: str) -> Place | None:
        """Return the place of the call of that name that creates the object used in a line.

        It is the only such call in the file, or the one behind a variable in the line; None if none or several fit.
        """
        file = self._file(use.file)
        calls = file.calls.get(name, []) if file else []
        if file is None or len(calls) == 1:
            return Place(use.file, calls[0].lineno) if calls else None
        words = set(re.findall(r"\w+", linecache.getline(use.file, use.line)))
        named = {line for word in words for line in _assigned_lines(file.tree, word)}
        fitting = [call.lineno for call in calls if call.lineno in named]
        return Place(use.file, fitting[0]) if len(fitting) == 1 else None

    def has_call(self, place: Place, name: str) -> bool:
        """Return True if a function of that name is called on that line."""
        file = self._file(place.file)
        return file is not None and file.call_at(place.line, name) is not None

    def argument(self, place: Place | None, name: str) -> str:
        """Return the words of the first argument of that function's call on that line: "val_loss", "logs.val_loss".

        "" if it is no variable, attribute or item: a number computed there may be turned round.
        """
        file = self._file(place.file) if place is not None else None
        call = file.call_at(place.line, name) if file is not None and place is not None else None
        given = call.args[0] if call is not None and call.args else None
        while isinstance(given, ast.Call) and _called(given) == "item":
            given = _callee(given)
        if isinstance(given, ast.Name):
            return given.id
        if isinstance(given, ast.Attribute):
            return given.attr
        return (_text(given.slice) or "") if isinstance(given, ast.Subscript) else ""

    def _file(self, path: str) -> _File | None:
        if path not in self._files:
            self._files[path] = _File.read(path) if len(self._files) < MOST_FILES else None
        return self._files[path]

    def _visit(self, tree: ModuleTree, created: _Expression | None, path: str, found: dict[str, Place]) -> None:
        if created is not None:
            found[path] = created.place
        for place, (name, child) in enumerate(tree.children.items()):
            below = f"{path}.{name}" if path else name
            self._visit(child, self._child(tree, created, place, name, child), below, found)

    def _root(self, root: ModuleTree, files: Sequence[str]) -> _Expression | None:
        for path in dict.fromkeys(files):
            file = self._file(path)
            if file is None:
                continue
            for call in file.calls.get(root.type_name, ()):
                expression = _Expression(file, call, file.scopes.get(call, file.tree))
                if id(call) not in self._used and self._fits(root, expression):
                    self._used.add(id(call))
                    return expression
        return None

    def _fits(self, tree: ModuleTree, created: _Expression) -> bool:
        """Return False for a call that has created another module. The items of a container decide."""
        if tree.type_name not in _CONTAINERS:
            return True
        items = _items(created)
        if items is None:
            return False
        if not items.are_all:
            return True
        names = [_called(item.node) for _, item in items.of]
        if len(names) != len(tree.children):
            return False
        types = [child.type_name for child in tree.children.values()]
        return all(name == kind or not name[:1].isupper() for name, kind in zip(names, types, strict=True))

    def _child(
        self, parent: ModuleTree, created: _Expression | None, place: int, name: str, child: ModuleTree
    ) -> _Expression | None:
        for file, class_name in parent.classes:
            members = self._members_of(file, class_name)
            if name in members:
                return members[name]
            if "" in members:  # a Sequential by inheritance: what it hands to `super().__init__`
                return _item(_items(members[""]), place, name, child)
        if created is None:
            return None
        return _item(_items(created), place, name, child)

    def _members_of(self, path: str, class_name: str) -> dict[str, _Expression]:
        key = path, class_name
        if key not in self._members:
            file = self._file(path)
            kind = file.classes.get(class_name.rpartition(".")[2]) if file else None
            self._members[key] = _members(file, kind) if file and kind else {}
        return self._members[key]


class _File:
    """A file of the user's as a syntax tree, with lookups in it."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path, self.tree = path, tree
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.calls: dict[str, list[ast.Call]] = {}
        self.scopes: dict[ast.AST, ast.AST] = {}  # the function that a call stands in
        self._walk(tree, tree)

    @classmethod
    def read(cls, path: str) -> _File | None:
        source = "".join(linecache.getlines(path))
        if not source or len(source) > MOST_SOURCE_BYTES:
            return None
        try:
            return cls(path, ast.parse(source))
        except (SyntaxError, ValueError, RecursionError):  # it has been edited since, perhaps
            return None

    def call_at(self, line: int, name: str) -> ast.Call | None:
        """Return the call of that name that spans the line."""
        return next((c for c in self.calls.get(name, ()) if c.lineno <= line <= (c.end_lineno or c.lineno)), None)

    def _walk(self, node: ast.AST, scope: ast.AST) -> None:
        waiting = [(node, scope)]
        while waiting:
            node, scope = waiting.pop()
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, _Function):
                self.functions[node.name] = node
                scope = node
            elif isinstance(node, ast.Call):
                self.calls.setdefault(_called(node), []).append(node)
                self.scopes[node] = scope
            waiting.extend((child, scope) for child in reversed(list(ast.iter_child_nodes(node))))


def _called(node: ast.AST) -> str:
    """Return the last part of the called name: "Linear" of `nn.Linear(3, 4)`; "" for anything else."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _callee(call: ast.Call) -> ast.expr | None:
    """Return the object on which a method is called."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _members(file: _File, kind: ast.ClassDef) -> dict[str, _Expression]:
    """Return the value of each attribute of `self`, by its name; under "" the argument of `super().__init__`."""
    found: dict[str, _Expression] = {}
    for function in (node for node in kind.body if isinstance(node, _Function)):
        for node in ast.walk(function):
            for name, value in _set_by(node):
                # A module that is handed in was not created here; a call is better evidence.
                if name not in found or not isinstance(found[name].node, ast.Call):
                    found[name] = _Expression(file, value, function)
    return found


def _set_by(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from _assigned(target, node.value)
    elif isinstance(node, ast.Call) and _called(node) in {"add_module", "register_module", "setattr"}:
        name = _text(node.args[-2]) if len(node.args) >= 2 else None
        if name is not None:
            yield name, node.args[-1]
    elif isinstance(node, ast.Call) and _called(node) == "__init__" and node.args:
        function: Any = node.func
        if isinstance(function, ast.Attribute) and _called(function.value) == "super":
            yield "", node


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        yield target.attr, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, of_part in zip(target.elts, value.elts, strict=True):
            yield from _assigned(part, of_part)


class _Items(NamedTuple):
    """The items of a container, by key if it has keys; `are_all` is False if loops add more of them."""

    of: list[tuple[str | None, _Expression]]
    are_all: bool


def _items(created: _Expression, depth: int = 0) -> _Items | None:
    """Return the items of a container that an expression creates; None if it creates none that can be read."""
    file, node, scope = created
    if depth > _DEEPEST:
        return None
    found: _Items | None = None
    if isinstance(node, ast.Name):
        found = _items_of_name(created, node.id, depth)
    elif isinstance(node, (ast.List, ast.Tuple)):
        found = _joined(file, node.elts, scope, depth)
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        found = _Items([(None, _Expression(file, node.elt, scope))], are_all=False)
    elif isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        found = _Items([(_text(key), _Expression(file, value, scope)) for key, value in pairs], are_all=True)
    elif isinstance(node, ast.Call):
        found = _items_of_call(created, node, depth)
    return found


def _items_of_call(created: _Expression, call: ast.Call, depth: int) -> _Items | None:
    file, _, scope = created
    name = _called(call)
    if name in _CONTAINERS | {"OrderedDict", "list", "__init__"}:
        only = call.args[0] if len(call.args) == 1 else None
        if isinstance(only, _COLLECTIONS) or _called_or_none(only) in {"OrderedDict", "list"}:
            inner = _items(_Expression(file, cast("ast.expr", only), scope), depth + 1)
            if inner is not None:
                return _Items(list(map(_unpaired, inner.of)), inner.are_all)
        return _joined(file, call.args, scope, depth)
    function = file.functions.get(name)
    if function is None:
        return None
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]
    return _items(_Expression(file, returned[-1], function), depth + 1) if returned else None


def _called_or_none(node: ast.AST | None) -> str:
    return _called(node) if node is not None else ""


def _unpaired(item: tuple[str | None, _Expression]) -> tuple[str | None, _Expression]:
    """Return `("relu", nn.ReLU())` of an OrderedDict as key and module."""
    key, expression = item
    node = expression.node
    if key is None and isinstance(node, ast.Tuple) and len(node.elts) == 2:
        return _text(node.elts[0]), expression._replace(node=node.elts[1])
    return item


def _joined(file: _File, nodes: Sequence[ast.expr], scope: ast.AST, depth: int) -> _Items:
    items: list[tuple[str | None, _Expression]] = []
    are_all = True
    for node in nodes:
        if not isinstance(node, ast.Starred):
            items.append((None, _Expression(file, node, scope)))
            continue
        inner = _items(_Expression(file, node.value, scope), depth + 1)
        are_all = are_all and inner is not None and inner.are_all
        items += inner.of if inner else []
    return _Items(items, are_all)


def _items_of_name(created: _Expression, name: str, depth: int) -> _Items | None:
    """Return the items of a variable: a list that is set, added to and appended to, or a container."""
    file, itself, scope = created
    items: list[tuple[str | None, _Expression]] = []
    is_found, are_all = False, True
    loops = [n for n in ast.walk(scope) if isinstance(n, (ast.For, ast.While))]
    nodes: list[Any] = [
        n for n in ast.walk(scope) if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Call))
    ]
    for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset)):
        value = _argument_of(node, name)
        if value is None or value is itself:
            continue
        is_found = True
        are_all = are_all and not any(loop.lineno <= node.lineno <= (loop.end_lineno or 0) for loop in loops)
        if isinstance(node, ast.Call) and _called(node) == "append":
            items.append((None, _Expression(file, value, scope)))
            continue
        inner = _items(_Expression(file, value, scope), depth + 1)
        are_all = are_all and inner is not None and inner.are_all
        items += inner.of if inner else []
    return _Items(items, are_all) if is_found else None


def _argument_of(node: Any, name: str) -> ast.expr | None:
    """Return the value that a statement sets a variable to or adds to it."""
    if isinstance(node, ast.Call):
        function = node.func
        is_added = isinstance(function, ast.Attribute) and function.attr in {"append", "extend"} and len(node.args) == 1
        value = function.value if is_added and isinstance(function, ast.Attribute) else None
        return node.args[0] if isinstance(value, ast.Name) and value.id == name else None
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    is_set = any(isinstance(target, ast.Name) and target.id == name for target in targets)
    return node.value if is_set else None


def _item(items: _Items | None, place: int, name: str, child: ModuleTree) -> _Expression | None:
    if items is None:
        return None
    by_key = [expression for key, expression in items.of if key == name]
    if by_key:
        return by_key[0]
    if items.are_all and place < len(items.of) and _may_be(items.of[place][1], child):
        return items.of[place][1]
    alike = [expression for _, expression in items.of if _called(expression.node) == child.type_name]
    if len({id(expression.node) for expression in alike}) == 1:
        return alike[0]
    return items.of[0][1] if len(items.of) == 1 and _may_be(items.of[0][1], child) else None


def _may_be(expression: _Expression, child: ModuleTree) -> bool:
    """Return False if the expression certainly calls another class."""
    name = _called(expression.node)
    return name == child.type_name or not name[:1].isupper()


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _assigned_lines(scope: ast.AST, name: str) -> Iterator[int]:
    """Yield the lines of the values that a variable or an attribute of that name is set to."""
    for node in ast.walk(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            if name in {p.attr if isinstance(p, ast.Attribute) else getattr(p, "id", "") for p in parts}:
                yield node.value.lineno


def _last_assignment(scope: ast.AST, name: str, *, before: int) -> int | None:
    """Return the line that set a variable last, up to that line. A line that only scales its value is skipped."""
    lines = []
    for node in ast.walk(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and node.lineno <= before:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
            if name in names and not _only_scales(node.value, name):
                lines.append(node.value.lineno)
    return max(lines, default=None)


def _only_scales(value: ast.expr, name: str) -> bool:
    """Return True for `loss / 4`, `loss * weight`, `scaler.scale(loss)`."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    is_arithmetic = isinstance(value, ast.BinOp) and not any(isinstance(n, ast.Call) for n in ast.walk(value))
    return name in names and (is_arithmetic or _called(value) in _SCALINGS)
