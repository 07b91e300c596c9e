"""How long tests wait for what must happen: so long that only a hang takes longer, on any machine.

A bound is never what a test is about. It fails what hangs, with a message, instead of holding up the suite for good.
Slow machines, busy ones and cold disks stay a hundred times below it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

HANGS_SECONDS = 600.0


def wait_until(is_so: Callable[[], Any], what: str = "what the test waits for", *, look_seconds: float = 0.01) -> Any:
    """Look until `is_so()` is true, and return what it returned. For what other processes and threads do."""
    deadline = time.monotonic() + HANGS_SECONDS
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"{what} has not happened within {HANGS_SECONDS:g} s"
        time.sleep(look_seconds)
    return found


@contextmanager
def ends_early() -> Iterator[None]:
    """Fail where the block waits to the end of a wait of `HANGS_SECONDS`, instead of being woken."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < HANGS_SECONDS / 2, "it waited to the end"
