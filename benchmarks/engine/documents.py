"""Dataclasses as JSON, in files that are written whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_Kind = TypeVar("_Kind")


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def write_json(path: Path, document: object) -> None:
    """Write a document whole or not at all."""
    write_text(path, json.dumps(document))


def from_document(kind: type[_Kind], document: Any) -> _Kind:
    """Return the dataclass of which `asdict` and JSON made a document.

    Its fields may be plain values, enums, other dataclasses and tuples of these.

    Raises:
        KeyError, TypeError, ValueError: The document has another form.
    """
    made: _Kind = _made(kind, document)
    return made


def _made(kind: Any, value: Any) -> Any:
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _made(hints[name], each) for name, each in value.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        return tuple(_made(get_args(kind)[0], each) for each in value)
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value
