"""Verdicts as they are written: follows a growing `verdicts.jsonl`, and says each verdict once."""

from __future__ import annotations

import logging
from pathlib import Path

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.verdict import Verdict

_logger = logging.getLogger(__name__)


class VerdictFeed:
    """The file may be appended to or replaced by a longer one; a line counts once its newline is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._said: dict[str, Verdict] = {}

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every verdict so far, oldest first."""
        return tuple(self._said.values())

    def news(self) -> tuple[Verdict, ...]:
        """Verdicts that were not there at the last call; one that a restarted evaluator says again is not news."""
        return tuple(verdict for verdict in read_verdicts(self._new_lines()) if self._is_new(verdict))

    def _is_new(self, verdict: Verdict) -> bool:
        is_new = verdict.verdict_id not in self._said
        self._said.setdefault(verdict.verdict_id, verdict)
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
    """The verdicts in the lines of a `verdicts.jsonl`; a line that is none is logged and passed over."""
    verdicts = []
    for line in lines.split(b"\n"):
        if not line.strip():
            continue
        try:
            verdicts.append(Verdict.from_json(line.decode("utf-8", errors="replace")))
        except ConfigurationError as error:
            _logger.warning("A line of verdicts.jsonl cannot be read: %s", error)
    return tuple(verdicts)
