"""The numbers that stand for modes on disk."""

from __future__ import annotations

MODE_NUMBERS = {"TRAIN": 1, "EVAL": 2, "PREDICT": 3, "GLOBAL": 4}
MODE_NAMES = {number: name for name, number in MODE_NUMBERS.items()}


def checked_mode(mode: str) -> str:
    """Return the mode itself.

    Raises:
        ValueError: It is no mode.
    """
    if mode not in MODE_NUMBERS:
        raise ValueError(f"{mode!r} is not a mode. Modes: {', '.join(MODE_NUMBERS)}.")
    return mode
