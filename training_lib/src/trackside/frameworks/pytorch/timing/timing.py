"""The timing of one training: its phases, its DataLoaders, and the file about both."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from trackside.capture.session import Rank, RunSession
from trackside.contracts.run_layout import PROFILES, worker_name
from trackside.environment import inherited
from trackside.frameworks.pytorch.data.batches import BatchSource
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.timing.loaders import Loaders
from trackside.frameworks.pytorch.timing.performance_file import PerformanceFile
from trackside.frameworks.pytorch.timing.phases import StepPhases
from trackside.profiling.machine_part import MachinePart
from trackside.profiling.system_sampler import FIRST_NODE

LEAST_INTERVAL_MS = 100


class Timing:
    """The timing of one session.

    Attributes:
        phases: The source of the seconds of each phase.
        batches: The source of numbers about batches, which also times them.

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

    def machine(self, session: RunSession, rank: Rank) -> Iterator[MachinePart]:
        """Yield the sampler of this machine, if the request asks for it and this process is the machine's first."""
        environment, interval = session.environment, session.request.machine_interval_ms
        number = rank.number if environment.local_rank is None else environment.local_rank
        if interval and number == 0 and session.has_place_for_profiles and not environment.ended_by:
            yield MachinePart(
                functools.partial(session.open_folder, PROFILES),
                interval_ms=max(interval, LEAST_INTERVAL_MS),
                node=environment.machine or FIRST_NODE,
                environment=inherited(),
            )

    def files(self, session: RunSession, rank: Rank) -> Iterator[PerformanceFile]:
        """Yield the file about this worker's speed, and start to fill it. Yield none if the run has no place for it."""
        if not (session.has_place_for_profiles and session.statistics.is_on):
            return
        yield PerformanceFile(
            functools.partial(session.open_folder, PROFILES),
            worker=worker_name(rank.number),
            workers=rank.of,
            clock=self.phases.clock,
            loaders=self._loaders,
            guard=session.guard,
        )
