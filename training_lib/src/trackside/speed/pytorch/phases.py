"""The source of the seconds of each step and of its phases; see `profiling/phase_clock.py`.

Fetches, backward passes and optimizers are timed where they are wrapped anyway. Calls of models are not: nothing of
ours is in place in them while nothing is saved, so their time is read from the samples of the stack.
"""

from __future__ import annotations

from collections.abc import Callable

from trackside.capture.statistics.step_statistics import StepStatistics
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.profiling.phase_clock import PhaseClock
from trackside.profiling.processor_wait import ProcessorWait


class StepPhases:
    """A source of the seconds of each phase.

    Attributes:
        clock: The clock; what wraps a phase enters and leaves it.

    Args:
        statistics: The session's statistics.
        fuse: Keeps failures from the script.
    """

    def __init__(self, statistics: StepStatistics, *, fuse: Fuse) -> None:
        self._processor_wait = ProcessorWait()
        self.clock = PhaseClock(
            meter=statistics.meter, waited=self._processor_wait.take, waits_so_far=self._processor_wait.so_far
        )
        fuse.when_blown = self._stop
        statistics.samplers.append(fuse.protect(self.clock.take))

    def install(self) -> Callable[[], None]:
        """Return the function that stops the clock: it is installed by those who wrap the phases."""
        return self._stop

    def _stop(self) -> None:
        self.clock.thread = 0  # nothing is counted from here on
        self._processor_wait.close()
