"""Keeps calls of SageMaker's control plane apart, because it takes only few a second from all callers together.

The rate of a function is that of one process times the number that may run at a time (the queue's MaximumConcurrency),
so nothing must be shared: a process keeps its own calls `pause_milliseconds` apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from aws_lambda_powertools.utilities.typing import LambdaContext

KEPT_MILLISECONDS = 10_000  # for the call itself and the work after it: with less left, no call waits

_last: dict[str, float] = {}


def pace(
    what: str,
    *,
    pause_milliseconds: int,
    context: LambdaContext,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the next call of that kind is due."""
    due = _last.get(what, float("-inf")) + pause_milliseconds / 1000
    wait = min(due - clock(), (context.get_remaining_time_in_millis() - KEPT_MILLISECONDS) / 1000)
    if wait > 0:
        sleep(wait)
    _last[what] = clock()
