"""Waiting for a growing run: until its next complete step, or its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trackside.trial.trial import Trial


def wait_for_steps(
    trial: Trial,
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
