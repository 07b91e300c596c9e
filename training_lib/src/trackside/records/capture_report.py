"""What a worker could not save: a small JSON file in the run, which is there only if something was lost.

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
    """A step of which nothing is stored, and why."""

    step: int
    why: str


@dataclass(frozen=True)
class CaptureReport:
    """How much a worker has saved and lost, in all its processes. `lost` may hold fewer than `lost_steps`."""

    saved_steps: int
    lost_steps: int
    lost: Sequence[LostStep] = ()

    def followed_by(self, later: CaptureReport) -> CaptureReport:
        """This one and that of a process that has gone on with the run."""
        return CaptureReport(
            self.saved_steps + later.saved_steps, self.lost_steps + later.lost_steps, (*self.lost, *later.lost)
        )


def encode_report(report: CaptureReport) -> bytes:
    """The file's content."""
    document = {
        "version": VERSION,
        "saved_steps": report.saved_steps,
        "lost_steps": report.lost_steps,
        "lost": [{"step": lost.step, "why": lost.why} for lost in report.lost],
    }
    return json.dumps(document).encode("ascii")


def decode_report(data: bytes, *, key: str) -> CaptureReport:
    """Reads a report, passing over fields it does not know. Errors: `RecordError` if it is none."""
    document = UntrustedJson.parse(data, key=key)
    return CaptureReport(
        saved_steps=document.count("saved_steps"),
        lost_steps=document.count("lost_steps"),
        lost=tuple(LostStep(lost.count("step"), lost.text("why")) for lost in document.objects("lost")),
    )


def reporting_workers(store: Store) -> tuple[str, ...]:
    """The workers that have lost anything. Errors: `OSError` of the store."""
    names = (key.removeprefix(CAPTURE_REPORT_PREFIX).removesuffix(".json") for key in store.list(CAPTURE_REPORT_PREFIX))
    return tuple(name for name in names if name and "/" not in name)


def read_report(store: Store, worker: str) -> CaptureReport:
    """What the worker has reported so far; nothing lost if there is no report.

    Errors: `RecordError` if there is one that cannot be read; `OSError` of the store.
    """
    key = capture_report_key(worker)
    try:
        return decode_report(store.get(key), key=key)
    except KeyNotFoundError:
        return CaptureReport(0, 0)
