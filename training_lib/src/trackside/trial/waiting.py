"""Waiting for a growing run: until its next complete step, or its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class GrowingRun(Protocol):
    """The part of a trial that waiting needs."""

    def refresh(self) -> None:
        """Read what is new."""

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
    """Complete saved steps above `after`, ascending, as soon as there is one; none once the run has ended without.

    Asks at once, then every `poll_seconds`. Also returns, with none, when `should_stop` says so. Errors: those of the
    store.
    """
    while True:
        trial.refresh()
        steps = trial.new_saved_steps(after)
        if steps or trial.has_ended or should_stop():
            return steps
        sleep(poll_seconds)
