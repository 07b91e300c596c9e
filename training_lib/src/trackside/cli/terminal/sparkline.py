"""A series of numbers as a few characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-=+*%#"
NOT_A_NUMBER = "×"
ASCII_NOT_A_NUMBER = "?"
_SMALLEST_SPAN = 0.25  # of the largest magnitude: below, a wobble must not look like a mountain
_LOG_SCALE_FROM = 100.0  # ratio of the largest to the smallest from which equal steps would hide the small ones


def sparkline(values: Sequence[float], *, ascii_only: bool = False) -> str:
    """Return one character for each value. Infinities have the lowest or highest bar, NaN a character of its own."""
    blocks, nan = (ASCII_BLOCKS, ASCII_NOT_A_NUMBER) if ascii_only else (BLOCKS, NOT_A_NUMBER)
    scaled = (
        [math.log10(value) if _is_positive(value) else value for value in values] if is_log_scaled(values) else values
    )
    peak = max((abs(value) for value in scaled if math.isfinite(value)), default=0.0) or 1.0
    scaled = [value / peak for value in scaled]  # so that no difference below can overflow
    finite = [value for value in scaled if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    if not is_log_scaled(values):
        low, high = _widened(low, high)
    return "".join(nan if math.isnan(value) else blocks[_level(value, low, high, len(blocks))] for value in scaled)


def is_log_scaled(values: Sequence[float]) -> bool:
    """Return True if the finite values are all positive and span more than two decades."""
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and min(finite) > 0 and max(finite) / min(finite) > _LOG_SCALE_FROM


def _is_positive(value: float) -> bool:
    return value > 0 and math.isfinite(value)


def _widened(low: float, high: float) -> tuple[float, float]:
    missing = _SMALLEST_SPAN * max(abs(low), abs(high)) - (high - low)
    return (low - missing / 2, high + missing / 2) if missing > 0 else (low, high)


def _level(value: float, low: float, high: float, levels: int) -> int:
    if math.isinf(value):
        return levels - 1 if value > 0 else 0
    if high == low:
        return 0
    share = (value - low) / (high - low)
    return min(levels - 1, max(0, int(share * levels)))
