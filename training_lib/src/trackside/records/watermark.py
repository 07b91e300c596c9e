"""A worker's watermark: the step through which it has stored everything that it will ever store.

    {"version": 1, "worker": "worker_0", "workers": 2, "started_ms": 1763805000000, "sequence": 17, "through": 1839,
     "mode_steps": {"TRAIN": 1800, "EVAL": 38}, "stored_at": 1763806000.25, "is_final": false,
     "saved_steps": 5, "collections": 1, "model_facts": 1,
     "segments": ["worker_0/1763805000000-000000098-000000098.tss"]}

A small object that is replaced with each flush, after everything that it covers is stored. The format:
docs/formats/watermark.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.contracts.errors import RecordError
from trackside.contracts.run_layout import SegmentName
from trackside.records.modes import MODE_NUMBERS, checked_mode
from trackside.records.untrusted_json import UntrustedJson

VERSION = 1
NOTHING_YET = -1
MOST_SEGMENTS = 8
MOST_BYTES = 64 << 10
MOST_WORKERS = 1 << 16


@dataclass(frozen=True)
class Watermark:
    """The progress of one worker's storing.

    Attributes:
        worker: The name of the worker.
        workers: Number of workers of the run that have a watermark, this one included.
        started_ms: Start of the writing process, in milliseconds since the epoch; it differs between two processes.
        sequence: Number of this watermark among those of this worker, over all its processes.
        through: Of this step and all before it, everything is stored; -1 before the first step has ended.
        mode_steps: The last step of each mode at or below `through`, as counted within the mode.
        stored_at: Time of its making, by the worker's clock, in seconds since the epoch. Other clocks may differ.
        is_final: This process will store nothing more; a later process of the run may.
        saved_steps: Number of steps with tensors that this process has stored or tried to store: a failed one may
            exist.
        collections: Number of times that this process has stored its collections file.
        model_facts: Number of stored revisions of the model facts.
        segments: The newest statistics segments, the newest last; at most `MOST_SEGMENTS`.
    """

    worker: str
    workers: int = 1
    started_ms: int = 0
    sequence: int = 0
    through: int = NOTHING_YET
    mode_steps: Mapping[str, int] = field(default_factory=dict)
    stored_at: float = 0.0
    is_final: bool = False
    saved_steps: int = 0
    collections: int = 0
    model_facts: int = 0
    segments: tuple[SegmentName, ...] = ()


def encode_watermark(mark: Watermark) -> bytes:
    """Return the object's content.

    Raises:
        ValueError: A mode is unknown.
    """
    document = {
        "version": VERSION,
        "worker": mark.worker,
        "workers": mark.workers,
        "started_ms": mark.started_ms,
        "sequence": mark.sequence,
        "through": mark.through,
        "mode_steps": {checked_mode(mode): step for mode, step in mark.mode_steps.items()},
        "stored_at": mark.stored_at,
        "is_final": mark.is_final,
        "saved_steps": mark.saved_steps,
        "collections": mark.collections,
        "model_facts": mark.model_facts,
        "segments": [name.key for name in mark.segments[-MOST_SEGMENTS:]],
    }
    return json.dumps(document).encode("ascii")


def decode_watermark(data: bytes, *, key: str, worker: str) -> Watermark:
    """Return a watermark of `worker`. Unknown fields are ignored.

    Raises:
        RecordError: It is no watermark, or one of an unknown version.
    """
    if len(data) > MOST_BYTES:
        raise RecordError(key, MOST_BYTES, f"is larger than the {MOST_BYTES >> 10} KiB that are read of it")
    document = UntrustedJson.parse(data, key=key)
    version = document.count("version")
    if version != VERSION:
        raise RecordError(key, 0, f"has version {version}; this Trackside reads version {VERSION}")
    workers = document.count("workers")
    if not 0 < workers <= MOST_WORKERS:
        raise RecordError(key, 0, f"has workers = {workers}, not a number from 1 to {MOST_WORKERS}")
    steps = document.object("mode_steps")
    for mode in steps.names():
        if mode not in MODE_NUMBERS:
            raise steps.error(f"has the mode {mode[:30]!r}, which is none of {', '.join(MODE_NUMBERS)}")
    return Watermark(
        worker=worker,
        workers=workers,
        started_ms=document.count("started_ms"),
        sequence=document.count("sequence"),
        through=_through(document),
        mode_steps={mode: steps.count(mode) for mode in steps.names()},
        stored_at=document.number("stored_at"),
        is_final=document.boolean("is_final", False),
        saved_steps=document.count("saved_steps"),
        collections=document.count("collections"),
        model_facts=document.count("model_facts"),
        segments=_segments(document),
    )


def _through(document: UntrustedJson) -> int:
    if document.number("through") == NOTHING_YET:
        return NOTHING_YET
    return document.count("through")


def _segments(document: UntrustedJson) -> tuple[SegmentName, ...]:
    names = []
    for key in document.texts("segments")[-MOST_SEGMENTS:]:
        name = SegmentName.parse(key)
        if name is None:
            raise document.error(f"names {key[:80]!r}, which is no statistics segment")
        names.append(name)
    return tuple(names)
