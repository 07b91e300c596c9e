"""What a worker could not save: a small JSON file in the run, which is there only if something was lost.

{"version": 1, "saved_steps": 120, "lost_steps": 3, "lost": [{"step": 17, "why": "storage is slow"}, ...]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from trackside.records.untrusted_json import UntrustedJson

VERSION = 1


@dataclass(frozen=True)
class LostStep:
    """A step of which nothing is stored, and why."""

    step: int
    why: str


@dataclass(frozen=True)
class CaptureReport:
    """How much a worker saved and lost, in the process that wrote it. `lost` may hold fewer than `lost_steps`."""

    saved_steps: int
    lost_steps: int
    lost: Sequence[LostStep] = ()


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
