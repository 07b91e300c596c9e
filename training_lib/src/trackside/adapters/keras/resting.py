"""The ways of a Keras training into a rest and out of it; `capture/statistics/rest.py` decides when.

At rest a batch of `fit` meets two of our calls: one notes that it has begun, one counts it. A step of a loop by hand
meets one, at its update. What each step calls besides is as Keras made it. What comes once in a while stays replaced:
epochs, evaluations and predictions, the making of layers and optimizers.
"""

from __future__ import annotations

import math
from typing import Any

import keras

from trackside.adapters.keras.replicas import number_of_replicas
from trackside.adapters.keras.step import KerasStep
from trackside.adapters.keras.update_size import UpdateSize
from trackside.adapters.keras.values import number_of
from trackside.adapters.shared.listening import ListeningAdapter
from trackside.capture.steps.step_engine import TRAIN
from trackside.frameworks.shared.replaced_methods import StepHooks
from trackside.profiling.phase_clock import PhaseClock

EAGER = frozenset({"torch"})  # the others compile steps, so that their loops by hand show too little to be counted


class Resting:
    """The rests of one adapter.

    Attributes:
        hooks: What each step meets; empty until the adapter listens.
        is_within_step: True while the open step is one whose beginning was not seen.
        end: Ends the rest, if the training is at rest. Never raises.

    Args:
        adapter: The adapter.
        step: The step under way.
        clock: The clock of the training.
        size: Measures the size of updates.
    """

    def __init__(self, adapter: ListeningAdapter, step: KerasStep, *, clock: PhaseClock, size: UpdateSize) -> None:
        session = adapter.session
        self._adapter, self._session, self._engine, self._rest = adapter, session, session.engine, session.rest
        self._step, self._clock, self._size = step, clock, size
        self._windows = adapter.detailed.windows
        self._windows.opened = self._rest.end_soon
        self.hooks = StepHooks(())
        self.is_within_step = self._is_forbidden = False
        self.end = session.guard.protect("ending a rest", self._end)

    def begin_after_step(self) -> None:
        """Begin a rest after a training step that has ended, if it is time to."""
        if not self._rest.begin(at_most=self._at_most()):
            return
        with self._rest.beginning():
            self._is_forbidden = not self.hooks.take_out()
            self._clock.stop()
        if self._is_forbidden:  # another library has built upon one, which is still at work
            self.end()

    def batch_begins(self, mode: str) -> bool:
        """Return True if the batch is at rest, and is seen by nobody else."""
        if not self._rest.is_on:
            return False
        if mode != TRAIN:
            self.end()
            return False
        self._step.batch_mode = mode
        return True

    def batch_ended(self, mode: str, batch: int, logs: Any) -> bool:
        """Count a batch at rest, with its number and the metrics so far. Return True if it was one."""
        if not self._rest.is_on or mode != TRAIN:
            return False
        self._step.batch_mode = ""
        if self._rest.passed():
            self.end(batch, logs)
        return True

    def update_begins(self) -> bool:
        """Return True if the update is at rest, and is seen by nobody else."""
        return self._rest.is_on and self.goes_on()

    def update_ended(self) -> None:
        """Count a step of a loop by hand at rest."""
        if self._step.batch_mode != TRAIN and self._rest.passed():
            self.end()

    def goes_on(self) -> bool:
        """End the rest where a loop by hand cannot be shown outside of a batch. Return True if it goes on."""
        if self._step.batch_mode != TRAIN and keras.backend.backend() not in EAGER:
            self.end()
        return self._rest.is_on

    def leave_out_step(self, batch: int, logs: Any) -> None:
        """End a batch that was not seen from its beginning: only the number of its step is recorded."""
        self._keep_mean(batch, logs)
        self._engine.end_step()
        self.is_within_step = False
        self._rest.leave_out(1)
        self._begin_step(1)

    def _end(self, batch: int | None = None, logs: Any = None) -> None:
        """End the rest; between two batches with the number of the one that has ended, and the metrics so far."""
        with self._rest.ending() as rested:
            if rested is None:
                return
            if not self._session.guard.is_off:
                self.hooks.put_in()
                self.is_within_step = self._step.batch_mode == TRAIN
                if rested:  # a rest that was refused has missed no batch
                    self._keep_mean(batch, logs)
                if self._session.statistics.is_on:
                    self._size.look(self._session.statistics.recorder)
        self._begin_step(rested)

    def _keep_mean(self, batch: int | None, logs: Any) -> None:
        mean = number_of(logs.get("loss")) if isinstance(logs, dict) else None
        self._step.means.go_on(TRAIN, batch, mean)

    def _begin_step(self, unwatched: int) -> None:
        if self._clock.thread:
            self._clock.restart(unwatched)
        if self._session.statistics.meter.is_on:
            self._session.statistics.meter.leave()

    def _at_most(self) -> int:
        """Return the number of steps that may be at rest from the open one on."""
        session, step = self._session, self._step
        if self._is_forbidden or session.last is not None or self._adapter.progressed is not None:
            return 0
        if session.environment.world_size > 1 or number_of_replicas() > 1:
            return 0
        if step.is_by_hand and keras.backend.backend() not in EAGER:
            return 0
        steps, until = self._engine.steps_to_count(), self._windows.watched_from
        return steps if until == math.inf else min(steps, int(until) - self._engine.step)
