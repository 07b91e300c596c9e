"""The short way through a batch of `fit` with only a loss, a learning rate and the size of the update to record.

All calls of Keras that belong to a step come here first. Where the step may be kept, each is one function. For any
other, and wherever a step turns out to be another, the call goes on to the long way, which finds all of it up to date.

On PyTorch the loss, and the update, are seen while they are computed. Where Keras compiles the step, its mean loss is
all that is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import keras

from trackside.capture.last_step import StepPosition
from trackside.capture.plain_steps import KeptStep
from trackside.capture.schedule import NOTHING_DUE
from trackside.capture.session import RunSession
from trackside.capture.statistic_rows import Reading, Watched
from trackside.capture.step_engine import TRAIN
from trackside.frameworks.keras.step import LOSS, KerasStep
from trackside.frameworks.keras.update_size import UpdateSize
from trackside.frameworks.keras.values import learning_rate_of, number_of
from trackside.frameworks.step_keeper import MOST_KEPT, NOT_READ, StepKeeper
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, DATA, OPTIMIZER, OTHER, PhaseClock
from trackside.profiling.processor_wait import ProcessorWait
from trackside.profiling.windows import ProfilingWindows

RATE = "hyperparameters/optimizer/group_0/lr"
LONG = 1.5  # times the usual step
_MOST_UNREAD = 8  # steps
_STEPS_OF_USUAL = 32
FETCHES_BETWEEN = frozenset({"torch"})  # on TensorFlow and JAX the function that trains fetches its batch itself

_IS_TORCH = keras.backend.backend() == "torch"
_BETWEEN = DATA if keras.backend.backend() in FETCHES_BETWEEN else OTHER
_WATCHED = Watched((), (RATE,))


@dataclass
class LongWay:
    """The functions of the long way; none of them raises. See `calls.Listener`.

    Attributes:
        notes_progress: True if `note_progress` has anything to do.
        phase: The phase of the time that is not ours.
    """

    batch_begins: Callable[[str, Any], Any]
    batch_ended: Callable[[str, int, Any], Any]
    epoch_ended: Callable[[int, Any], Any]
    loop_began: Callable[[str], Any]
    loss_computed: Callable[[Any, Any, Any, Any, Any], Any]
    before: Callable[[Any, Any, Any], Any]
    after: Callable[[Any, Any], Any]
    note_progress: Callable[[], Any]
    notes_progress: bool = False
    phase: int = OTHER


class LongSteps:
    """The waits of this thread for a processor, read at steps that took long.

    To read them costs a tenth of all that a step costs. Those of some steps before rather excuse a long step.

    Attributes:
        take: Returns the seconds without a processor since the last reading; None if unknown.
        close: Closes what they are read from.

    Args:
        took: Returns the seconds of the open step so far.
    """

    def __init__(self, took: Callable[[], float]) -> None:
        wait = ProcessorWait()
        self._took, self.take, self.close = took, wait.take, wait.close
        self._usual_seconds, self._unread = 0.0, 0

    def waited(self) -> float | None:
        """Return the same at the end of a step that took long, and now and then; None at others."""
        took = self._took()
        self._unread += 1
        is_read = took > LONG * self._usual_seconds or self._unread >= _MOST_UNREAD
        self._usual_seconds += (took - self._usual_seconds) / _STEPS_OF_USUAL
        if not is_read:
            return None
        self._unread = 0
        return self.take()


class _Plain:
    """Stands for an update that takes the short way."""


class ShortWay(StepKeeper):
    """The short way of one adapter. Nothing raises.

    Attributes:
        is_within: True in a batch that takes it.

    Args:
        session: The run.
        clock: The clock of its steps.
        way: The long way.
        step: The step under way.
        size: Measures the size of updates.
        windows: The windows of detailed profiling.
        waited: Returns the seconds without a processor since its last call; None if unknown.
    """

    def __init__(
        self,
        session: RunSession,
        clock: PhaseClock,
        *,
        way: LongWay,
        step: KerasStep,
        size: UpdateSize,
        windows: ProfilingWindows,
        waited: Callable[[], float | None],
    ) -> None:
        super().__init__(session, clock)
        self.is_within = False
        self._guard, self._way, self._step, self._size, self._windows = session.guard, way, step, size, windows
        self._waited = waited
        self._model: Any = None  # of the newest batch
        self._optimizer: Any = None  # of the newest update
        self._rate: Any = None  # its variable; None if it has none
        self._loss_type: Any = _Plain
        self._updates = 0  # of this step, seen with values
        self._is_compiled = False

    def batch_begins(self, mode: str, model: Any) -> None:
        """Handle the start of a batch."""
        clock = self._clock
        is_other = not self._left or mode != TRAIN or model is not self._model or clock.current or self._guard.is_off
        if is_other or get_ident() != clock.thread:
            self.leave()
            self._model, self._updates = model, 0
            self._way.batch_begins(mode, model)
            return
        now = self._read()
        if self._meter.is_on:
            self._meter.enter()
        if self._way.notes_progress:
            self._way.note_progress()
        clock.seconds[_BETWEEN] += now - clock.moved_at
        clock.moved_at = now
        step = self._step
        step.batch_mode, step.losses = mode, []
        self.is_within, self._updates = True, 0
        if self._meter.is_on:
            self._meter.leave()

    def loss_computed(self, model: Any, x: Any, y: Any, predictions: Any, loss: Any) -> None:
        """Handle a loss of a model."""
        clock = self._clock
        if (
            not self.is_within
            or not isinstance(loss, self._loss_type)
            or clock.current == OPTIMIZER
            or loss.numel() != 1
        ):
            self.leave()
            self._loss_type = type(loss)
            self._way.loss_computed(model, x, y, predictions, loss)
            return
        now = self._read()
        clock.seconds[clock.current] += now - clock.moved_at
        if self._meter.is_on:
            self._meter.enter()
        try:
            self._step.losses.append(loss.item())
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            self._record.switch_off(error)
        if self._meter.is_on:
            self._meter.leave()
        clock.current, clock.moved_at = BACKWARD, self._read()
        clock.seconds[CAPTURE] += clock.moved_at - now

    def before(self, optimizer: Any, gradients: Any, variables: Any) -> Any:
        """Handle the moment before an update. Return what `after` gets."""
        if not self.is_within or self._is_compiled or optimizer is not self._optimizer or self._updates:
            self.leave()
            return self._way.before(optimizer, gradients, variables)
        clock = self._clock
        now = self._read()
        clock.seconds[clock.current] += now - clock.moved_at
        clock.current, clock.moved_at = OPTIMIZER, now
        return _Plain

    def after(self, optimizer: Any, update: Any) -> None:
        """Handle the moment after it."""
        if update is not _Plain:
            if update is not None:
                self._optimizer = optimizer
                self._updates += 1
            self._way.after(optimizer, update)
            return
        clock = self._clock
        now = self._read()
        clock.seconds[OPTIMIZER] += now - clock.moved_at
        if self._meter.is_on:
            self._meter.enter()
        try:
            variable = optimizer._learning_rate
            rate = variable._value.item() if variable is self._rate else learning_rate_of(optimizer)
            if rate is None or len(self._reading.rates) != 1 or self._reading.rates[0] != rate:  # type: ignore[arg-type,index]
                self._reading = NOT_READ if rate is None else Reading(_WATCHED, [rate])
            if (self._recorder.steps + len(self._kept)) % self._recorder.budget.intervals.updates == 0:
                self._size.measure(optimizer, self._recorder)
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            self._record.switch_off(error)
        self._updates += 1
        if self._meter.is_on:
            self._meter.leave()
        clock.current, clock.moved_at = OTHER, self._read()
        clock.seconds[CAPTURE] += clock.moved_at - now

    def batch_ended(self, mode: str, batch: int, logs: Any) -> None:
        """Handle the end of a batch."""
        if self.is_within and mode == TRAIN and self._end(logs):
            return
        self.leave()
        self._way.batch_ended(mode, batch, logs)
        self._plan()

    def loop_began(self, mode: str) -> None:
        """Handle the start of an epoch, an evaluation or a prediction."""
        self.leave()
        self._way.loop_began(mode)

    def epoch_ended(self, epoch: int, logs: Any) -> None:
        """Handle the end of an epoch."""
        self.leave()
        self._way.epoch_ended(epoch, logs)

    def leave(self) -> None:
        """Leave the short way, if a step is on it: what it has seen of the step becomes the long way's."""
        if not self.is_within:
            self.settle()
            return
        self.is_within = False
        self._way.phase = self._clock.current
        self.settle()
        if self._updates and self._record.is_on:
            self._recorder.add(self._reading)

    def _end(self, logs: Any) -> bool:
        """End a step on the short way. Return False if it is another."""
        step, record, clock = self._step, self._record, self._clock
        if not record.is_on or self._engine.step >= self._windows.watched_from or self._recorder is not record.recorder:
            return False
        losses = step.losses
        if self._is_compiled:
            if losses or not isinstance(logs, dict):
                return False
            mean = number_of(logs.get("loss"))
            loss = None if mean is None else step.means.loss(mean)
        else:
            loss = losses[0] if losses and self._updates else None
        if loss is None:
            return False
        now = self._read()
        clock.seconds[clock.current] += now - clock.moved_at
        clock.moved_at = now
        meter = self._meter
        if meter.is_on:
            meter.enter()
        try:
            self._recorder.losses.setdefault(TRAIN, []).append((LOSS, loss))
            if self._keep() is None:
                self._recorder.losses[TRAIN].pop()
                return False
            step.batch_mode, step.losses, self.is_within = "", [], False
            if not self._left:
                self.settle(is_within_step=False)
                self._plan()
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            record.switch_off(error)
        if meter.is_on:
            meter.leave()
        clock.current, now = OTHER, self._read()
        clock.seconds[CAPTURE] += now - clock.moved_at
        clock.moved_at = now
        return True

    def _settle_others(self, kept: Sequence[KeptStep]) -> None:
        last = kept[-1]
        self._step.ended = StepPosition(last.step, TRAIN, last.mode_step)
        if not self._is_compiled:
            self._step.means.skip()

    def _plan(self) -> None:
        """Decide how many of the next steps may be kept."""
        record, step = self._record, self._step
        recorder = self._recorder = record.recorder
        is_usual = record.is_on and not step.is_by_hand and not step.batch_mode and self._engine.mode == TRAIN
        self._is_compiled = not self._updates
        if not is_usual or self._engine.due is not NOTHING_DUE or self._updates != (1 if _IS_TORCH else 0):
            self._left = 0
            return
        started = recorder.budget.thread_seconds()
        costs = recorder.budget.costs
        self._long_step = LONG * costs.step if costs is not None else 0.0
        if not self._is_compiled:
            rate = getattr(self._optimizer, "_learning_rate", None)
            self._rate = rate if hasattr(getattr(rate, "_value", None), "item") else None
        else:
            self._reading = NOT_READ
        kept = recorder.steps_to_keep(takes_tiers=not self._is_compiled, keeps_updates=True)
        self._left = min(kept, self._engine.steps_to_count(), MOST_KEPT)
        recorder.budget.spend_on_rows(started)
        if self._left and self._meter.is_on:
            recorder.budget.begin_step(is_sampled=True)  # a kept step has no part in the end of this one
