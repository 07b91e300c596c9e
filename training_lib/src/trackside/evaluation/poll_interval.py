"""The interval between two looks at a run: short while its steps are quick, long while one takes minutes."""

from __future__ import annotations

import math

LONGEST_SECONDS = 10.0
POLLS_BETWEEN_STEPS = 12.0
AFTER_AN_ISSUE_SECONDS = 10.0  # of looks at four times the pace: a warning may become critical within a few steps
FASTER_AFTER_AN_ISSUE = 4.0


class PollInterval:
    """The pause between two looks.

    It is a twelfth of the time that passed between the last two new steps, or since the last one where that is longer:
    so a step is noticed within a tenth of its own time, and a run that stands still is polled rarely. For ten seconds
    after an issue was found it is a quarter of the shortest pause.

    Args:
        shortest_seconds: The pause while steps are quick.
        longest_seconds: The pause at most; where it is not above the shortest, every pause is that one.
        now: Seconds, of the same clock as in the calls.
    """

    def __init__(self, *, shortest_seconds: float, longest_seconds: float, now: float) -> None:
        self._shortest, self._longest = shortest_seconds, longest_seconds
        self._news_at, self._gap = now, 0.0
        self._issue_at = -math.inf

    def note_new_steps(self, now: float) -> None:
        """Store the time at which new steps were found."""
        self._gap, self._news_at = now - self._news_at, now

    def note_issue(self, now: float) -> None:
        """Store the time at which an issue was found."""
        self._issue_at = now

    def pause_seconds(self, now: float) -> float:
        """Return the number of seconds to wait before the next look."""
        if now - self._issue_at < AFTER_AN_ISSUE_SECONDS:
            return self._shortest / FASTER_AFTER_AN_ISSUE
        wanted = max(self._gap, now - self._news_at) / POLLS_BETWEEN_STEPS
        return max(self._shortest, min(wanted, self._longest))
