"""The run of one worker in one process: begin, resume, flush, close, fork. Knows no framework."""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from trackside.capture.ground.guard import Guard
from trackside.capture.process_end import ProcessEnd, call_in_children
from trackside.capture.request_reading import RequestReading
from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.capture.statistics.step_statistics import StepStatistics
from trackside.capture.steps.last_step import HeldSteps, LastStep
from trackside.capture.steps.step_engine import TRAIN, Position, StepEngine
from trackside.capture.writing.kept_steps import KeptSteps, Targets
from trackside.capture.writing.restart import (
    FindState,
    further,
    position_after,
    state_at,
    state_at_mark,
    within_seconds,
)
from trackside.capture.writing.run_files import NoFiles, RunFiles
from trackside.capture.writing.watermark import (
    FLUSH_SECONDS,
    REMOTE_FLUSH_SECONDS,
    SETTLED_REMOTE_FLUSH_SECONDS,
    MarkedParts,
    ModeSteps,
    Progress,
    WatermarkFile,
)
from trackside.capture.writing.writer import Writer
from trackside.capture.writing.writer_parts import BackgroundPart, Target
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run_layout import TENSORS, RunLocation, worker_name
from trackside.environment import CaptureEnvironment
from trackside.records.shards import Shard
from trackside.records.state_file import TrainingState
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

CLOSE_SECONDS = 30.0  # how long the end of the process waits for queued steps
RESUME_SECONDS = 10.0  # how long the first step waits for the position of an earlier process
BLOCK_SECONDS = 1.0  # how long a step waits for the one before, if the options request that
SIGTERM_SECONDS = 5.0  # the same if this process must end soon; Docker kills after 10


class Rank(NamedTuple):
    """The number of this worker, and the number of all workers."""

    number: int
    of: int


Agree = Callable[[Rank, FindState], "TrainingState | None"]


@dataclass(frozen=True)
class SessionOptions:
    """Options of a session for storing its run.

    Attributes:
        open_store: Opens the store of an address.
        has_watermarks: False where the run has no place for them.
        kept: Gets the steps too, to keep them in memory.
        is_kept_only: True if nothing is stored anywhere else.
        saves_nothing: True if steps are counted and no tensor is saved.
        earlier: State of an earlier process from another source than the run; the higher of both counts holds.
        holds_last_step: True if the step that has just ended is held back, because the script may still add to it.
        awaits_last_step: True if a step waits, a bounded time, until the one before is stored.
        kinds_of_regex: The kinds of tensors that a collection with a regex can hold; None for all that regexes find.
        regexes: Regexes of the built-in collections; None for smdebug's, as it has them for PyTorch.
    """

    open_store: Callable[[str], Store] = open_store
    has_watermarks: bool = True
    kept: KeptSteps | None = None
    is_kept_only: bool = False
    saves_nothing: bool = False
    earlier: TrainingState | None = None
    holds_last_step: bool = False
    awaits_last_step: bool = False
    kinds_of_regex: frozenset[str] | None = None
    regexes: Mapping[str, str] | None = None


class Owner(Protocol):
    """The adapter that holds a session, as the end of the process calls it."""

    def flush(self, timeout_seconds: float = ...) -> None:
        """Hand on the data of ended steps, and flush the session."""

    def close(self, timeout_seconds: float = ..., *, is_interrupted: bool = ...) -> None:
        """End the steps that are open, and close the session."""


class FactsPart(BackgroundPart, Protocol):
    """The file of the program's parts (model facts), as a part of the writer thread."""

    stored_revisions: int


