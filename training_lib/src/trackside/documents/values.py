"""Values from notebooks and requests, and their texts."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from trackside.contracts.errors import Problem, did_you_mean

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def as_text(value: Any) -> str | None:
    """Return the text of a value: `False` -> `"False"`, `1e-07` -> `"1e-07"`, `["a", "b"]` -> `"a,b"`.

    None, which means "not set", stays None.

    Raises:
        ValueError: The value has no text, such as a variable of a pipeline that has not run.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Enum):
        return as_text(value.value)
    if isinstance(value, (bool, numbers.Number)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return as_text(sorted(value, key=str))
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return ",".join(text for text in map(as_text, value) if text is not None)
    if callable(item := getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        return as_text(item())
    kind = type(value).__name__
    raise ValueError(f"is a {kind}, whose value cannot be known here: give a text, a number or a list.")


def is_unset(value: Any) -> bool:
    """Return True for None, and for the text that the SDK's profiler rules make of it."""
    return value is None or value == "None"


def read_boolean(text: str | None, *, default: bool = False) -> bool | None:
    """Return the value of any spelling of true and false; `default` for None, None for anything else."""
    return default if text is None else _WORDS.get(text.strip().lower())


def note_unknown(given: Mapping[str, Any], known: Iterable[str], *, where: str, problems: list[Problem]) -> None:
    """Note a problem, with a did-you-mean, for every name in `given` that is not known."""
    names = tuple(known)
    problems += [
        Problem(where, f"{name!r} is not known.", did_you_mean(str(name), names)) for name in given if name not in names
    ]
