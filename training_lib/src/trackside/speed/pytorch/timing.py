"""The timing of one training: its phases, its DataLoaders, and the file about both."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Iterator
from typing import Any

from trackside.capture.session import Rank, RunSession
from trackside.capture.writing.writer_parts import BackgroundPart
from trackside.contracts.run.profiling_request import Window
from trackside.contracts.run_layout import PROFILES, worker_name
from trackside.frameworks.pytorch.data.batches import BatchSource
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.frameworks.pytorch.statistics.gradient_numbers import GradientNumbers
from trackside.frameworks.shared.detailed_profile import DetailedProfile
from trackside.speed.pytorch.collectives import GradientAverages
from trackside.speed.pytorch.loaders import Loaders
from trackside.speed.pytorch.operators import begin_operator_profile
from trackside.speed.pytorch.performance_file import PerformanceFile
from trackside.speed.pytorch.phases import StepPhases
from trackside.speed.pytorch.queue_takes import QueueTakes
from trackside.speed.pytorch.step_samples import SAMPLED, StepSamples


class Timing:
    """The timing of one session.

    Attributes:
        phases: The source of the seconds of each phase.
        batches: The source of numbers about batches, which also times them.
        windows: The windows of detailed profiling, a source.
        fetches: The source of the times of DataLoaders' own work.
        queues: The source of the waits for batches from other queues.

    Args:
        session: The session.
        modules: The modules that are trained.
        is_evaluating: Returns True during an evaluation.
        is_compiler_used: Returns True once the script compiles.
        pass_met: Called with an iterator of a DataLoader and its first batch for the training.
        numbers: Counts backward passes, and the batches that none of them used.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        modules: TrainedModules,
        is_evaluating: Callable[[], bool],
        is_compiler_used: Callable[[], bool],
        pass_met: Callable[[Any, Any], None],
        numbers: GradientNumbers,
    ) -> None:
        guard = session.guard
        self._loaders = Loaders()
        fetched = Fuse(guard, "looking at DataLoaders").protect(self._loaders.fetched)

        def loader_met(iterator: Any, batch: Any) -> None:
            fetched(iterator, batch)
            pass_met(iterator, batch)

        self.fetches = self._loaders.times
        self.phases = StepPhases(session.statistics, fuse=Fuse(guard, "timing the phases of steps"))
        self.batches = BatchSource(
            session.statistics,
            is_evaluating=is_evaluating,
            protect=Fuse(guard, "looking at batches").protect,
            clock=self.phases.clock,
            loader_met=loader_met,
            loader_starts=Fuse(guard, "timing the workers of DataLoaders").protect(self._loaders.starts),
            roots=modules.roots,
            passes=lambda: numbers.order.passes,
            unused=numbers.batches_unused,
        )
        self.queues = QueueTakes(
            session.statistics, clock=self.phases.clock, protect=Fuse(guard, "looking at queues").protect
        )
        self._samples = StepSamples(
            modules,
            clock=self.phases.clock,
            fuse=Fuse(guard, "timing modules"),
            is_compiler_used=is_compiler_used,
        )
        self._detailed = DetailedProfile(
            session,
            framework="pytorch",
            begin_operators=begin_operator_profile,
            protect=Fuse(guard, "profiling operators and functions").protect,
            others=(self._samples.window,),
        )
        self.windows = self._detailed.windows

    def files(self, session: RunSession, rank: Rank) -> Iterator[BackgroundPart]:
        """Yield the file about this worker's speed, and start to fill it. Yield none if the run has no place for it."""
        yield from self._detailed.parts(rank)
        if not session.has_place_for_profiles or not session.statistics.is_on:
            return
        file = PerformanceFile(
            functools.partial(session.open_folder, PROFILES),
            worker=worker_name(rank.number),
            workers=rank.of,
            clock=self.phases.clock,
            loaders=self._loaders,
            queues=self.queues,
            averages=GradientAverages(),
            samples=self._samples,
            sample_steps=lambda count: self.windows.open(SAMPLED, Window(steps=count)),
            machine=session.environment.machine or socket.gethostname(),
            guard=session.guard,
        )
        session.statistics.budget.threads.append(file.thread_seconds)
        yield file
