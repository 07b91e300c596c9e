"""The position of a run in this process: where an earlier process stopped, and the state left for a later one."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from trackside.capture.steps.step_engine import Position
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.restart import (
    FindState,
    added,
    further,
    moved_on,
    position_after,
    read_state,
    state_at,
    state_at_mark,
    write_state,
)
from trackside.capture.writing.watermark import WatermarkFile
from trackside.records.state_file import TrainingState
from trackside.storage.store import Store

STATE_EVERY_SECONDS = 10.0

Agreement = Callable[[FindState], TrainingState | None]


class Resumption:
    """The progress of one worker before this process, and its record for the next one. Runs on the writer thread.

    - `open_store`: opens the run
    - `position`: returns the progress of this process; None: no state is left
    - `agree`: is given a function that finds the position of earlier processes; returns the one that all workers use
    - `watermark`: watermarks of earlier processes hold positions, too
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        worker: str,
        position: Callable[[], Position] | None,
        agree: Agreement | None,
        watermark: WatermarkFile | None,
        clock: Callable[[], float],
    ) -> None:
        self._open_store, self._worker = open_store, worker
        self._position, self._agree, self._watermark, self._clock = position, agree, watermark, clock
        self._earlier: TrainingState | None = None
        self._start: Position | None = Position()  # None: not known yet
        self._state_stored_at = float("-inf")

    @property
    def is_start_known(self) -> bool:
        """True unless `begin_later` was called, and `start` not yet."""
        return self._start is not None

    def resume(self) -> Position:
        """Return the position at which an earlier process stopped. Errors: as `RunFiles.resume`."""
        self._open_store()
        if self._agree is None:
            self._earlier = self._state_left_by(self._worker)
        else:
            self._earlier = self._agree(lambda: self._state_left_by(None))
        return position_after(self._earlier)

    def begin_later(self) -> None:
        """Look for the earlier position when the first step is stored, and add it to the numbers of steps."""
        self._start = None

    def start(self) -> Position:
        """Return the position to add to the numbers of steps. Errors: as `resume`, if it is not known yet."""
        if self._start is None:
            self._start = self.resume()
        return self._start

    def numbered(self, step: StepTensors) -> StepTensors:
        """Return the step with its numbers in the run. Errors: as `start`."""
        return moved_on(step, self.start())

    def store_state(self, store: Store, *, last_saved_step: int | None, is_due: bool = False) -> None:
        """Store the state for a later process, at most every ten seconds unless `is_due`. A failure is passed over."""
        if self._position is None or not (is_due or self._clock() - self._state_stored_at >= STATE_EVERY_SECONDS):
            return
        position = added(self._position(), self.start())
        if position.step == 0:
            return
        run = self._earlier.training_run + 1 if self._earlier else 1
        if last_saved_step is None and self._earlier:
            last_saved_step = self._earlier.last_saved_step
        self._state_stored_at = self._clock()
        with contextlib.suppress(OSError):  # the step is stored; the state follows with a later one
            write_state(store, self._worker, state_at(position, training_run=run, last_saved_step=last_saved_step))

    def _state_left_by(self, worker: str | None) -> TrainingState | None:
        """Return the progress of earlier processes of the worker, or of any worker for None."""
        state = read_state(self._open_store(), worker)
        marks = self._watermark.earlier(worker) if self._watermark is not None else ()
        return functools.reduce(further, map(state_at_mark, marks), state)
