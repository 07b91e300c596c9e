"""Durations as text, for every view of a run's speed."""

from __future__ import annotations


def milliseconds(seconds: float) -> str:
    """Return the duration of a step or phase in milliseconds; in seconds from one second on."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def duration(seconds: float) -> str:
    """Return the duration of a part of a run in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
