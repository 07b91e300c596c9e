"""The watermark of a worker: its progress, published after all data that it covers. Runs on the writer thread."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from trackside.capture.ground.guard import Guard, describe
from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.writer_parts import BackgroundPart
from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.contracts.run_layout import SegmentName, parse_watermark_key, watermark_key
from trackside.records.watermark import MOST_BYTES, Watermark, decode_watermark, encode_watermark
from trackside.storage.store import Store

FIRST_FLUSH_SECONDS = 0.25  # many faults are there from the first step
FLUSH_SECONDS = 1.0  # how late a finished step becomes visible at most
REMOTE_FLUSH_SECONDS = 1.5  # where each flush is two requests that are paid for
SETTLED_REMOTE_FLUSH_SECONDS = 5.0  # there, of a process that has run for `YOUNG_SECONDS`
YOUNG_SECONDS = 600.0  # in which most faults show, and somebody looks on
SIGN_OF_LIFE_SECONDS = 20.0  # while no step ends: a reader takes a worker that is silent for longer for gone
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 60.0


class ModeSteps:
    """The last stored step of each mode at or below a step."""

    def __init__(self) -> None:
        self._stored: dict[str, deque[tuple[int, int]]] = {}
        self._last: dict[str, int] = {}

    def note(self, steps: Iterable[tuple[int, str, int]]) -> None:
        """Add stored steps, as (step, mode, step within the mode)."""
        for step, mode, mode_step in steps:
            self._stored.setdefault(mode, deque()).append((step, mode_step))

    def through(self, step: int) -> Mapping[str, int]:
        """Return the last step within each mode; `step` must not go back."""
        for mode, stored in self._stored.items():
            while stored and stored[0][0] <= step:
                self._last[mode] = max(self._last.get(mode, 0), stored.popleft()[1])
        return dict(self._last)


class StoredTensors(Protocol):
    """The run's files, as the watermark covers them."""

    @property
    def save_attempts(self) -> int:
        """Number of attempts to store a step. A failed one may have arrived all the same."""

    @property
    def stored_collections(self) -> int:
        """Number of times that the collections file was stored."""

    def open(self) -> None:
        """Open the run. Errors: `OSError`; `ConfigurationError` if it has ended, or another process is writing it."""

    def store_collections(self) -> None:
        """Store the collections file if it lacks names of stored steps. Errors: `OSError`."""


@dataclass(frozen=True)
class Progress:
    """The progress of training and writer.

    Attributes:
        handed_on: Returns the last step with everything handed to the writer. Called on the writer's thread, first.
        unstored_from: Returns the first step that the writer still holds; None if it holds none.
        start: Returns the position to add to the numbers of steps. Errors: `OSError`.
    """

    handed_on: Callable[[], int]
    unstored_from: Callable[[], int | None]
    start: Callable[[], Position]


class WatermarkFile:
    """The watermark of one worker, for its writer. Errors: `OSError` of the store."""

    def __init__(self, open_store: Callable[[], Store], *, worker: str, workers: int, started_ms: int) -> None:
        self._open_store = open_store
        self._store: Store | None = None
        self.mark = Watermark(worker, workers, started_ms)
        self._is_announced = False

    def announce(self) -> None:
        """Store a first watermark before any other file of the run. It shows readers that others will follow."""
        if not self._is_announced:
            for before in self.earlier(self.mark.worker):
                self.mark = replace(
                    self.mark, sequence=before.sequence, through=before.through, mode_steps=before.mode_steps
                )
            self.put(self.mark)

    def put(self, mark: Watermark) -> None:
        """Replace the watermark, with the next sequence number."""
        mark = replace(mark, sequence=self.mark.sequence + 1)
        self._opened().put(watermark_key(mark.worker), encode_watermark(mark))
        self.mark, self._is_announced = mark, True

    def earlier(self, worker: str | None) -> tuple[Watermark, ...]:
        """Return the watermarks in the run, of one worker or of all (None). Damaged ones are left out."""
        store = self._opened()
        keys = store.list() if worker is None else (watermark_key(worker),)
        found = []
        for key in keys:
            if name := parse_watermark_key(key):
                with contextlib.suppress(KeyNotFoundError, RecordError):
                    found.append(decode_watermark(store.get(key, length=MOST_BYTES + 1), key=key, worker=name))
        return tuple(found)

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open_store()
        return self._store


