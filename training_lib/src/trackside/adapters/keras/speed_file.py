"""The file of facts about the speed of a training of Keras: the lines of its stacks, and the queue of its batches."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import socket
import sys
from collections.abc import Callable, Iterator

import keras

from trackside.adapters.keras.training_calls import TrainingCalls
from trackside.capture.ground.guard import Guard
from trackside.capture.ground.script_lines import is_user_file, script_path
from trackside.capture.session import Rank, RunSession
from trackside.contracts.run_layout import PROFILES, worker_name
from trackside.frameworks.shared.shown_lines import shown_lines, usable_processors
from trackside.frameworks.shared.speed_facts_file import SpeedFactsFile
from trackside.profiling.phase_clock import PhaseClock
from trackside.profiling.processor_wait import ProcessorWait
from trackside.profiling.stack_sampler import StackSampler
from trackside.records.machine.performance_facts import PerformanceFacts
from trackside.storage.store import Store


class Speed:
    """Facts about the speed of a training.

    Attributes:
        clock: The clock of the training.
        wait: The waits of its thread for a processor.
        calls: The calls of the function that trains.

    Args:
        session: The run.
    """

    def __init__(self, session: RunSession) -> None:
        self.wait = ProcessorWait()
        self.clock = PhaseClock(meter=session.statistics.meter, waited=self.wait.take)
        self.calls = TrainingCalls(self.clock)
        self._session = session

    def parts(self, rank: Rank) -> Iterator[SpeedFile]:
        """Yield the file of a worker, and start to fill it. Yield none if the run has no place for it.

        Args:
            rank: The rank of this process.
        """
        session = self._session
        if session.has_place_for_profiles and session.statistics.is_on:
            file = SpeedFile(
                functools.partial(session.open_folder, PROFILES),
                worker=worker_name(rank.number),
                workers=rank.of,
                clock=self.clock,
                calls=self.calls,
                machine=session.environment.machine or socket.gethostname(),
                guard=session.guard,
            )
            session.statistics.budget.threads.append(file.thread_seconds)
            yield file


class SpeedFile(SpeedFactsFile):
    """The file of one worker, and the stack sampler that fills it; see `BackgroundPart`.

    Args:
        open_store: Opens the store of the run's profiles.
        worker: Name of the worker.
        workers: Number of workers.
        clock: The clock of the training.
        calls: The calls of the function that trains.
        machine: Name of this machine.
        guard: Logs a failure of the sampler.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        worker: str,
        workers: int,
        clock: PhaseClock,
        calls: TrainingCalls,
        machine: str,
        guard: Guard,
    ) -> None:
        super().__init__(open_store, worker=worker)
        self._workers, self._machine, self._calls = workers, machine, calls
        self._sampler = StackSampler(
            clock,
            is_user_file=is_user_file,
            model_file=sys.modules[keras.layers.Layer.__module__].__file__ or "",
            failed=lambda error: guard.warn_once(
                "stacks", "stacks are sampled no longer, all else goes on: %s.", error
            ),
            watch=None,
            compiled=calls,
            loop_file=inspect.unwrap(keras.Model.fit).__code__.co_filename,
            fetch_file=getattr(sys.modules.get("keras.src.trainers.epoch_iterator"), "__file__", None) or "",
        )
        self._sampler.start()

    def thread_seconds(self) -> float:
        """Return the processor time of the thread that samples stacks so far, in seconds."""
        return self._sampler.seconds

    def close(self) -> None:
        """End the sampling, and store the rest; see `BackgroundPart`."""
        self._sampler.stop()
        self.flush()

    def _facts(self) -> PerformanceFacts:
        return PerformanceFacts(
            device=_device(),
            workers=self._workers,
            processors=usable_processors(),
            lines=shown_lines(self._sampler, script_path()),
            queues=self._calls.queues(),
            machine=self._machine,
        )


def _device() -> str:
    """Return the kind of device that the backend computes on: "cpu" where it has none other."""
    with contextlib.suppress(Exception):  # another version of a backend: the host's times are shown as they are
        match keras.backend.backend():
            case "tensorflow":
                return "cuda" if sys.modules["tensorflow"].config.list_physical_devices("GPU") else "cpu"
            case "torch":
                return "cuda" if sys.modules["torch"].cuda.is_available() else "cpu"
            case "jax":
                return {"gpu": "cuda", "tpu": "xla"}.get(importlib.import_module("jax").default_backend(), "cpu")
    return "cpu"
