"""The steps to try for a problem: the fixes of its likeliest causes, then the rule's general advice, each once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trackside.contracts.cause import Suspicion
from trackside.contracts.verdict import Verdict

MOST_STEPS = 4
ALIKE = 0.8  # share of the words of an advice that make it another one over again
FIRST_WORDS = 3  # that name the act and its object: an advice with those of another one is the other one over again

_SMALL_WORDS = frozenset(
    ["a", "an", "and", "as", "by", "each", "for", "from", "in", "is", "it", "its", "of", "on", "or", "so", "the", "to"]
)


def steps_to_try(verdict: Verdict, suspicions: Sequence[Suspicion], *, most: int = MOST_STEPS) -> tuple[str, ...]:
    """Return the fixes for the likeliest causes, then the rule's general advice; each once.

    Args:
        verdict: The leading issue.
        suspicions: The causes by all evidence, likeliest first.
        most: The greatest number of steps.
    """
    kept: list[str] = []
    for step in (*(one.explanation.fix for one in suspicions[:2]), *verdict.what_to_do):
        if not any(_are_alike(step, other) for other in kept):
            kept.append(step)
    return tuple(kept[:most])


def _are_alike(one: str, other: str) -> bool:
    """Return True if both name the same act, or nearly all words of the shorter one are in the longer one."""
    words, others = _words(one), _words(other)
    if not set(words[:FIRST_WORDS]) - set(others) or not set(others[:FIRST_WORDS]) - set(words):
        return True
    return len(set(words) & set(others)) >= ALIKE * min(len(set(words)), len(set(others)))


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in _SMALL_WORDS]
