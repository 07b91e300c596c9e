"""Parameters as the SDK carries them: texts, but for what has no text yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trackside.documents.values import as_text


def settled(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Values as texts. What has no text of its own stays as it is, and is told with all other problems later."""
    return {name: _settled(value) for name, value in parameters.items()}


def texts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What travels in a request: what is not set is left out."""
    return {name: value for name, value in settled(parameters).items() if value is not None}


def _settled(value: Any) -> Any:
    try:
        return as_text(value)
    except ValueError:
        return value
