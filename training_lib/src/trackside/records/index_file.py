"""The index of one step and worker: which tensors its event file holds, and where. smdebug's JSON, byte for byte."""

from __future__ import annotations

import json
from dataclasses import dataclass

from trackside.contracts.run_layout import parse_event_key
from trackside.records.modes import MODE_NUMBERS, checked_mode
from trackside.records.untrusted_json import UntrustedJson


@dataclass(frozen=True)
class IndexEntry:
    """One tensor: its whole record lies at `start`, `length` bytes long."""

    name: str
    start: int
    length: int


@dataclass(frozen=True)
class ShapeEntry:
    """A tensor of which only the shape was saved. `original_name` is what the framework calls it."""

    name: str
    original_name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Index:
    """What an index file holds. `event_key` is relative to the run's tensors; None where only shapes were saved.

    Step and worker stand in the file's name. Of two entries of one name the later holds.
    """

    mode: str
    mode_step: int
    event_key: str | None
    entries: tuple[IndexEntry, ...] = ()
    shapes: tuple[ShapeEntry, ...] = ()


def encode_index(index: Index) -> bytes:
    """The file's content. Errors: `ValueError` for an unknown mode."""
    meta = {"mode": checked_mode(index.mode), "mode_step": index.mode_step}
    document = {
        "meta": meta if index.event_key is None else {**meta, "event_file_name": index.event_key},
        "tensor_payload": [{"tensorname": e.name, "start_idx": e.start, "length": e.length} for e in index.entries],
        "shape_payload": [
            {"tensorname": s.name, "originalname": s.original_name, "shape": list(s.shape)} for s in index.shapes
        ],
    }
    return json.dumps(document).encode("ascii")


def decode_index(data: bytes, *, key: str) -> Index:
    """Reads an index file, passing over fields it does not know.

    Errors: `RecordError` if it is not one, or if it points anywhere but to an event file of the run.
    """
    document = UntrustedJson.parse(data, key=key)
    if not (document.has("tensor_payload") or document.has("shape_payload")):
        raise document.error("has neither tensor_payload nor shape_payload")
    meta = document.object("meta")
    mode = meta.text("mode")
    if mode not in MODE_NUMBERS:
        raise meta.error(f"has the mode {mode[:30]!r}, which is none of {', '.join(MODE_NUMBERS)}")
    entries = tuple(
        IndexEntry(e.text("tensorname"), e.count("start_idx"), e.count("length"))
        for e in document.objects("tensor_payload")
    )
    return Index(
        mode=mode,
        mode_step=meta.count("mode_step"),
        event_key=_event_key(meta) if entries or meta.has("event_file_name") else None,
        entries=entries,
        shapes=tuple(map(_shape_entry, document.objects("shape_payload"))),
    )


def _event_key(meta: UntrustedJson) -> str:
    key = meta.text("event_file_name")
    if parse_event_key(key) is None:
        raise meta.error(f"has event_file_name = {key[:100]!r}, which is no event file of this run")
    return key


def _shape_entry(entry: UntrustedJson) -> ShapeEntry:
    name = entry.text("tensorname")
    original_name = entry.text("originalname") if entry.has("originalname") else name
    return ShapeEntry(name, original_name, entry.counts("shape"))
