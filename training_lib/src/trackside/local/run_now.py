"""The present state of a running training: its newest step and loss, read from the run's folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trackside.contracts.capture_request import MODES
from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.contracts.run_layout import RunLocation, SegmentName, parse_watermark_key
from trackside.records.watermark import MOST_BYTES, Watermark, decode_watermark
from trackside.storage.open_store import open_store

_TRAIN, _, _, _GLOBAL = MODES


@dataclass(frozen=True)
class RunNow:
    """The state of a running training.

    steps     optimizer steps so far; None while nothing is captured
    loss      the newest loss; None if unknown
    rules     number of rules that judge it
    problems  number of problems that stand
    overhead  the share of the training's time that watching takes, such as 0.02; None if unknown
    """

    steps: int | None
    loss: float | None
    rules: int
    problems: int
    overhead: float | None = None


@dataclass
class RunNowReader:
    """Reads the state of a run, and each file only if it has changed.

    uri  the location of the run
    """

    uri: str
    _sequences: dict[str, int] = field(default_factory=dict)
    _loss: float | None = None
    _overhead: float | None = None

    def read(self) -> tuple[int | None, float | None, float | None]:
        """Return the optimizer steps so far, the newest loss, and the share of watching, each None if unknown.

        Errors: the store's.
        """
        marks = list(watermarks_of(self.uri))
        first = next((mark for mark in marks if mark.segments), None)
        if first is not None and self._sequences.get(first.worker) != first.sequence:
            self._sequences[first.worker] = first.sequence
            self._read(first.segments[-1])
        return steps_of(marks), self._loss, self._overhead

    def _read(self, segment: SegmentName) -> None:
        from trackside.trial.recorded.newest_loss import newest_loss, newest_overhead  # brings NumPy

        try:
            data = open_store(RunLocation(self.uri).statistics).get(segment.key)
        except KeyNotFoundError:  # it was replaced by a longer one since
            return
        loss, overhead = newest_loss(data, key=segment.key), newest_overhead(data, key=segment.key)
        self._loss = self._loss if loss is None else loss
        self._overhead = self._overhead if overhead is None else overhead


def watermarks_of(uri: str) -> Iterator[Watermark]:
    """Yield the readable watermarks of a run. Errors: the store's."""
    store = open_store(RunLocation(uri).watermarks)
    for key in store.list():
        worker = parse_watermark_key(key)
        if not worker:
            continue
        try:
            yield decode_watermark(store.get(key, length=MOST_BYTES), key=key, worker=worker)
        except (KeyNotFoundError, RecordError):
            continue


def steps_of(marks: Iterable[Watermark]) -> int | None:
    """Return the number of optimizer steps that the furthest worker has stored; None for no worker."""
    newest = [mark.mode_steps.get(_TRAIN, mark.mode_steps.get(_GLOBAL, -1)) for mark in marks]
    return max(newest) + 1 if newest else None
