"""The records of many single numbers under fixed names: made once, and filled in at each step.

They are exactly the bytes that `tfevents.encode_tensor` makes of each number. From step to step only the wall time,
both step numbers and the values differ in them, so a step takes a copy and three assignments, whatever their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.records.index_file import Index, IndexEntry, encode_index
from trackside.records.step_file import StepFiles
from trackside.records.tfevents import HEADER_SIZE, encode_tensor, record_moment, record_tail

_PAYLOAD = b'"tensor_payload": ['


class ReductionRecords:
    """The records of numbers under these names, in their order: of one type and shape."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._frames: dict[tuple[int, int, str], _Frame] = {}

    def encode(
        self, values: NDArray[Any], *, step: int, mode: str, mode_step: int, wall_time: float
    ) -> tuple[bytes, _Frame]:
        """Return all records of a step and their frame.

        Args:
            values: The value of each name, of shape (names, *shape of a value). Type and shape never change.
            step: The step over all modes.
            mode: The mode.
            mode_step: The step within the mode.
            wall_time: Seconds since the epoch.

        Raises:
            TypeError: The dtype cannot be stored.
            ValueError: The mode is unknown, or a step is below 0.
        """
        stored = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        moment, tail = record_moment(wall_time, step), record_tail(mode, mode_step)
        # Numbers with more digits make longer records.
        key = (len(moment), len(tail), mode)
        frame = self._frames.get(key)
        if frame is None:
            records = [
                encode_tensor(name, np.asarray(value), step=step, mode=mode, mode_step=mode_step, wall_time=wall_time)
                for name, value in zip(self._names, stored, strict=True)
            ]
            frame = _Frame(self._names, records, moment=moment, tail=tail, size=stored[0].nbytes)
            self._frames = {key: frame}
        return frame.filled(moment, stored, tail), frame


class _Frame:
    """The records of one step as a template for steps with numbers of equal length.

    It knows the places of the bytes that differ: moment, values and tail.
    """

    def __init__(
        self, names: Sequence[str], records: Sequence[bytes], *, moment: bytes, tail: bytes, size: int
    ) -> None:
        lengths = [len(record) for record in records]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        self._bytes = np.frombuffer(b"".join(records), np.uint8).copy()
        self._values = (ends - len(tail) - size)[:, None] + np.arange(size)
        # Of the parts that are the same in all records: their bytes, and where each byte lies in each record.
        both = np.frombuffer(moment + tail, np.uint8)
        places = (
            starts + HEADER_SIZE + np.arange(len(moment))[:, None],
            ends - len(tail) + np.arange(len(tail))[:, None],
        )
        self._shared, self._places = both, np.concatenate(places)
        self.entries = tuple(
            IndexEntry(name, start, length) for name, start, length in zip(names, starts.tolist(), lengths, strict=True)
        )
        of_these = encode_index(Index(mode="TRAIN", mode_step=0, event_key=None, entries=self.entries))
        self.payload = of_these[of_these.index(_PAYLOAD) + len(_PAYLOAD) : of_these.rindex(b"], ")]

    def filled(self, moment: bytes, values: NDArray[Any], tail: bytes) -> bytes:
        """Return the records with other values and with another moment and tail of equal length."""
        shared = np.frombuffer(moment + tail, np.uint8)
        changed = np.flatnonzero(shared != self._shared)
        self._bytes[self._places[changed]] = shared[changed, None]
        self._bytes[self._values] = values.view(np.uint8).reshape(self._values.shape)
        self._shared = shared
        records: bytes = self._bytes.tobytes()
        return records


def before_others(records: bytes, frame: _Frame, files: StepFiles) -> StepFiles:
    """Return the files of a step with these records before all others."""
    first, index = files.event_start, files.index
    entries = frame.entries
    if first:
        entries = tuple([IndexEntry(entry.name, entry.start + first, entry.length) for entry in entries])
    size = len(records)
    others = tuple([IndexEntry(entry.name, entry.start + size, entry.length) for entry in index.entries])
    whole = Index(index.mode, index.mode_step, files.event_key, entries + others, index.shapes)
    return StepFiles(
        event_key=files.event_key,
        event_parts=(records, *files.event_parts),
        index_key=files.index_key,
        index_bytes=encode_index(whole)
        if first
        else _listed(frame, Index(index.mode, index.mode_step, files.event_key, others, index.shapes)),
        index=whole,
        event_start=first,
    )


def _listed(frame: _Frame, others: Index) -> bytes:
    """Return the bytes of the index of others with the entries of a frame in front."""
    listed = encode_index(others)
    place = listed.index(_PAYLOAD) + len(_PAYLOAD)
    return b"".join((listed[:place], frame.payload, b", " if others.entries else b"", listed[place:]))
