"""Parameters in the SDK's form: texts, except values that have no text yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trackside.documents.values import as_text


def settled(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as texts. A value without a text stays as it is, and is reported later with all other problems."""
    return {name: _settled(value) for name, value in parameters.items()}


def texts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request: texts, without unset ones."""
    return {name: value for name, value in settled(parameters).items() if value is not None}


def _settled(value: Any) -> Any:
    try:
        return as_text(value)
    except ValueError:
        return value
