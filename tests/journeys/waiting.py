"""How journeys wait: until the account tells of something new, with a limit that fits the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trackside_localaccount.server import LocalAccount
from trackside_localaccount.start_time import MOST_STARTS, is_late

_LOOK_AGAIN_SECONDS = 0.5  # for what the journal does not have: an alarm's look, a row that an evaluator writes


def eventually(account: LocalAccount, is_so: Callable[[], Any], what: str, *, starts: float = MOST_STARTS) -> Any:
    """Return what `is_so` returns, once that is true. It is asked again when the account's journal has more.

    Errors: `AssertionError` with `what` and the newest entries when it takes longer than `starts` starts of a program.
    """
    began = time.monotonic()
    read = len(account.hops)
    while not (answer := is_so()):
        seconds = time.monotonic() - began
        newest = "\n".join(f"  {hop}" for hop in list(account.hops)[-20:])
        assert not is_late(seconds, starts=starts), f"not within {seconds:.0f} s: {what}; the newest hops:\n{newest}"
        account.hops.after(read, within_seconds=_LOOK_AGAIN_SECONDS)
        read = len(account.hops)
    return answer
