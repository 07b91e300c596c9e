"""A guard that outlives the account: it kills the processes of an account that was itself killed."""

from __future__ import annotations

import subprocess
import sys
import threading

# Reads `+pid` and `-pid` until its input ends, which it does with the account's process, however that ended.
_GUARD = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class OrphanKiller:
    """A process that waits for the end of this one, and then kills the registered process groups.

    It is a session of its own, so Ctrl-C and the end of a terminal do not reach it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-u", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def add(self, group: int) -> None:
        """Kill this process group, if the account does not end it."""
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        """This process group has ended."""
        self._write(f"-{group}\n")

    def close(self) -> None:
        """End the guard: every process has ended."""
        with self._lock:
            self._process.communicate()

    def _write(self, line: str) -> None:
        with self._lock:
            if self._process.stdin and not self._process.stdin.closed:
                self._process.stdin.write(line)
                self._process.stdin.flush()
