"""The declaration of one setting: its default, its check, and its name in cdk.json. The readers of each type.

Checks and readers raise `ValueError` with what would work: the end of a sentence that begins with the setting's name.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast, get_type_hints

import trackside
from trackside.contracts.action import Action
from trackside.contracts.errors import did_you_mean

T = TypeVar("T")
Check = Callable[[Any], None]

_CHECK, _KEY = "check", "key"


def accept(value: Any) -> None:
    """Accept any value of the right type."""


def setting(default: T, check: Check = accept, *, key: str = "") -> T:
    """Declare a field of a group of settings.

    Args:
        default: its value where cdk.json has none.
        check: raises `ValueError` for a value that cannot be deployed.
        key: its name in cdk.json, after `trackside:`; "": the name of the field.
    """
    return dataclasses.field(default=default, metadata={_CHECK: check, _KEY: key})


@dataclasses.dataclass(frozen=True)
class DeclaredSetting:
    """One setting.

    key      its name in cdk.json, after `trackside:`
    group    field of `DeploymentSettings` that holds it; "": that class itself
    name     its field in the group
    kind     its type
    check    raises `ValueError` for a value that cannot be deployed
    meaning  its line in the docstring of its class, in Markdown; links are those of a page in docs/
    """

    key: str
    group: str
    name: str
    kind: Any
    check: Check
    meaning: str

    def read(self, given: Any) -> Any:
        """Return the value that `-c` or JSON gives. Raises `ValueError` if it is of another type."""
        return _READERS[self.kind](given)

    def value_in(self, deployment: Any) -> Any:
        """Return its value in the settings of a deployment."""
        return getattr(getattr(deployment, self.group) if self.group else deployment, self.name)


def declared_settings(settings: type, group: str = "") -> Iterator[DeclaredSetting]:
    """Yield the settings of a class and of its groups, in the order of their fields."""
    kinds, meanings = get_type_hints(settings), _meanings(settings)
    for field in dataclasses.fields(settings):
        kind = kinds[field.name]
        if dataclasses.is_dataclass(kind):
            yield from declared_settings(cast("type", kind), field.name)
        else:
            known = field.metadata
            meaning = meanings.get(field.name, "")
            yield DeclaredSetting(known[_KEY] or field.name, group, field.name, kind, known[_CHECK], meaning)


def _meanings(settings: type) -> dict[str, str]:
    """Return the text of each field in the docstring: lines of `name  text`, with deeper lines that go on."""
    entries = re.findall(r"(?m)^(\w+) {2,}(\S.*(?:\n {2,}\S.*)*)", inspect.cleandoc(settings.__doc__ or ""))
    return {name: " ".join(text.split()) for name, text in entries}


def in_words(value: Any) -> str:
    """Return a default as the page of settings shows it."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        value = ",".join(item.value if isinstance(item, Action) else item for item in value)
    if value == trackside.__version__:
        return "this version"  # a page with the number would be stale at each release
    return str(value) if isinstance(value, int) else f"`{value}`" if value else "none"


def read_text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("it must be a text")
    return given


def read_whole(given: Any) -> int:
    if isinstance(given, bool) or not re.fullmatch(r"\d+", str(given)):
        raise ValueError("it must be a whole number")
    return int(given)


def read_boolean(given: Any) -> bool:
    if str(given).lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return str(given).lower() == "true"


def read_texts(given: Any) -> tuple[str, ...]:
    items = [item.strip() for item in given.split(",") if item.strip()] if isinstance(given, str) else given
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("it must be a list of texts")
    return tuple(items)


def read_actions(given: Any) -> tuple[Action, ...]:
    words = read_texts(given)
    known = {action.value: action for action in Action}
    for word in words:
        if word not in known:
            raise ValueError(f"{word!r} is not an action. {did_you_mean(word, known)}")
    return tuple(dict.fromkeys(known[word] for word in words))


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: read_text,
    int: read_whole,
    bool: read_boolean,
    tuple[str, ...]: read_texts,
    tuple[Action, ...]: read_actions,
}


def between(least: int, most: int) -> Check:
    """Return the check of a number: `least` to `most`."""

    def check(value: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"it must be {least} to {most}")

    return check


def matching(pattern: str, example: str) -> Check:
    """Return the check of a text: the whole of it matches `pattern`."""

    def check(value: str) -> None:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"it must look like {example}")

    return check


def empty_or(check: Check) -> Check:
    """Return the check of a text that may be empty."""
    return lambda value: check(value) if value else None


def each_matching(pattern: str, name: str, example: str, most: int) -> Check:
    """Return the check of a list: at most `most` texts, all of which match `pattern`, each once."""

    def check(value: tuple[str, ...]) -> None:
        wrong = [item for item in value if not re.fullmatch(pattern, item)]
        if wrong:
            raise ValueError(f"not {name} like {example}: {', '.join(wrong)}")
        if len(set(value)) < len(value) or len(value) > most:
            raise ValueError(f"at most {most}, each once")

    return check


REPOSITORY = r"[a-z0-9]+([._/-][a-z0-9]+)*"  # API_CreateRepository of ECR
IMAGE_TAG = matching(r"(?a:\w[\w.-]{0,127})", "'0.1.0'")
