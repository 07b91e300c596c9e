"""The report of steps that a worker could not save: a small JSON file in the run, written only if something was lost.

{"version": 1, "saved_steps": 120, "lost_steps": 3, "lost": [{"step": 17, "why": "storage is slow"}, ...]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.run_layout import CAPTURE_REPORT_PREFIX, capture_report_key
from trackside.records.untrusted_json import UntrustedJson
from trackside.storage.store import Store

VERSION = 1


@dataclass(frozen=True)
class LostStep:
    """A step of which nothing is stored, and the reason."""

    step: int
    why: str


@dataclass(frozen=True)
class CaptureReport:
    """The numbers of steps that a worker has saved and lost, in all its processes.

    `lost` may hold fewer than `lost_steps`.
    """

    saved_steps: int
    lost_steps: int
    lost: Sequence[LostStep] = ()

    def followed_by(self, later: CaptureReport) -> CaptureReport:
        """Return the sum of this report and that of a process that continued the run."""
        return CaptureReport(
            self.saved_steps + later.saved_steps, self.lost_steps + later.lost_steps, (*self.lost, *later.lost)
        )


def encode_report(report: CaptureReport) -> bytes:
    """Return the file's content."""
    document = {
        "version": VERSION,
        "saved_steps": report.saved_steps,
        "lost_steps": report.lost_steps,
        "lost": [{"step": lost.step, "why": lost.why} for lost in report.lost],
    }
    return json.dumps(document).encode("ascii")


def decode_report(data: bytes, *, key: str) -> CaptureReport:
    """Return the report in a file. Unknown fields are ignored.

    Raises:
        RecordError: The file is no report.
    """
    document = UntrustedJson.parse(data, key=key)
    return CaptureReport(
        saved_steps=document.count("saved_steps"),
        lost_steps=document.count("lost_steps"),
        lost=tuple(LostStep(lost.count("step"), lost.text("why")) for lost in document.objects("lost")),
    )


def reporting_workers(store: Store) -> tuple[str, ...]:
    """Return the workers that have lost anything.

    Raises:
        StorageError: The store failed.
    """
    names = (key.removeprefix(CAPTURE_REPORT_PREFIX).removesuffix(".json") for key in store.list(CAPTURE_REPORT_PREFIX))
    return tuple(name for name in names if name and "/" not in name)


def read_report(store: Store, worker: str) -> CaptureReport:
    """Return the worker's report so far, or an empty one.

    Raises:
        RecordError: The report cannot be read.
        StorageError: The store failed.
    """
    key = capture_report_key(worker)
    try:
        return decode_report(store.get(key), key=key)
    except KeyNotFoundError:
        return CaptureReport(0, 0)
