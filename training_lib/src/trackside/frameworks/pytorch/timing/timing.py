"""The timing of one training: its phases, its DataLoaders, and the file about both."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from trackside.capture.session import Rank, RunSession
from trackside.capture.writer_parts import BackgroundPart
from trackside.contracts.run_layout import PROFILES, worker_name
from trackside.frameworks.detailed_profile import DetailedProfile
from trackside.frameworks.pytorch.data.batches import BatchSource
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.timing.collectives import GradientAverages
from trackside.frameworks.pytorch.timing.loaders import Loaders
from trackside.frameworks.pytorch.timing.operators import begin_operator_profile
from trackside.frameworks.pytorch.timing.performance_file import PerformanceFile
from trackside.frameworks.pytorch.timing.phases import StepPhases


class Timing:
    """The timing of one session.

    Attributes:
        phases: The source of the seconds of each phase.
        batches: The source of numbers about batches, which also times them.
        windows: The windows of detailed profiling, a source.

    Args:
        session: The session.
        is_evaluating: Returns True during an evaluation.
    """

    def __init__(self, session: RunSession, *, is_evaluating: Callable[[], bool]) -> None:
        guard = session.guard
        self._loaders = Loaders()
        self.phases = StepPhases(session.statistics, fuse=Fuse(guard, "timing the phases of steps"))
        self.batches = BatchSource(
            session.statistics,
            is_evaluating=is_evaluating,
            protect=Fuse(guard, "looking at batches").protect,
            clock=self.phases.clock,
            loader_met=Fuse(guard, "looking at DataLoaders").protect(self._loaders.fetched),
        )
        self._detailed = DetailedProfile(
            session,
            framework="pytorch",
            begin_operators=begin_operator_profile,
            protect=Fuse(guard, "profiling operators and functions").protect,
        )
        self.windows = self._detailed.windows

    def files(self, session: RunSession, rank: Rank) -> Iterator[BackgroundPart]:
        """Yield the file about this worker's speed, and start to fill it. Yield none if the run has no place for it."""
        yield from self._detailed.parts(rank)
        if not session.has_place_for_profiles or not session.statistics.is_on:
            return
        yield PerformanceFile(
            functools.partial(session.open_folder, PROFILES),
            worker=worker_name(rank.number),
            workers=rank.of,
            clock=self.phases.clock,
            loaders=self._loaders,
            averages=GradientAverages(),
            guard=session.guard,
        )
