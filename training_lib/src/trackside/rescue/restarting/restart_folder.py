"""The files in a run's folder that a start from a checkpoint reads and writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run.rescue import Issue, RescueRecord, RescueState
from trackside.contracts.run.restart import ENDED_PREFIX, ORDER_KEY, RESTART, Order, Report
from trackside.contracts.run_layout import RESCUE, RESTARTS_KEY, RULE_OUTPUT, STANDING_ISSUES_KEY, TENSORS
from trackside.local.run_now import steps_of, watermarks_of
from trackside.records.checkpoints_file import checkpoint_workers, read_checkpoints
from trackside.runs.capture_check import rule_progress
from trackside.storage.open_store import open_store


class RestartFolder:
    """The files of one run.

    Attributes:
        name: Name of the run.
        order_path: File of what the next process is to leave out.

    Args:
        folder: The folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.name = folder, folder.name
        self.order_path = folder / RESTART / ORDER_KEY

    def record(self) -> RescueRecord:
        """Return the record; one without tries if none is stored."""
        try:
            return RescueRecord.from_json((self._folder / RESCUE / RESTARTS_KEY).read_bytes())
        except (OSError, ConfigurationError):
            return RescueRecord(RescueState.TRYING)

    def store(self, record: RescueRecord) -> None:
        """Store the record. Errors: `OSError`."""
        _write_whole(self._folder / RESCUE / RESTARTS_KEY, record.to_json())

    def order(self) -> Order | None:
        """Return what the newest process was started for; None for the first one."""
        try:
            return Order.from_json(self.order_path.read_bytes())
        except (OSError, ConfigurationError):
            return None

    def give(self, order: Order) -> None:
        """Store what the next process is started for. Errors: `OSError`."""
        _write_whole(self.order_path, order.to_json())

    def reports(self, prefix: str = "") -> list[Report]:
        """Return the reports of all ranks: the newest ones, or with `ENDED_PREFIX` those at the end of each."""
        found = []
        for path in self._report_paths(prefix):
            try:
                found.append(Report.from_json(path.read_bytes()))
            except (OSError, ConfigurationError):
                continue
        return found

    def forget_reports(self) -> None:
        """Delete the reports. Errors: `OSError`."""
        for path in (*self._report_paths(), *self._report_paths(ENDED_PREFIX)):
            path.unlink(missing_ok=True)

    def standing(self) -> list[Issue]:
        """Return the critical issues that stand."""
        try:
            found = json.loads((self._folder / RESCUE / STANDING_ISSUES_KEY).read_bytes())
            return [Issue(str(each["rule"]), int(each["since_step"])) for each in found]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def checkpoints(self) -> list[Checkpoint]:
        """Return the files of checkpoints that the script wrote and has not deleted. Errors: the store's."""
        store = open_store(f"{self._folder}/{TENSORS}")
        found = [one for worker in checkpoint_workers(store) for one in read_checkpoints(store, worker)]
        return [one for one in found if os.path.exists(one.path)]

    def steps(self) -> int:
        """Return the number of training steps of the run that have ended; 0 if unknown."""
        return steps_of(watermarks_of(str(self._folder))) or 0

    def is_judged(self, step: int) -> bool:
        """Return True if each rule has judged a step. Errors: the store's."""
        progress = rule_progress(open_store(f"{self._folder}/{RULE_OUTPUT}"))
        return bool(progress) and all(one.judged_through >= step for one in progress.values())

    def _report_paths(self, prefix: str = "") -> list[Path]:
        return sorted((self._folder / RESTART).glob(f"{prefix}worker_*.json"))


def _write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Errors: `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
