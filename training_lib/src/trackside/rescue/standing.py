"""The critical issues that rules have found and that stand, as `trackside run` hands them to the training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import NamedTuple

from trackside.contracts.errors import TracksideError
from trackside.contracts.run.rescue import CURABLE_RULES
from trackside.contracts.run_layout import STANDING_ISSUES_KEY
from trackside.rescue.health import BY_RULE, Fault
from trackside.storage.store import Store

_SECONDS = 0.5  # between two looks


class _Issue(NamedTuple):
    rule: str
    since_step: int


class StandingIssues:
    """Reads the issues, and answers questions about them.

    Args:
        open_folder: Opens the store of the folder that holds them.
        clock: Returns seconds.
    """

    def __init__(self, open_folder: Callable[[], Store], *, clock: Callable[[], float]) -> None:
        self._open_folder, self._clock = open_folder, clock
        self._issues: list[_Issue] = []
        self._read_at = -math.inf

    def contradict(self, steps: int) -> bool:
        """Return True if an issue of broken numbers began before a moment after so many steps."""
        return any(each.rule in CURABLE_RULES and each.since_step < steps for each in self._read())

    def fault_since(self, steps: int) -> Fault | None:
        """Return the fault of an issue that began at a moment after so many steps, or later."""
        for each in self._read():
            if each.rule in CURABLE_RULES and steps <= each.since_step:
                return Fault(BY_RULE, each.since_step, f"{each.rule} stands since step {each.since_step}")
        return None

    def incurable_before(self, steps: int) -> str:
        """Return a clause about an issue before so many steps that going back does not cure; "" for none."""
        for each in self._read():
            if each.rule not in CURABLE_RULES and each.since_step < steps:
                return f"{each.rule} stands since step {each.since_step}, which an earlier moment does not cure"
        return ""

    def _read(self) -> list[_Issue]:
        now = self._clock()
        if now - self._read_at >= _SECONDS:
            self._read_at = now
            try:
                found = json.loads(self._open_folder().get(STANDING_ISSUES_KEY))
                self._issues = [_Issue(str(each["rule"]), int(each["since_step"])) for each in found]
            except (TracksideError, OSError, ValueError, KeyError, TypeError):
                pass  # nothing was found yet
        return self._issues
