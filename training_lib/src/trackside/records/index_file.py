"""The index of one step and worker: the tensors in its event file, and their places. smdebug's JSON, byte for byte."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, replace
from functools import lru_cache

from trackside.contracts.run_layout import parse_event_key
from trackside.records.modes import MODE_NUMBERS, checked_mode
from trackside.records.untrusted_json import UntrustedJson

# The beginning of a file as smdebug and we write it, up to what is the same from step to step. Anything else, such as
# an escaped character, is left to the JSON parser.
_USUAL_META = re.compile(
    rb'\{"meta": \{"mode": "([A-Z]+)", "mode_step": (0|[1-9][0-9]{0,17})'
    rb'(?:, "event_file_name": "([\w./-]{1,1000})")?\}, '
)
_MOST_REMEMBERED_BYTES = 16 << 20
_LARGEST_REMEMBERED_BYTES = 1 << 20  # far below the limits of `UntrustedJson`, which count the whole file


@dataclass(frozen=True)
class IndexEntry:
    """One tensor. Its whole record begins at byte `start` and is `length` bytes long."""

    name: str
    start: int
    length: int


@dataclass(frozen=True)
class ShapeEntry:
    """A tensor of which only the shape was saved. `original_name` is the framework's name for it."""

    name: str
    original_name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Index:
    """The content of an index file. Step and worker stand in the file's name.

    mode       the mode of the step
    mode_step  the step within the mode, from 0; -1 if smdebug saved only scalars before the mode's first step
    event_key  key of the event file, relative to the run's tensors; None if only shapes were saved
    entries    places of tensors; of two entries of one name the later holds
    shapes     shapes of tensors without values
    """

    mode: str
    mode_step: int
    event_key: str | None
    entries: tuple[IndexEntry, ...] = ()
    shapes: tuple[ShapeEntry, ...] = ()


def encode_index(index: Index) -> bytes:
    """Return the file's content.

    Raises:
        ValueError: The mode is unknown.
    """
    # As `json.dumps` would write it, with its texts looked up: this is done at every saved step.
    event = "" if index.event_key is None else f', "event_file_name": {_quoted(index.event_key)}'
    meta = f'{{"mode": "{checked_mode(index.mode)}", "mode_step": {index.mode_step}{event}}}'
    tensors = ", ".join(
        f'{{"tensorname": {_quoted(e.name)}, "start_idx": {e.start}, "length": {e.length}}}' for e in index.entries
    )
    shapes = ", ".join(
        f'{{"tensorname": {_quoted(s.name)}, "originalname": {_quoted(s.original_name)}, "shape": {[*s.shape]}}}'
        for s in index.shapes
    )
    return f'{{"meta": {meta}, "tensor_payload": [{tensors}], "shape_payload": [{shapes}]}}'.encode("ascii")


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return json.dumps(text)


def decode_index(data: bytes, *, key: str) -> Index:
    """Return the index in a file. Unknown fields are ignored.

    Raises:
        RecordError: The file is no index, or points elsewhere than to an event file of the run.
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
        mode_step=meta.step("mode_step"),
        event_key=_event_key(meta) if entries or meta.has("event_file_name") else None,
        entries=entries,
        shapes=tuple(map(_shape_entry, document.objects("shape_payload"))),
    )


class IndexDecoder:
    """A decoder for many index files. Parts that are equal in the indexes of different steps are parsed once.

    Files that list the same tensors at the same places get the very same `entries` and `shapes`. Up to 16 MiB of files
    are remembered. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._remembered: dict[bytes, Index] = {}
        self._size_bytes = 0
        self._lock = threading.Lock()

    def decode(self, data: bytes, *, key: str) -> Index:
        """Return the same value, and raise the same errors, as `decode_index`."""
        meta = _USUAL_META.match(data)
        if meta is None:
            return decode_index(data, key=key)
        rest = data[meta.end() :]
        alike = self._remembered.get(rest)
        if alike is None:
            return self._remember(rest, decode_index(data, key=key), key)
        return _with_meta(alike, meta) or decode_index(data, key=key)

    def _remember(self, rest: bytes, whole: Index, key: str) -> Index:
        """Return `whole`, which ends with `rest`.

        Its entries and shapes may be those that another thread has just read.
        """
        if len(rest) > _LARGEST_REMEMBERED_BYTES or UntrustedJson.parse(b"{" + rest, key=key).has("meta"):
            return whole  # in the latter case the second meta holds, not the one before `rest`
        with self._lock:
            if rest not in self._remembered:
                self._size_bytes += len(rest)
            alike = self._remembered.setdefault(rest, whole)
            while self._size_bytes > _MOST_REMEMBERED_BYTES:
                oldest = next(iter(self._remembered))
                del self._remembered[oldest]
                self._size_bytes -= len(oldest)
        return replace(whole, entries=alike.entries, shapes=alike.shapes)


def _with_meta(alike: Index, meta: re.Match[bytes]) -> Index | None:
    """Return the index with the values in its usual beginning. None if one is wrong: `decode_index` then names it."""
    mode, event_key = str(meta[1], "ascii"), None if meta[3] is None else str(meta[3], "ascii")
    is_right = not alike.entries if event_key is None else parse_event_key(event_key) is not None
    if not is_right or mode not in MODE_NUMBERS:
        return None
    return Index(mode, int(meta[2]), event_key, alike.entries, alike.shapes)


def _event_key(meta: UntrustedJson) -> str:
    key = meta.text("event_file_name")
    if parse_event_key(key) is None:
        raise meta.error(f"has event_file_name = {key[:100]!r}, which is no event file of this run")
    return key


def _shape_entry(entry: UntrustedJson) -> ShapeEntry:
    name = entry.text("tensorname")
    original_name = entry.text("originalname") if entry.has("originalname") else name
    return ShapeEntry(name, original_name, entry.counts("shape"))
