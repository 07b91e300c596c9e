"""A part of the writer thread that stores what was added, soon, and tries again where that fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

_IDLE_SECONDS = 60.0
_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 5.0


class RetriedPart(ABC):
    """A `BackgroundPart` with a `flush` that keeps what it could not store.

    Args:
        monotonic: Returns seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._retry_at = 0.0

    @property
    @abstractmethod
    def has_news(self) -> bool:
        """True if anything is to be stored."""

    @abstractmethod
    def flush(self) -> None:
        """Store the news; see `BackgroundPart`."""

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the next flush or attempt; see `BackgroundPart`."""
        return max(_WAIT_SECONDS, self._retry_at - self._monotonic()) if self.has_news else _IDLE_SECONDS

    def flush_if_due(self) -> bool:
        """Store the news, if it is time; see `BackgroundPart`."""
        if not self.has_news or self._monotonic() < self._retry_at:
            return False
        self._retry_at = self._monotonic() + _RETRY_SECONDS  # unless it succeeds
        self.flush()
        self._retry_at = 0.0
        return True

    def close(self) -> None:
        """Store the rest; see `BackgroundPart`."""
        self.flush()
