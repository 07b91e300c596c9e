"""The state of a running training in the title of the terminal, apart from the script's output."""

from __future__ import annotations

from typing import IO

from trackside.cli.terminal.text import printable
from trackside.contracts.english import counted
from trackside.local.run_now import RunNow

_SAVE, _RESTORE = "\x1b[22;0t", "\x1b[23;0t"  # a stack of titles, as xterm has it; others ignore both
_TITLE = "\x1b]0;{}\x07"


class StatusTitle:
    """Writes a title that moves no cursor and takes no line. The old one returns with `close`.

    Args:
        stream: The terminal.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._shown = ""

    def show(self, now: RunNow) -> None:
        """Write the state, if it has changed."""
        text = printable(title_of(now))
        if text == self._shown:
            return
        self._write(f"{'' if self._shown else _SAVE}{_TITLE.format(text)}")
        self._shown = text

    def close(self) -> None:
        """Restore the title that the terminal had before."""
        if self._shown:
            self._write(f"{_TITLE.format('')}{_RESTORE}")
            self._shown = ""

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal is gone: the next message finds out
            pass


def title_of(now: RunNow) -> str:
    """Return `step 120, loss 0.431, 23 rules, 1 problem - trackside`.

    Args:
        now: The state of the run.
    """
    if now.steps is None:
        return f"nothing captured yet, {counted(now.rules, 'rule')} - trackside"
    loss = "" if now.loss is None else f", loss {now.loss:.4g}"
    problems = f", {counted(now.problems, 'problem')}" if now.problems else ""
    return f"step {now.steps:,}{loss}, {counted(now.rules, 'rule')}{problems} - trackside"
