"""A few steps, sampled now and then, on which modules and collectives are timed. No other step does anything for it."""

from __future__ import annotations

from collections.abc import Callable

from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.profiling.phase_clock import PhaseClock
from trackside.profiling.windows import ProfilingWindow, Recording, Write
from trackside.records.machine.performance_facts import CollectiveFacts, ExchangeTimes, ModuleTimes
from trackside.speed.pytorch.collective_times import CollectiveTimer
from trackside.speed.pytorch.device import device_of_training
from trackside.speed.pytorch.module_times import ModuleTimer

SAMPLED = "sampled steps"
MOST_SAMPLED = 5  # steps at a time
MODULES_AT_A_TIME = 1000  # timing one takes as long as a thin layer itself: of more modules fewer steps are sampled
_SCATTERS = "reduce_scatter"


class StepSamples:
    """The sampled steps of one training.

    Attributes:
        window: The window in which steps are sampled; the writer thread opens it.
        steps: Number of steps that were sampled.

    Args:
        modules: The modules that are trained.
        clock: The clock of the training.
        fuse: Keeps failures from the script.
        is_compiler_used: Returns True once the script compiles: it would compile anew for a wrapped collective.
    """

    def __init__(
        self, modules: TrainedModules, *, clock: PhaseClock, fuse: Fuse, is_compiler_used: Callable[[], bool]
    ) -> None:
        self.window = ProfilingWindow(SAMPLED, self._begin)
        self.steps = 0
        self._clock, self._fuse, self._is_compiler_used = clock, fuse, is_compiler_used
        self._trained = modules
        self._modules, self._collectives = ModuleTimer(modules, fuse=fuse), CollectiveTimer()

    @property
    def modules(self) -> tuple[ModuleTimes, ...]:
        """The times of modules on these steps."""
        return self._modules.times(self.steps) if self.steps else ()

    @property
    def exchanges(self) -> tuple[ExchangeTimes, ...]:
        """The times of collectives on these steps."""
        return self._collectives.times(self.steps) if self.steps else ()

    @property
    def next_steps(self) -> int:
        """Number of steps that are to be sampled at a time."""
        return max(1, min(MOST_SAMPLED, MODULES_AT_A_TIME // max(1, self._trained.count)))

    def collectives(self) -> CollectiveFacts | None:
        """Return the times of all collectives together where gradients are scattered over ranks (FSDP); else None.

        Others are the script's own: the line that calls them is among the sampled ones.
        """
        found = self.exchanges
        if not any(one.name.startswith(_SCATTERS) for one in found):
            return None
        return CollectiveFacts(
            sum(one.seconds for one in found), sum(one.waited for one in found), max(0, self._clock.steps)
        )

    def _begin(self) -> Recording | None:
        if self._fuse.is_blown or device_of_training() != "cpu":
            return None
        self._modules.start()
        if not self._is_compiler_used():
            self._collectives.start()
        return _Sampling(self)

    def end(self, since: int) -> None:
        """End the sampling of the steps since this one."""
        self._modules.stop()
        self._collectives.stop()
        self.steps += max(0, self._clock.steps - since)

    @property
    def step(self) -> int:
        """Number of steps that the training has taken."""
        return self._clock.steps


class _Sampling:
    """Steps that are being sampled; see `Recording`."""

    def __init__(self, samples: StepSamples) -> None:
        self._samples, self._since = samples, samples.step

    def stop(self) -> Write | None:
        """End it. Nothing is written: the times are part of the facts about speed."""
        self._samples.end(self._since)
        return None
