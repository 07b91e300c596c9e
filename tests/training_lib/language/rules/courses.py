"""Numbers as trainers log them, for tables of cases: with noise from log to log, the same each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.training_lib.rules.columns import along
from trackside.contracts.run.language_numbers import LanguageNumber


def noisy(first: float, last: float, count: int = 120, *, noise: float = 0.02, seed: int = 0) -> list[float]:
    """Numbers on a line from the first to the last, with noise."""
    drawn = np.random.default_rng(seed).normal(0, noise, count)
    return [float(x) for x in np.linspace(first, last, count) + drawn]


def to_a_level(first: float, last: float, count: int = 120, *, noise: float = 0.02, seed: int = 0) -> list[float]:
    """Numbers that go to a level within a quarter of the logs, with noise."""
    drawn = np.random.default_rng(seed).normal(0, noise, count)
    return [float(x) for x in last + (first - last) * np.exp(-np.arange(count) * 16 / count) + drawn]


def logged(numbers: Mapping[LanguageNumber, Sequence[float]], *, every: int = 1) -> dict[str, Any]:
    """Return statistics as recorded, for `RuleCase(recorded=...)`."""
    return {number.recorded: {"mean": along(values, every=every)} for number, values in numbers.items()}


def kept(value: float, count: int = 120) -> list[float]:
    """The same in each log."""
    return [value] * count


def joined(*parts: Iterable[float]) -> list[float]:
    """One part after the other."""
    return [value for part in parts for value in part]