class MarkedParts:
    """The background parts with data under a watermark, flushed together, and the watermark after them.

    A `BackgroundPart` itself. A part that fails for another reason than an outage is dropped alone.
    """

    def __init__(
        self,
        file: WatermarkFile,
        parts: Sequence[BackgroundPart],
        *,
        progress: Progress,
        tensors: StoredTensors | None = None,
        segments: Callable[[], Sequence[SegmentName]] = tuple,
        model_facts: Callable[[], int] = lambda: 0,
        mode_steps: ModeSteps | None = None,
        guard: Guard,
        flush_seconds: float = FLUSH_SECONDS,
        settled_flush_seconds: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file, self._parts, self._progress, self._guard = file, tuple(parts), progress, guard
        self._tensors, self._segments, self._model_facts = tensors, segments, model_facts
        self._mode_steps = mode_steps or ModeSteps()
        self._flush_seconds, self._monotonic, self._clock = flush_seconds, monotonic, clock
        self._settled_flush_seconds = flush_seconds if settled_flush_seconds is None else settled_flush_seconds
        self._settled_at = monotonic() + YOUNG_SECONDS
        self._due_at = monotonic() + min(flush_seconds, FIRST_FLUSH_SECONDS)
        self._published_at = float("-inf")
        self._retry_seconds = 0.0

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the next flush; see `BackgroundPart`."""
        return max(0.0, self._due_at - self._monotonic())

    def flush_if_due(self) -> bool:
        """Flush all parts and publish the watermark, if it is time; see `BackgroundPart`."""
        if self._monotonic() < self._due_at:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Flush all parts and publish the watermark; see `BackgroundPart`."""
        self._publish(is_final=self._guard.is_off)  # what is switched off counts no more steps

    def close(self) -> None:
        """Close all parts and publish the final watermark; see `BackgroundPart`."""
        self._publish(is_final=True, flush=lambda part: part.close())

    def _publish(
        self, *, is_final: bool, flush: Callable[[BackgroundPart], object] = lambda part: part.flush()
    ) -> None:
        started = self._monotonic()
        try:
            if self._tensors is not None:
                self._tensors.open()
            self._file.announce()
            # What comes after this moment is covered by the next watermark.
            through = self._progress.handed_on()
            self._flush_parts(flush)
            unstored = self._progress.unstored_from()
            if unstored is not None:
                through = min(through, unstored - 1)
            if self._tensors is not None:
                self._tensors.store_collections()
            self._put(through + self._progress.start().step, is_final=is_final)
        except OSError:
            self._retry_seconds = min(self._retry_seconds * 2 or FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
            self._due_at = self._monotonic() + self._retry_seconds
            raise
        self._retry_seconds = 0.0
        self._due_at = started + (self._flush_seconds if started < self._settled_at else self._settled_flush_seconds)

    def _flush_parts(self, flush: Callable[[BackgroundPart], object]) -> None:
        """Flush all parts, even after one fails. Errors: the first `OSError`."""
        failure: OSError | None = None
        for part in self._parts:
            try:
                flush(part)
            except OSError as error:
                failure = failure or error
            except Exception as error:  # noqa: BLE001 - what is broken is switched off, and nothing else
                self._parts = tuple(other for other in self._parts if other is not part)
                self._guard.warn_once("background", "%s is switched off: %s.", type(part).__name__, describe(error))
        if failure is not None:
            raise failure

    def _put(self, through: int, *, is_final: bool) -> None:
        before = self._file.mark
        through = max(through, before.through)
        mark = replace(
            before,
            through=through,
            mode_steps={**before.mode_steps, **self._mode_steps.through(through)},
            is_final=is_final,
            saved_steps=self._tensors.save_attempts if self._tensors else 0,
            collections=self._tensors.stored_collections if self._tensors else 0,
            model_facts=self._model_facts(),
            segments=tuple(self._segments()),
        )
        now = self._monotonic()
        if mark != before or now - self._published_at >= SIGN_OF_LIFE_SECONDS:
            self._file.put(replace(mark, stored_at=self._clock()))
            self._published_at = now