class RunSession:
    """Owns the engine, the guard, the statistics, the files and the writer of one worker's run in one process.

    Nothing exists before `begin`, no thread, file or folder, so that helper processes create nothing.

    Attributes:
        environment: The settings from environment variables.
        request_reading: Reads the capture request, and checks it again later.
        guard: Keeps errors of ours from the training.
        engine: Counts steps and collects what they save.
        statistics: The always-on statistics.
        rest: Decides when the training rests, and counts its steps then.
        shards: Part of a sharded tensor that this worker saves, by name; an adapter adds to it.
        last: Holds the last step back, if the options request that.
        held: Holds steps with late tensors back; an adapter that adds such tensors sets it before `begin`.
        local_folder: Folder of the run; "" for a run that is not on a local disk.
        has_place_for_profiles: False where the run consists of tensors alone.
        has_begun: True once the run has begun in this process.
        is_start_known: False while it is not known where an earlier process stopped.
        is_reduced: True once tensors are stored as their reductions, if only those are requested.
    """

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        options: SessionOptions | None = None,
        agree: Agree = lambda _, find: find(),
    ) -> None:
        self._options = options or SessionOptions()
        self._location = RunLocation(absolute(environment.run_uri))  # now, for the script may change its folder
        self._agree = agree
        self.environment = environment
        self.guard = Guard()
        self.request_reading = RequestReading(environment.capture_request, self.guard)
        self.engine = StepEngine(
            self.request_reading.request, kinds_of_regex=self._options.kinds_of_regex, regexes=self._options.regexes
        )
        self.statistics = StepStatistics(self.request_reading.request.statistics, self.guard)
        self.rest = self.statistics.rest(self.engine)
        self.shards: dict[str, Shard] = {}
        self.last = LastStep() if self._options.holds_last_step else None
        self.held: HeldSteps | None = None
        self.local_folder = self.engine.spill.folder = "" if "://" in self._location.uri else self._location.uri
        self.has_place_for_profiles = self._options.has_watermarks and not self._options.is_kept_only
        self.has_begun = self.is_reduced = False
        self.is_start_known = True
        self._writer: Writer | None = None
        self._files_of_run: RunFiles | None = None
        self._is_removed = False
        self._watermark: WatermarkFile | None = None
        self._stored_mode_steps, self._handed_on_through = ModeSteps(), -1
        self._find_start: Callable[[], Position] = Position
        self._is_closing = False
        self._end: ProcessEnd | None = None

    @property
    def request(self) -> CaptureRequest:
        """The request: the data to capture."""
        return self.request_reading.request

    @property
    def stores_run(self) -> bool:
        """True if anything is stored; False if steps are only kept in memory."""
        return not self._options.is_kept_only

    def read_request(self) -> bool:
        """Read a request that lies at an address. Return True if the request has changed."""
        if not self.request_reading.read_at_last():
            return False
        self.statistics.use_request(self.request.statistics)
        self.engine.use_request(self.request)
        return True

    def open_folder(self, folder: str = TENSORS) -> Store:
        """Open the store of a folder of the run, such as `run_layout.PROFILES`."""
        return self._options.open_store(f"{self._location.uri}/{folder}")

    def start_position(self) -> Position:
        """Return the position to add to the numbers of steps. For the writer's thread."""
        return self._find_start()  # which is another function once the session has looked at the run

    def begin(
        self,
        rank: Rank,
        *,
        owner: Owner,
        facts: Sequence[FactsPart] = (),
        idle_parts: Callable[[], Iterable[BackgroundPart]] = tuple,
        first_step: int = 0,
    ) -> None:
        """Begin the run, and continue the step count of an earlier process of it.

        Args:
            rank: Number of this worker, and of all.
            owner: Flushed and closed when the process ends.
            facts: Files of the program's parts.
            idle_parts: Makes other work for the writer thread while nothing is due, once the request is known to
                be right: a part may start a thread of its own.
            first_step: Number of the open step, unless an earlier process of the run came further.

        Raises:
            ConfigurationError: The request has problems.
        """
        self.request_reading.check()
        if first_step:
            self._options = replace(self._options, earlier=further(self._options.earlier, _state_before(first_step)))
        started_ms = int(time.time() * 1000)
        if self._options.has_watermarks:
            self._watermark = WatermarkFile(
                functools.partial(self._options.open_store, self._location.watermarks),
                worker=worker_name(rank.number),
                workers=rank.of,
                started_ms=started_ms,
            )
        saves_tensors = self.request.saves_tensors(rank.number)
        target: Target = self._target(rank) if saves_tensors else NoFiles()
        log = StatisticsLog(
            functools.partial(self._options.open_store, self._location.statistics),
            worker=worker_name(rank.number),
            started_ms=started_ms,
            start=self.start_position,
            note_steps=self._stored_mode_steps.note,
        )
        writer = self._writer = Writer(
            target, guard=self.guard, background=(*idle_parts(), *self._parts(log, facts, target))
        )
        self.has_begun = True
        writer.start()
        self.statistics.connect(log, writer_seconds=writer.background.processor_seconds)
        if saves_tensors and not self._options.saves_nothing:
            destination: HeldSteps | Writer = writer
            if self.held is not None:
                self.held.destination, destination = writer, self.held
            if self.last is not None:
                self.last.destination = destination
                if self._options.awaits_last_step:
                    self.last.submitted = functools.partial(writer.await_steps, BLOCK_SECONDS)
            self.engine.connect(self.last or destination)
            self.is_reduced = (
                isinstance(target, RunFiles) and not self.request.tensorboard
            )  # else whole ones are wanted
        else:
            self.engine.save_nothing()
        if not saves_tensors:
            self._count_on_with_rank_0(rank)
        self._watch_process(owner)

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Wait until everything queued is stored, at most `timeout_seconds`."""
        if self._writer is not None:
            self.statistics.finish()
            self._writer.flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """Store what is queued and end the run. Never raises."""
        writer = self._writer
        if writer is None:
            return
        self._is_closing = True
        self.statistics.logged.end()
        self.statistics.finish()
        is_removed = self._is_removed
        self.guard.attempt(
            "ending the run",
            lambda: writer.close(timeout_seconds, is_interrupted=is_interrupted, is_removed=is_removed),
        )
        self.guard.switch_off_silently()

    def leave_open(self, *, is_gone: bool) -> bool:
        """Let `close` leave the run without its end, because another capture of this process goes on with it.

        Nothing more is stored if the run was removed; return True then.

        Args:
            is_gone: The run is not to be found.
        """
        if self._files_of_run is not None:
            self._is_removed = self._files_of_run.leave_open(is_gone=is_gone)
        return self._is_removed

    def forget_process_end(self) -> None:
        """Leave the process's exit and SIGTERM as they were."""
        if self._end is not None:
            self._end.remove()

    def _watch_process(self, owner: Owner) -> None:
        def close_on_sigterm() -> None:
            owner.close(SIGTERM_SECONDS, is_interrupted=True)

        self._end = ProcessEnd(close=owner.close, close_on_sigterm=close_on_sigterm, flush=owner.flush)
        self._end.install()
        call_in_children(weakref.WeakMethod(self._after_fork_in_child))

    def _after_fork_in_child(self) -> None:
        """Switch capture off in a child of a process that captures: it is a helper.

        A child that is forked before the run begins may be the trainer.
        """
        self._writer, self.has_begun = None, False
        self.guard.switch_off_silently()

    def _parts(self, log: StatisticsLog, facts: Sequence[FactsPart], target: Target) -> tuple[BackgroundPart, ...]:
        """Return the parts that are flushed beside the files, with the watermark over both if the run has one."""
        has_rows = self.statistics.is_on
        parts = (*facts, *((log,) if has_rows else ()))
        if self._watermark is None:
            return parts

        def unstored_from() -> int | None:
            return self._writer.unstored_from() if self._writer is not None else None

        is_remote = "://" in self._location.uri
        marked = MarkedParts(
            self._watermark,
            parts,
            progress=Progress(self._handed_on, unstored_from, self.start_position),
            tensors=target if isinstance(target, RunFiles) else None,
            segments=(lambda: log.newest_segments) if has_rows else tuple,
            model_facts=lambda: sum(file.stored_revisions for file in facts),
            mode_steps=self._stored_mode_steps,
            guard=self.guard,
            flush_seconds=REMOTE_FLUSH_SECONDS if is_remote else FLUSH_SECONDS,
            settled_flush_seconds=SETTLED_REMOTE_FLUSH_SECONDS if is_remote else None,
        )
        return (marked,)

    def _handed_on(self) -> int:
        """Return the last step with everything handed to the writer. For the writer's thread."""
        position = self.engine.position()
        through = self.statistics.recorded_through(position.step - 1)
        if through is not None:
            self._handed_on_through = through
        if through == position.step - 1 and self.is_start_known:  # steps at rest have no rows
            counts = position.mode_steps or {}
            self._stored_mode_steps.note((through, mode, count - 1) for mode, count in counts.items() if count)
        through = self._handed_on_through
        waiting = self.held.first_step if self.held is not None else None
        if waiting is not None:
            through = min(through, waiting - 1)
        if self.last is None:
            return through
        held = self.last.held_step
        if self.last.destination is not None and not self._is_closing:  # the script may still add to the last step
            through = min(through, self.engine.step - 2)
        return through if held is None else min(through, held - 1)

    def _target(self, rank: Rank) -> Target:
        """Return the target of steps: the files of this worker, memory, or both."""
        kept = self._options.kept
        if kept is None:
            return self._files(rank)
        return kept if self._options.is_kept_only else Targets([kept, self._files(rank)])

    def _files(self, rank: Rank) -> RunFiles:
        tensorboard = self.request.tensorboard
        files = RunFiles(
            self.open_folder,
            request=self.request,
            regexes=self._options.regexes,
            worker=worker_name(rank.number),
            num_workers=rank.of if self.request.include_workers == "all" else 1,
            ends_run=rank.number == 0,
            shards=self.shards,
            position=self.engine.position,
            restarts=self.environment.is_sagemaker_job,
            ends_elsewhere=bool(self.environment.ended_by),
            agree=self._agreement(rank),
            open_tensorboard=functools.partial(open_store, absolute(tensorboard)) if tensorboard else None,
            watermark=self._watermark,
            note_steps=self._stored_mode_steps.note,
        )
        self._files_of_run, self._find_start = files, files.start
        if not self._resume(files.resume):
            files.resume_later()
        return files

    def _agreement(self, rank: Rank) -> Callable[[FindState], TrainingState | None] | None:
        """Return the function by which workers agree on the position of earlier processes; None if the run suffices."""
        earlier = self._options.earlier
        if earlier is not None:
            return lambda find: self._agree(rank, lambda: further(find(), earlier))
        return functools.partial(self._agree, rank) if rank.of > 1 else None

    def _count_on_with_rank_0(self, rank: Rank) -> None:
        """Continue the count of earlier processes in a worker that saves no tensors, from the watermarks of the run."""

        def look() -> TrainingState | None:
            marks = self._watermark.earlier(None) if self._watermark is not None else ()
            return functools.reduce(further, map(state_at_mark, marks), None)

        @functools.cache  # once it is known, for all that is counted on from it
        def find() -> Position:
            return position_after(self._agree(rank, look))

        if not self._resume(find):
            self._find_start = find

    def _resume(self, find: Callable[[], Position]) -> bool:
        """Continue the step count of an earlier process of the run.

        Return False if its position is not found in time.
        """
        self.is_start_known = False
        try:
            position = within_seconds(find, RESUME_SECONDS)
        except OSError:  # logged with the first step that can therefore not be stored
            return False
        if position is None:
            message = "the run's store has not answered for %g s. Steps wait in memory until it answers."
            self.guard.warn_once("resume", message, RESUME_SECONDS)
            return False
        self.engine.resume(position)
        self.is_start_known = True
        return True


def _state_before(step: int) -> TrainingState:
    return state_at(Position(step, {TRAIN: step}), training_run=1, last_saved_step=None)


def absolute(uri: str) -> str:
    """Return an address unchanged, and a folder as its absolute path."""
    return uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))
