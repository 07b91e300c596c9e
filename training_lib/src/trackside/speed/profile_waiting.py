"""The wait for a profile that was requested of a training that goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

from trackside.contracts.run_layout import PROFILES
from trackside.speed.performance.details import PYTHON, Detail, read_details
from trackside.storage.open_store import open_store

LOOK_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 180.0


def wait_for_profile(
    uri: str,
    before: list[Detail],
    *,
    has_ended: Callable[[], bool],
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> bool:
    """Wait until a profile of Python functions, the last kind, is newer than before. Return False if none came.

    Args:
        uri: The location of the run.
        before: Profiles before the request.
        has_ended: Returns True once the training has ended.
        monotonic: Returns seconds.
        sleep: Waits so many seconds.
    """
    store = open_store(f"{uri}/{PROFILES}")
    known = {(one.kind, one.worker, one.file) for one in before}
    until = monotonic() + LONGEST_WAIT_SECONDS
    while monotonic() < until:
        is_over = has_ended()
        news = [one for one in read_details(store) if (one.kind, one.worker, one.file) not in known]
        if any(one.kind == PYTHON for one in news):  # operators come first, if the framework has any
            return True
        if is_over:
            return bool(news)
        sleep(LOOK_SECONDS)
    return False
