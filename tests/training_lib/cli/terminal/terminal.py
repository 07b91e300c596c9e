"""A command on a terminal of its own: 80 columns, 24 rows, keys, and what it writes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

from tests.patience import HANGS_SECONDS, wait_until
from trackside.environment import inherited

ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    """Runs `trackside` on a pseudo-terminal. `written` grows as it writes."""

    def __init__(self, *arguments: str, cwd: Path, columns: int = 80, rows: int = 24) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._theirs = theirs
        self.written = ""
        environment = {**inherited(), "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trackside", *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - so that Ctrl-C is a signal
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Wait until it has written `text`."""
        wait_until(lambda: text in self.written or self._process.poll() is not None, f"{text!r} on the terminal")
        assert text in self.written, self.written

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Wait for its end and return its exit status."""
        status = self._process.wait(HANGS_SECONDS)
        os.close(self._theirs)
        self._reader.join(HANGS_SECONDS)
        return status

    def waits_for_enter(self) -> bool:
        """Return True if keys are kept until Enter, as a shell leaves its terminal."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.ICANON)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self.end()
        os.close(self._ours)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # nobody writes to it any more
                return
            if not data:
                return
            self.written += data.decode("utf-8", "replace")
