"""The way through a training step in which nothing is due and no statistics are recorded.

Nearly every step of a training that saves at intervals, with the statistics off, is such. One function before the
optimizer's step and one after it count it; what else counts steps is brought up to date when the way is closed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch.optim.optimizer import Optimizer

from trackside.capture.schedule import NOTHING_DUE
from trackside.capture.session import RunSession
from trackside.capture.step_engine import TRAIN
from trackside.frameworks.pytorch.facts.model_facts import ModelFactsSource
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.optimizers.source import SkippedSteps
from trackside.profiling.windows import ProfilingWindows


class IdleWay:
    """The idle way of one adapter. Nothing raises.

    Attributes:
        steps_left: Number of steps that may take it, from the open one on; 0 while it is closed.
        is_stepping: True within an optimizer's step that takes it.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        facts: ModelFactsSource,
        validation: Validation,
        skipped_steps: SkippedSteps,
        windows: ProfilingWindows,
    ) -> None:
        self.steps_left, self.is_stepping = 0, False
        self._session, self._engine, self._guard = session, session.engine, session.guard
        self._facts, self._validation, self._skipped_steps = facts, validation, skipped_steps
        self._windows = windows
        self._optimizer: Callable[[], Optimizer | None] = lambda: None
        self._open_step = session.engine.open_step
        self._unnoted = 0  # steps that the facts do not know of

    def open_after(self, optimizer: Optimizer) -> None:
        """Open the way, if possible, after the only optimizer has ended a step on the long way."""
        engine, session = self._engine, self._session
        if session.statistics.is_on or session.last is not None or engine.mode != TRAIN:
            return
        if self._skipped_steps.has_fused:  # each of its steps has a flag to be read
            return
        self.steps_left = min(engine.steps_to_count(), self._facts.steps_to_skip())
        self._open_step = engine.open_step
        if self._optimizer() is not optimizer:
            self._optimizer = weakref.ref(optimizer)

    def close(self) -> None:
        """Close the way. From now on steps take the long one."""
        self.steps_left, self.is_stepping = 0, False
        if self._unnoted:
            self._facts.skip_steps(self._unnoted)
            self._unnoted = 0

    def begin(self, optimizer: Optimizer, args: Any, kwargs: Any) -> bool:
        """Handle the moment before an optimizer's step, with the arguments of its hook.

        Return True if nothing is left to do.
        """
        is_as_before = not (kwargs or len(args) > 1 or self._guard.is_off or self._validation.is_watching)
        is_watched = self._engine.step >= self._windows.watched_from
        if not is_as_before or is_watched or self._facts.is_looking or self._optimizer() is not optimizer:
            self.close()
            return False
        self._skipped_steps.has_stepped = self.is_stepping = True
        return True

    def end(self, optimizer: Optimizer) -> bool:
        """Handle the moment after it, and end the step. Return True if nothing is left to do."""
        self.is_stepping = False
        engine, open_step = self._engine, self._open_step
        is_as_before = engine.due is NOTHING_DUE and engine.open_step is open_step and not self._guard.is_off
        if not is_as_before or open_step.unsettled or open_step.settled or self._optimizer() is not optimizer:
            self.close()
            return False
        engine.step += 1
        open_step.mode_step += 1
        self._unnoted += 1
        self.steps_left -= 1
        if not self.steps_left:
            self.close()
        return True
