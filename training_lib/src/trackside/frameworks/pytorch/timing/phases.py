"""The source of the seconds of each step and of its phases; see `profiling/phase_clock.py`.

Fetches, backward passes and optimizers are timed at every step, where they are wrapped anyway. Calls of models are
timed at the first steps and at a few of every thousand: observing them costs a microsecond for each module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trackside.capture.step_statistics import StepStatistics
from trackside.frameworks.pytorch.compiling.tracing import untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.modules.calls import ModuleCalls
from trackside.profiling.phase_clock import EVALUATION, FORWARD, NOT_OURS, OTHER, PhaseClock

FIRST_STEPS = 64  # with timed calls of models
STEPS_IN_A_ROW, STEP_INTERVAL = 16, 1024


class StepPhases:
    """A source of the seconds of each phase.

    Attributes:
        clock: The clock; what wraps a phase enters and leaves it.

    Args:
        statistics: The session's statistics.
        fuse: Keeps failures from the script.
    """

    def __init__(self, statistics: StepStatistics, *, fuse: Fuse) -> None:
        self.clock = PhaseClock()
        self._forward = ModelCalls(self.clock, fuse=fuse)
        fuse.when_blown = self._stop
        statistics.samplers.append(fuse.protect(self._step_ends))

    def install(self) -> Callable[[], None]:
        """Do nothing yet. Return the function that removes everything."""
        return self._stop

    def _step_ends(self, numbers: dict[tuple[str, str], Any]) -> None:
        clock = self.clock
        clock.take(numbers)
        is_timed = clock.steps <= FIRST_STEPS or clock.steps % STEP_INTERVAL < STEPS_IN_A_ROW
        if is_timed is not self._forward.calls.is_on:
            self._forward.calls.switch(on=is_timed)

    def _stop(self) -> None:
        self._forward.calls.remove()
        self.clock.thread = 0  # nothing is counted from here on


class ModelCalls:
    """An observer of calls: it times the outermost one, of a model or a loss.

    Attributes:
        calls: The switch.
    """

    def __init__(self, clock: PhaseClock, *, fuse: Fuse) -> None:
        self.calls = ModuleCalls(self)
        self._clock = clock
        self._module = 0  # the id of the timed one; 0 for none
        self._before = NOT_OURS
        self._begin, self._end = untraced(fuse.protect(self._called)), untraced(fuse.protect(self._returned))

    def before_call(self, module: torch.nn.Module, _args: Any, _kwargs: Any, *, is_outermost: bool) -> None:
        """Begin the forward phase; see `CallObserver`."""
        if is_outermost:
            self._begin(module)

    def after_call(self, module: torch.nn.Module, _output: Any) -> None:
        """End the forward phase; see `CallObserver`."""
        if self._module == id(module):
            self._end()

    def _called(self, module: torch.nn.Module) -> None:
        is_training = torch.is_grad_enabled()
        if self._clock.current in (
            OTHER,
            EVALUATION,
        ):  # else it is part of another phase, as a transform of the data is
            self._before = self._clock.enter(FORWARD if is_training else EVALUATION)
            self._module = id(module) if self._before >= 0 else 0

    def _returned(self) -> None:
        self._module = 0
        self._clock.leave(self._before)
