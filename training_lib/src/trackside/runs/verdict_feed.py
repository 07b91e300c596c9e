"""The new verdicts of a run: follows a growing `verdicts.jsonl`, and returns each verdict once."""

from __future__ import annotations

import logging
from pathlib import Path

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.verdict import Verdict

_logger = logging.getLogger(__name__)


class VerdictFeed:
    """A growing file of verdicts, appended to or replaced by a longer one.

    A line counts once it ends with a newline.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._printed: dict[str, Verdict] = {}

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every verdict so far, oldest first."""
        return tuple(self._printed.values())

    def news(self) -> tuple[Verdict, ...]:
        """Return the verdicts since the last call. A verdict that a restarted evaluator writes again is left out."""
        return tuple(verdict for verdict in read_verdicts(self._new_lines()) if self._is_new(verdict))

    def _is_new(self, verdict: Verdict) -> bool:
        is_new = verdict.verdict_id not in self._printed
        self._printed.setdefault(verdict.verdict_id, verdict)
        return is_new

    def _new_lines(self) -> bytes:
        try:
            size = self._path.stat().st_size
            if size == self._read_bytes:
                return b""
            with self._path.open("rb") as file:
                file.seek(self._read_bytes if size > self._read_bytes else 0)
                data = file.read()
                complete = data[: data.rfind(b"\n") + 1]
                self._read_bytes = file.tell() - len(data) + len(complete)
        except FileNotFoundError:  # nothing has been judged yet
            return b""
        return complete


def read_verdicts(lines: bytes) -> tuple[Verdict, ...]:
    """Return the verdicts in the lines of a `verdicts.jsonl`. A line without one is logged and ignored."""
    verdicts = []
    for line in lines.split(b"\n"):
        if not line.strip():
            continue
        try:
            verdicts.append(Verdict.from_json(line.decode("utf-8", errors="replace")))
        except ConfigurationError as error:
            _logger.warning("A line of verdicts.jsonl cannot be read: %s", error)
    return tuple(verdicts)
