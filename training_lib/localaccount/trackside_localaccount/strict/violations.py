"""The constraints of an operation's model (botocore's) that a request breaks, in AWS's words.

Each shape becomes one function, made at its first use and kept: a request is checked in microseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import regex
from botocore.model import Shape

Check = Callable[[Any, str, list[str]], None]

_SCALARS = ("string", "integer", "long", "float", "double", "blob", "character", "short", "byte")
_MOST_SHOWN = 256
_MOST_SECONDS = 1.0  # for one pattern: texts of others must not hold the account up
# Java's names for what Python writes otherwise, in patterns of the models.
_JAVA = (
    (r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF"),
    (r"\p{ASCII}", r"[\x00-\x7F]"),
    (r"\p{Print}", r"[\x20-\x7E]"),
    (r"\p{Alnum}", r"A-Za-z0-9"),
    (r"[\w-", r"[\w\-"),
)


class Violations:
    """Finds what is wrong with parameters; the functions for shapes are kept by service and name."""

    def __init__(self) -> None:
        self._checks: dict[tuple[str, str], Check] = {}
        self._inputs: dict[tuple[str, str], Check] = {}  # only what is made to the end
        self._lock = threading.Lock()

    def of(self, service: str, shape: Shape, parameters: Mapping[str, Any]) -> list[str]:
        """Return a sentence for each constraint that is broken.

        Args:
            service: Name of the service, as boto3 has it.
            shape: The operation's input.
            parameters: The request, parsed by the service's protocol.
        """
        found: list[str] = []
        self._check_of_input(service, shape)(parameters, "", found)
        return found

    def _check_of_input(self, service: str, shape: Shape) -> Check:
        key = (service, shape.name)
        if key not in self._inputs:
            with self._lock:
                self._inputs[key] = self._check_for(service, shape)
        return self._inputs[key]

    def _check_for(self, service: str, shape: Shape) -> Check:
        key = (service, shape.name)
        if key not in self._checks:

            def later(value: Any, path: str, found: list[str]) -> None:
                self._checks[key](value, path, found)

            self._checks[key] = later  # a shape may hold itself: DynamoDB's AttributeValue
            self._checks[key] = self._make(service, shape)
        return self._checks[key]

    def _make(self, service: str, shape: Shape) -> Check:
        own = _constraints(shape)
        if shape.type_name == "structure":
            return self._structure(service, shape)
        if shape.type_name == "list":
            return self._list(service, shape, own)
        if shape.type_name == "map":
            return self._map(service, shape, own)
        return _own_check(own) if own else _nothing

    def _structure(self, service: str, shape: Any) -> Check:
        if getattr(shape, "is_document_type", False):
            return _nothing
        required = frozenset(shape.required_members)
        members = [(name, _member_name(name), self._check_for(service, each)) for name, each in shape.members.items()]

        def check(value: Any, path: str, found: list[str]) -> None:
            for name, label, inner in members:
                given = value.get(name)
                at = f"{path}.{label}" if path else label
                if given is not None:
                    inner(given, at, found)
                elif name in required:
                    found.append(f"Value null at '{at}' failed to satisfy constraint: Member must not be null")

        return check

    def _list(self, service: str, shape: Any, own: list[_Constraint]) -> Check:
        member, inner = shape.member, self._check_for(service, shape.member)
        of_items = _constraints(member) if member.type_name in _SCALARS else []

        def check(value: Any, path: str, found: list[str]) -> None:
            _report(own, value, path, found)
            if of_items:
                if any(not holds(each) for each in value for _, holds in of_items):
                    found.append(_sentence(value, path, f"Member must satisfy constraint: [{_all(of_items)}]"))
                return
            for number, each in enumerate(value, 1):
                inner(each, f"{path}.{number}.member", found)

        return check

    def _map(self, service: str, shape: Any, own: list[_Constraint]) -> Check:
        inner = self._check_for(service, shape.value)
        of_keys = _constraints(shape.key)
        of_values = _constraints(shape.value) if shape.value.type_name in _SCALARS else []

        def check(value: Any, path: str, found: list[str]) -> None:
            _report(own, value, path, found)
            if any(not holds(key) for key in value for _, holds in of_keys):
                found.append(_sentence(value, path, f"Map keys must satisfy constraint: [{_all(of_keys)}]"))
            if of_values:
                if any(not holds(each) for each in value.values() for _, holds in of_values):
                    found.append(_sentence(value, path, f"Map value must satisfy constraint: [{_all(of_values)}]"))
                return
            for key, each in value.items():
                inner(each, f"{path}.{key}.member", found)

        return check


_Constraint = tuple[str, Callable[[Any], bool]]


def _constraints(shape: Shape) -> list[_Constraint]:
    """Return the constraints of the shape itself: the sentence of each, and the function that tests a value."""
    traits, found = shape.metadata, list[_Constraint]()
    is_number = shape.type_name in ("integer", "long", "float", "double", "short", "byte")
    noun = "value" if is_number else "length"
    size: Callable[[Any], Any] = (lambda value: value) if is_number else len
    if "max" in traits:
        most = traits["max"]
        found.append((f"Member must have {noun} less than or equal to {most}", lambda value: size(value) <= most))
    if "min" in traits:
        least = traits["min"]
        found.append((f"Member must have {noun} greater than or equal to {least}", lambda value: size(value) >= least))
    if "pattern" in traits:
        matches = whole_match(traits["pattern"])
        found.append((f"Member must satisfy regular expression pattern: {traits['pattern']}", matches))
    if traits.get("enum"):
        allowed = frozenset(traits["enum"])
        found.append(
            (f"Member must satisfy enum value set: [{', '.join(traits['enum'])}]", lambda value: value in allowed)
        )
    return found


def whole_match(pattern: str, *, anywhere: bool = False) -> Callable[[Any], bool]:
    """Return a function that finds out if the whole of a text matches a model's pattern, which is Java's.

    Args:
        pattern: The pattern, as it stands in the model.
        anywhere: Whether a part of the text may match, too, as in JSON schemas.
    """
    for java, ours in _JAVA:
        pattern = pattern.replace(java, ours)
    made = regex.compile(pattern)
    find = made.search if anywhere else made.fullmatch

    def matches(value: Any) -> bool:
        try:
            return find(value, timeout=_MOST_SECONDS) is not None
        except TimeoutError:
            return True  # not known to be wrong

    return matches


def _own_check(own: list[_Constraint]) -> Check:
    return lambda value, path, found: _report(own, value, path, found)


def _nothing(value: Any, path: str, found: list[str]) -> None:
    """A shape that asks for nothing."""


def _report(own: list[_Constraint], value: Any, path: str, found: list[str]) -> None:
    for sentence, holds in own:
        if not holds(value):
            found.append(_sentence(value, path, sentence))


def _sentence(value: Any, path: str, constraint: str) -> str:
    return f"Value '{_shown(value)}' at '{path}' failed to satisfy constraint: {constraint}"


def _all(constraints: list[_Constraint]) -> str:
    return ", ".join(sentence for sentence, _ in constraints)


def _member_name(name: str) -> str:
    return name[:1].lower() + name[1:]


def _shown(value: Any) -> str:
    """Return the value as Java prints it, within a bound."""
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key}={each}" for key, each in value.items()) + "}"
    elif isinstance(value, list):
        text = "[" + ", ".join(map(str, value)) + "]"
    else:
        text = str(value)
    text = "".join(each if each.isprintable() else "?" for each in text[: _MOST_SHOWN + 1])  # an answer is XML, too
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."
