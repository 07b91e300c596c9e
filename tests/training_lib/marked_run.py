"""A run as its training writes it, by the real classes and without threads: whoever uses it says what happens next."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from trackside.capture.ground.guard import Guard
from trackside.capture.statistics.segment_storage import SegmentLimits
from trackside.capture.statistics.statistics_log import LogLimits, StatisticsLog
from trackside.capture.steps.step_engine import Position
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.restart import FindState
from trackside.capture.writing.run_files import RunFiles
from trackside.capture.writing.watermark import MarkedParts, ModeSteps, Progress, WatermarkFile
from trackside.capture.writing.worker_ends import WorkerEnds
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.run_layout import watermark_key, worker_name
from trackside.records.state_file import TrainingState
from trackside.records.watermark import NOTHING_YET, decode_watermark
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store

STARTED_MS = 1_700_000_000_000
WALL_TIME = 1.7e9
MINE = "mine"
REQUEST = CaptureRequest(
    (
        *(CollectionRequest(name, Schedule(1)) for name in ("losses", "weights", "gradients")),
        CollectionRequest(MINE, Schedule(1), ("^mine/",)),
    )
)
DUE = frozenset(collection.name for collection in REQUEST.collections)
_OFTEN_MERGED = LogLimits(segments=SegmentLimits(objects=3))

Row = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Content:
    """What a step records and saves; either may be nothing."""

    mode: str = "TRAIN"
    row: Row = field(default_factory=dict)
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)


class Clock:
    """Moves on with each look at it, so that nobody waits."""

    def __init__(self, now: float = 1000.0, tick: float = 0.0) -> None:
        self.now, self.tick = now, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


class Place:
    """Where a run lies; `wrapped` makes what its training writes to of what others read from."""

    def __init__(
        self,
        workers: int = 1,
        *,
        wrapped: Callable[[MemoryStore], Store] = lambda store: store,
        limits: LogLimits = _OFTEN_MERGED,
    ) -> None:
        self.tensors, self.statistics, self.marks = MemoryStore(), MemoryStore(), MemoryStore()
        self.to_tensors, self.to_statistics = wrapped(self.tensors), wrapped(self.statistics)
        self.to_marks = wrapped(self.marks)
        self.workers, self.limits, self.clock = workers, limits, Clock()
        self.processes = itertools.count(1)
        self._agreed: TrainingState | None = None

    def agreement(self, rank: int) -> Callable[[FindState], TrainingState | None] | None:
        """What rank 0 finds holds for all, as `frameworks.pytorch.ranks.agreed` has it."""

        def agree(find: FindState) -> TrainingState | None:
            if rank == 0:
                self._agreed = find()
            return self._agreed

        return agree if self.workers > 1 else None

    def through(self, rank: int) -> int:
        """The step through which a worker has said that all is stored."""
        worker, key = worker_name(rank), watermark_key(worker_name(rank))
        if not self.marks.exists(key):
            return NOTHING_YET
        return decode_watermark(self.marks.get(key), key=key, worker=worker).through


class Process:
    """One process of one worker: what its training thread hands on, and what its writer thread does."""

    def __init__(self, place: Place, rank: int = 0) -> None:
        worker, started_ms = worker_name(rank), STARTED_MS + next(place.processes)
        self._place, self.rank = place, rank
        self.guard = Guard()
        mode_steps = ModeSteps()
        mark = WatermarkFile(lambda: place.to_marks, worker=worker, workers=place.workers, started_ms=started_ms)
        self.files = RunFiles(
            lambda: place.to_tensors,
            request=REQUEST,
            worker=worker,
            num_workers=place.workers,
            ends_run=rank == 0,
            position=lambda: Position(self.step, dict(self._mode_steps)),
            restarts=True,
            agree=place.agreement(rank),
            ends=WorkerEnds(worker, place.workers, monotonic=Clock(tick=30.0), sleep=lambda _: None),
            watermark=mark,
            note_steps=mode_steps.note,
            clock=place.clock,
        )
        start = self.files.resume()
        self.step, self._mode_steps = start.step, dict(start.mode_steps or {})
        self.log = StatisticsLog(
            lambda: place.to_statistics,
            worker=worker,
            started_ms=started_ms,
            start=self.files.start,
            note_steps=mode_steps.note,
            limits=place.limits,
            monotonic=place.clock,
        )
        self.queue: deque[StepTensors] = deque()
        self.held: deque[tuple[int, Callable[[], None]]] = deque()
        self.lost: set[int] = set()
        self.marked = MarkedParts(
            mark,
            (self.log,),
            progress=Progress(self._handed_on, self._unstored_from, self.files.start),
            tensors=self.files,
            segments=lambda: self.log.newest_segments,
            mode_steps=mode_steps,
            guard=self.guard,
            flush_seconds=0.0,
            monotonic=place.clock,
            clock=place.clock,
        )

    def train(self, content: Content, *, holds_row: bool = False) -> int:
        """Makes a step. With `holds_row` its numbers are still on the device, and come with `arrive`."""
        step, mode_step = self.step, self._mode_steps.get(content.mode, 0)
        if content.tensors:
            tensors = tuple(content.tensors.items())
            self.queue.append(StepTensors(step, content.mode, mode_step, WALL_TIME + step, tensors, due=DUE))
        if content.row:
            self.held.append((step, lambda: self._record(content, step, mode_step)))
            if not holds_row:
                self.arrive()
        self.step, self._mode_steps[content.mode] = step + 1, mode_step + 1
        return step

    def arrive(self) -> None:
        """The numbers of all steps have come from the device."""
        while self.held:
            self.held.popleft()[1]()

    def store(self) -> None:
        """The writer stores the next step, or loses it."""
        if self.queue:
            step = self.queue[0]
            try:
                self.files.save(step)
            except OSError:
                self.files.lost(step.step, "outage")
                self.lost.add(step.step)
            self.queue.popleft()

    def flush(self) -> None:
        """The writer flushes, and tries again later where that fails."""
        try:
            self.marked.flush()
        except OSError:
            self._place.clock.now += 100.0

    def end(self, *, is_interrupted: bool = False) -> None:
        """The process ends. Errors: `OSError`."""
        self.arrive()
        while self.queue:
            self.store()
        self.marked.close()
        self.files.finish(is_interrupted=is_interrupted)

    def _record(self, content: Content, step: int, mode_step: int) -> None:
        self.log.record(content.row, step=step, mode=content.mode, mode_step=mode_step, wall_time=WALL_TIME + step)

    def _handed_on(self) -> int:
        return min(self.step, self.held[0][0] if self.held else self.step) - 1

    def _unstored_from(self) -> int | None:
        return self.queue[0].step if self.queue else None
