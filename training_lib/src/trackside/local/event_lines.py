"""The events of a run as JSON, a line each, for programs that started it: problems, notes, the end."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.issue_group import IssueGroup
from trackside.local.passing_observer import PassingObserver
from trackside.local.run import LocalRunResult, Observer
from trackside.runs.run_document import problem_document
from trackside.runs.source_text import SourceText

SCHEMA_VERSION = 1
STDERR = "-"


def checked_target(target: str | None) -> str | None:
    """Return the target of the lines, if lines can be added to it.

    Args:
        target: A file; "-" for stderr; None for no lines.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    if target is None or target == STDERR:
        return target
    try:
        Path(target).open("a", encoding="utf-8").close()
    except OSError as error:
        problem = Problem(target, f"cannot be written: {error.strerror}.", "Name a file in a folder that exists.")
        raise ConfigurationError([problem], subject="--json-lines") from error
    return target


class EventLines(PassingObserver):
    """An observer that also writes each problem, when it is new or changed, and each note as a line of JSON.

    observer  shows everything to the user, a failure to write too
    target    a file, to which lines are added; "-" for stderr
    run       folder of the run
    clock     returns seconds since the epoch
    """

    def __init__(self, observer: Observer, target: str, *, run: str, clock: Callable[[], float] = time.time) -> None:
        super().__init__(observer)
        self._target, self._run, self._clock = target, run, clock
        self._sources = SourceText(run)
        self._written: dict[str, dict[str, Any]] = {}
        self._has_failed = False

    def begin(self, *, rules: int) -> None:
        """Write the first line.

        Args:
            rules: Number of rules that judge the run.
        """
        self._write({"event": "start", "run": self._run, "rules": rules})

    def note(self, text: str) -> None:
        """Show one line, and write it."""
        super().note(text)
        self._write({"event": "note", "text": text})

    def issue(self, group: IssueGroup) -> None:
        """Show a problem, and write it if it is new or differs from the line before."""
        super().issue(group)
        document = problem_document(group, self._sources)
        if self._written.get(group.group) != document:
            self._written[group.group] = document
            self._write({"event": "problem", **document})

    def end(self, result: LocalRunResult, *, exit_code: int) -> None:
        """Write the last line."""
        judged = result.judged
        self._write(
            {
                "event": "end",
                "run": self._run,
                "exit_code": exit_code,
                "training_exit_code": result.training_code,
                "steps": result.training_steps,
                "is_judged": judged.is_judged,
                "reservation": judged.reservation,
                "stopped": result.was_stopped,
                "rescued": result.rescue is not None and result.rescue.is_rescued,
                "problems": list(self._written),
            }
        )

    def _write(self, event: Mapping[str, Any]) -> None:
        """Write a line. The first failure is shown, and the training goes on."""
        if self._has_failed:
            return
        try:
            self._append(event)
        except OSError as error:
            self._has_failed = True
            self._observer.note(f"--json-lines {self._target}: {error.strerror}. No more lines are written.")

    def _append(self, event: Mapping[str, Any]) -> None:
        line = json.dumps({"schema_version": SCHEMA_VERSION, "at": self._clock(), **event}, allow_nan=False) + "\n"
        if self._target == STDERR:
            sys.stderr.write(line)
            sys.stderr.flush()
            return
        with Path(self._target).open("a", encoding="utf-8") as file:
            file.write(line)
