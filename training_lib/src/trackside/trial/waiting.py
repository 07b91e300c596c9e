"""Waiting for a growing run: until its next complete step, or its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class GrowingRun(Protocol):
    """The part of a trial that waiting needs."""

    def refresh(self) -> None:
        """Read new data."""

    def new_saved_steps(self, after: int) -> Sequence[int]:
        """Return the complete saved steps above `after`, ascending."""

    @property
    def has_ended(self) -> bool:
        """True once the run will never write again and everything has been read."""


def wait_for_steps(
    trial: GrowingRun,
    *,
    after: int,
    poll_seconds: float,
    sleep: Callable[[float], object],
    should_stop: Callable[[], bool] = lambda: False,
) -> Sequence[int]:
    """Return the complete saved steps above `after`, ascending, as soon as one exists; () if the run ended without one.

    Looks at once, then every `poll_seconds`. Also returns, without steps, once `should_stop` returns True. Errors:
    those of the store.
    """
    while True:
        trial.refresh()
        steps = trial.new_saved_steps(after)
        if steps or trial.has_ended or should_stop():
            return steps
        sleep(poll_seconds)
