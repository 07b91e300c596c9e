"""Rescues seen from beside the training: what stands is handed to it, and what it does is shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from trackside.contracts.issue_group import issue_groups
from trackside.contracts.run.rescue import CURABLE_RULES, RescueRecord, RescueState
from trackside.contracts.run_layout import RESCUE, STANDING_ISSUES_KEY
from trackside.contracts.verdict import Severity, Verdict
from trackside.runs.rescues import read_rescue
from trackside.storage.open_store import open_store

STOP_SECONDS = 10.0  # for which a stop waits, so that the training may go back first


class RescueWatch:
    """The watch over rescues of one run.

    Args:
        folder: The folder of the run.
        note: Shows one line to the user.
        monotonic: Returns seconds.
    """

    def __init__(self, folder: Path, note: Callable[[str], None], *, monotonic: Callable[[], float]) -> None:
        self._folder, self._note, self._monotonic = folder, note, monotonic
        self._handed: str | None = None
        self._shown: RescueRecord | None = None
        self._held: list[tuple[Verdict, float]] = []  # issues whose stops wait, and until when

    def look(self, verdicts: Sequence[Verdict]) -> None:
        """Hand the critical issues that stand to the training, and show what it has done since the last look.

        Args:
            verdicts: All verdicts so far.
        """
        standing = [issue for group in issue_groups(verdicts) for issue in group.standing]
        critical = [issue for issue in standing if issue.severity is Severity.CRITICAL]
        text = json.dumps([{"rule": each.rule_id, "since_step": each.since_step} for each in critical])
        if text != self._handed and (critical or self._handed):
            folder = self._folder / RESCUE
            folder.mkdir(exist_ok=True)
            partial = folder / f"{STANDING_ISSUES_KEY}.{os.getpid()}.partial"
            partial.write_text(text, encoding="utf-8")
            partial.replace(folder / STANDING_ISSUES_KEY)
        self._handed = text
        self.look_at_record()

    def look_at_record(self) -> None:
        """Show what the training has done since the last look."""
        record = read_rescue(open_store(str(self._folder)))
        if record is not None and record != self._shown:
            self._shown = record
            if not record.is_about_to_start:
                self._note(f"{record.sentence()}.")

    def delays_stop(self, verdict: Verdict) -> bool:
        """Return True if a stop for an issue is to wait, as the training may yet go back, or has.

        Args:
            verdict: The issue.
        """
        if verdict.rule_id not in CURABLE_RULES or self._is_over:
            return False
        self._held.append((verdict, self._monotonic() + STOP_SECONDS))
        return True

    def due_stop(self) -> Verdict | None:
        """Return an issue for which a delayed stop is due, once; None while each waits, or is cured."""
        shown, now = self._shown, self._monotonic()
        if shown is not None and shown.state is RescueState.RESCUED:
            self._held = [held for held in self._held if not shown.covers(held[0].since_step)]
        for held in self._held:
            verdict, until = held
            is_met = shown is not None and shown.covers(verdict.since_step)
            if not is_met and (now >= until or self._is_over):
                self._held.remove(held)
                return verdict
        return None

    @property
    def _is_over(self) -> bool:
        """True once the training goes back no more."""
        return self._shown is not None and self._shown.state in (
            RescueState.LOST,
            RescueState.REFUSED,
            RescueState.OFF,
        )
