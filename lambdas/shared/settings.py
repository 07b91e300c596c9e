"""Settings that travel through the environment of a Lambda: the stack writes them, the handler reads them back."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, cast, get_type_hints

from typing_extensions import Self

from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError, Problem

PREFIX = "TRACKSIDE_"


@dataclasses.dataclass(frozen=True)
class EnvironmentSettings:
    """Base of a Lambda's settings.

    Each field is an environment variable: `event_bus` is TRACKSIDE_EVENT_BUS. Fields are texts, whole
    numbers, booleans, or tuples of actions or of texts without commas.
    """

    @classmethod
    def of(cls, *groups: object, **given: Any) -> Self:
        """Return the settings that groups of the deployment's settings hold under the same names.

        Args:
            *groups: dataclasses.
            **given: the other values; they win over those of the groups.

        Raises:
            TypeError: two groups have a value for the same field, or nothing has one for a field without a default.
        """
        own = {field.name for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for group in groups:
            for name in (field.name for field in dataclasses.fields(cast("Any", group)) if field.name in own):
                if name in values and name not in given:
                    raise TypeError(f"Two groups have {name!r}, a field of {cls.__name__}: give it by name.")
                values[name] = getattr(group, name)
        return cls(**{**values, **given})

    def to_environment(self) -> dict[str, str]:
        """Return the variables of the function.

        Values that the deployment fills in later (CDK tokens) pass unchanged.
        """
        return {_variable(field.name): _write(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings in the function's own environment, or in `environ`.

        Errors: `ConfigurationError`, all at once.
        """
        environ = os.environ if environ is None else environ  # noqa: TID251  the place for it
        types = get_type_hints(cls)
        values: dict[str, Any] = {}
        problems: list[Problem] = []
        for field in dataclasses.fields(cls):
            variable = _variable(field.name)
            text = environ.get(variable)
            if text is None:
                if field.default is dataclasses.MISSING:
                    problems.append(Problem(variable, "is not set.", "The stack sets it: deploy again."))
                continue
            try:
                values[field.name] = _READERS[types[field.name]](text)
            except ValueError as error:
                problems.append(Problem(variable, f"is {text!r}: {error}."))
        if problems:
            raise ConfigurationError(problems, subject=cls.__name__)
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class ActionSettings(EnvironmentSettings):
    """Settings of an action that has none of its own.

    idempotency_table  table of the actions that were carried out
    default_actions    of events that name none
    """

    idempotency_table: str
    default_actions: tuple[Action, ...]


def _variable(field_name: str) -> str:
    return PREFIX + field_name.upper()


def _write(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(item.value if isinstance(item, Action) else item for item in value)
    return str(value)


def _read_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text == "true"


def _read_texts(text: str) -> tuple[str, ...]:
    return tuple(item for item in text.split(",") if item)


def _read_actions(text: str) -> tuple[Action, ...]:
    return tuple(Action(word) for word in _read_texts(text))


_READERS: Mapping[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    bool: _read_boolean,
    tuple[Action, ...]: _read_actions,
    tuple[str, ...]: _read_texts,
}
