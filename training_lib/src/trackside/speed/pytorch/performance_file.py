"""The file of facts about a training's speed: a part of the writer thread, which also ends the stack sampler."""

from __future__ import annotations

import linecache
import math
import sys
import time
from collections.abc import Callable

import torch

from trackside.capture.ground.guard import Guard
from trackside.capture.ground.script_lines import Place, is_user_file, script_path, shown
from trackside.frameworks.pytorch.ground.source_lines import SourceLines
from trackside.frameworks.shared.shown_lines import MOST_CODE, shown_lines, usable_processors
from trackside.frameworks.shared.speed_facts_file import SpeedFactsFile
from trackside.profiling.garbage_watch import Collections, GarbageWatch
from trackside.profiling.hang_watch import Hang, HangWatch
from trackside.profiling.phase_clock import Phase, PhaseClock
from trackside.profiling.stack_sampler import StackSampler
from trackside.profiling.step_loop import StepLoop
from trackside.records.machine.performance_facts import (
    MOST_QUEUES,
    UNKNOWN_COUNT,
    GarbageFacts,
    HangFacts,
    LoaderFacts,
    PerformanceFacts,
    QueueFacts,
)
from trackside.speed.pytorch.collectives import GradientAverages
from trackside.speed.pytorch.device import device_of_training
from trackside.speed.pytorch.loaders import Loaders, MetLoader
from trackside.speed.pytorch.queue_takes import MetQueue, QueueTakes
from trackside.speed.pytorch.step_samples import StepSamples
from trackside.storage.store import Store
from trackside.thread_stacks import frames_from

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 15.0, 600.0  # between two samplings, longer and longer
_MODEL_FILE = torch.nn.modules.module.__file__


class PerformanceFile(SpeedFactsFile):
    """The file of one worker, and the stack sampler that fills it; see `BackgroundPart`.

    Args:
        open_store: Opens the store of the run's profiles.
        worker: Name of the worker.
        workers: Number of workers.
        clock: The clock of the training.
        loaders: The DataLoaders of the training.
        queues: Other queues that it takes batches from.
        averages: The averages of gradients over ranks.
        samples: The steps on which modules and collectives are timed.
        sample_steps: Asks for so many such steps.
        machine: Name of this machine.
        guard: Logs a failure of the sampler.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        worker: str,
        workers: int,
        clock: PhaseClock,
        loaders: Loaders,
        queues: QueueTakes,
        averages: GradientAverages,
        samples: StepSamples,
        sample_steps: Callable[[int], object],
        machine: str,
        guard: Guard,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(open_store, worker=worker, monotonic=monotonic)
        self._workers, self._loaders, self._queues, self._averages = workers, loaders, queues, averages
        self._samples, self._sample_steps, self._machine = samples, sample_steps, machine
        self._sample_at, self._sample_pause = -math.inf, FIRST_PAUSE_SECONDS
        self._source = SourceLines()
        self._watch = HangWatch(clock, is_user_file=is_user_file)
        loop = StepLoop(is_user_file=is_user_file)
        loop.note(frames_from(sys._getframe()))  # a run begins within its first step
        self._sampler = StackSampler(
            clock,
            watch=self._watch,
            loop=loop,
            is_user_file=is_user_file,
            model_file=_MODEL_FILE,
            compiled=queues,
            failed=lambda error: guard.warn_once(
                "stacks", "stacks are sampled no longer, all else goes on: %s.", error
            ),
        )
        self._sampler.start()
        self._garbage = GarbageWatch(clock, is_user_file=is_user_file)
        self._garbage.start()

    def flush(self) -> None:
        """Store new facts, and ask for steps to sample; see `BackgroundPart`."""
        now = self._monotonic()
        if now >= self._sample_at:
            self._sample_at = now + self._sample_pause
            self._sample_pause = min(2 * self._sample_pause, LONGEST_PAUSE_SECONDS)
            self._sample_steps(self._samples.next_steps)
        super().flush()

    def thread_seconds(self) -> float:
        """Return the processor time of the thread that samples stacks so far, in seconds."""
        return self._sampler.seconds

    def close(self) -> None:
        """End the sampling, and store the rest; see `BackgroundPart`."""
        self._sampler.stop()
        self._garbage.stop()
        self.flush()

    def _facts(self) -> PerformanceFacts:
        script = script_path()
        pins = self._loaders.times.pins
        return PerformanceFacts(
            device=device_of_training(),
            workers=self._workers,
            processors=usable_processors(),
            threads=torch.get_num_threads(),
            loaders=tuple(self._loader(loader, script) for loader in list(self._loaders.met)),
            lines=shown_lines(self._sampler, script),
            collectives=self._averages.facts() or self._samples.collectives(),
            garbage=_garbage(found, script) if (found := self._garbage.so_far()) is not None else None,
            hang=_hang(hang, script) if (hang := self._watch.hang) is not None else None,
            pins=pins.batches,
            pin_seconds=pins.seconds / pins.batches if pins.batches else 0.0,
            sampled_steps=self._samples.steps,
            modules=self._samples.modules,
            exchanges=self._samples.exchanges,
            machine=self._machine,
            queues=tuple(_queue(met, script) for met in self._queues.met[:MOST_QUEUES]),
        )

    def _loader(self, met: MetLoader, script: str) -> LoaderFacts:
        times = self._loaders.times.of(met.row)
        created_at = self._source.created_before(met.looped_at, "DataLoader") if met.looped_at else None
        return LoaderFacts(
            looped_at=shown(met.looped_at, script),
            created_at=shown(created_at, script),
            dataset=met.dataset,
            dataset_at=shown(met.dataset_at, script),
            collate=met.collate,
            collate_at=shown(met.collate_at, script),
            workers=met.workers,
            batch_size=met.batch_size,
            prefetch_factor=met.prefetch_factor,
            is_pinned=met.is_pinned,
            is_iterable=met.is_iterable,
            batch_bytes=met.batch_bytes,
            fetches=times.batches,
            fetch_seconds=times.seconds / times.batches if times.batches else 0.0,
            longest_fetch_seconds=times.longest_seconds,
            fetch_processes=times.processes,
            fetch_waited_share=times.waited_share,
        )


def _queue(met: MetQueue, script: str) -> QueueFacts:
    return QueueFacts(
        kind=met.kind,
        taken_at=shown(met.taken_at, script),
        takes=met.takes,
        ready=met.ready / met.takes if met.ready >= 0 else UNKNOWN_COUNT,
        makes=met.makes,
        make_seconds=met.make_seconds / met.makes if met.makes else 0.0,
        make_waited_share=min(1.0, met.newest_waits / met.newest_seconds) if met.newest_seconds else 0.0,
    )


def _garbage(found: Collections, script: str) -> GarbageFacts:
    return GarbageFacts(
        count=found.count,
        seconds=found.seconds,
        longest_seconds=found.longest_seconds,
        steps=found.steps,
        place=shown(Place(found.file, found.line), script) if found.file else "",
        function=found.function,
        code=linecache.getline(found.file, found.line).strip()[:MOST_CODE] if found.file else "",
    )


def _hang(hang: Hang, script: str) -> HangFacts:
    return HangFacts(
        phase=Phase(hang.phase).name.lower(),
        steps=hang.step,
        began_at=hang.began_at,
        seconds=hang.seconds,
        limit_seconds=hang.limit_seconds,
        place=shown(Place(hang.file, hang.line), script),
        function=hang.function,
        code=linecache.getline(hang.file, hang.line).strip()[:MOST_CODE],
        stacks=hang.stacks,
        is_over=hang.is_over,
    )
