"""The words for the probability of an issue."""

from __future__ import annotations

LIKELY, ALMOST_CERTAIN = 0.6, 0.95  # probabilities from which an issue is called so


def is_real(probability: float) -> str:
    """Return the clause of a card: the probability is that of the problem, and each cause has its own.

    Args:
        probability: From 0 to 1.
    """
    return f"{in_words(probability)} ({probability:.0%}), whatever its cause"


def in_words(probability: float) -> str:
    """Return `possible`, `likely` or `almost certain`.

    Args:
        probability: From 0 to 1.
    """
    if probability >= ALMOST_CERTAIN:
        return "almost certain"
    return "likely" if probability >= LIKELY else "possible"
