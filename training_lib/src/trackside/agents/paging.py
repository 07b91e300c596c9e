"""Bounds of an answer: as many items as fit, and the cursor from which the next call goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trackside.contracts.errors import ConfigurationError, Problem

# Of the whole answer as compact JSON. A token of such text has some three characters: about 2,000 tokens.
MOST_CHARACTERS = 6000
ROOM = 5000  # for the items of a page; the rest of the answer takes less than the difference


def document(answer: Any) -> dict[str, Any]:
    """Return an answer as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(answer), allow_nan=False))
    return plain


def compact(value: Any) -> str:
    """Return plain JSON values as compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fitting(items: Sequence[Any], *, room: int = ROOM) -> int:
    """Return how many of the first items fit; at least one.

    Args:
        items: Dataclasses, or texts.
        room: Characters as compact JSON.
    """
    for number, item in enumerate(items):
        room -= len(compact(item if isinstance(item, str) else asdict(item))) + 1
        if room < 0:
            return max(1, number)
    return len(items)


def position(cursor: str, *, most: int) -> int:
    """Return the position that a cursor names: a number as an earlier answer gave it; 0 for none.

    Raises:
        ConfigurationError: The text is no cursor.
    """
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        problem = Problem("cursor", "is no cursor of an earlier answer.", 'Leave it out, or give "" for the beginning.')
        raise ConfigurationError([problem], subject="The call")
    return min(int(cursor), most)
