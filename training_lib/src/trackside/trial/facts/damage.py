"""Damage of a run: files that could not be read, and steps that capture lost."""

from __future__ import annotations

from trackside.contracts.errors import RecordError
from trackside.records.capture_report import CaptureReport, read_report, reporting_workers
from trackside.storage.store import Store


class Damage:
    """The files of a run that could not be read, each reported once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._errors: dict[str, RecordError] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._errors

    def __bool__(self) -> bool:
        return bool(self._errors)

    @property
    def errors(self) -> tuple[RecordError, ...]:
        """The first error of each file, in the order found."""
        return tuple(self._errors.values())

    def report(self, error: RecordError) -> None:
        """Keep an error, unless its file has one."""
        self._errors.setdefault(error.key, error)

    def lost_steps(self) -> dict[str, CaptureReport]:
        """Return the capture report of each worker that has one, read anew."""
        reports = {}
        for worker in reporting_workers(self._store):
            try:
                reports[worker] = read_report(self._store, worker)
            except RecordError as error:
                self.report(error)
        return reports
