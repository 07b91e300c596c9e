"""Batches that the training's thread takes from a queue which another thread or process of the script fills.

`queue.Queue` (with its kinds) and the queues of `multiprocessing` are Python classes, whose `get` is wrapped. A queue
is one of batches if one of its first items holds tensors or arrays: all others are left alone. The time to make a batch
is that of a thread between two of its puts; another process shows none. `queue.SimpleQueue` is not written in Python:
its waits are read from the stack (`profiling/step_loop.py`).
"""

from __future__ import annotations

import functools
import multiprocessing.queues
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from threading import get_ident
from typing import Any

import numpy as np
import torch

from trackside.capture.ground.script_lines import Place, user_place
from trackside.capture.statistics.step_statistics import StepStatistics
from trackside.contracts.run.recorded_names import BATCHES_READY, DATA_PROCESSOR_WAIT_SECONDS
from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.pytorch.data.batches import LONG_FETCH_SECONDS
from trackside.frameworks.shared.adapter import StepHook
from trackside.frameworks.shared.replaced_methods import ReplacedFunction
from trackside.profiling.phase_clock import DATA, OTHER, PhaseClock
from trackside.profiling.processor_wait import ProcessorWait
from trackside.profiling.stack_sampler import Inside
from trackside.thread_stacks import Stack, stack_of

MOST_QUEUES = 64  # that are told apart; the items of more are not looked at
MOST_DEPTH = 3  # of lists and dicts in an item
FIRST_ITEMS = 3  # of a queue, one of which must be a batch
_OLD_SHARE = 0.98  # that a batch leaves of the sums of the newest ones


class MetQueue:
    """A queue that the training's thread has taken items from.

    Attributes:
        reference: The queue.
        kind: Its class: `queue.Queue`.
        taken_at: The line of the user's that took the first item.
        is_of_batches: True once an item was a batch.
        takes: Number of items that were taken since then.
        ready: Sum of the items that were ready at these takes; below 0 where a queue cannot be counted.
        makes: Number of batches whose making by a thread was timed.
        make_seconds: Seconds of all of them.
    """

    def __init__(self, taken_from: Any) -> None:
        self.reference = weakref.ref(taken_from)
        kind = type(taken_from)
        self.kind = f"{kind.__module__}.{kind.__name__}".replace("multiprocessing.queues.", "multiprocessing.")
        self.taken_at: Place | None = None
        self.is_of_batches, self.items = False, 0
        self.takes, self.ready = 0, 0.0
        self.makes, self.make_seconds = 0, 0.0
        self.newest_seconds = self.newest_waits = 0.0


class _Maker(threading.local):
    """A thread that fills queues: when it put its newest batch, and its waits for a processor since then."""

    since = 0.0

    def __init__(self) -> None:
        self.wait = ProcessorWait()


class QueueTakes:
    """A source of the waits for batches from queues, and of their number; see `CompiledStep` for `look` and `maker`.

    Args:
        statistics: The session's statistics.
        clock: The clock of the training.
        protect: Makes a function of ours harmless to the script.
    """

    def __init__(
        self,
        statistics: StepStatistics,
        *,
        clock: PhaseClock,
        protect: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self._statistics, self._clock = statistics, clock
        self._met: dict[int, MetQueue] = {}
        self._maker, self._making_thread, self._is_taking = _Maker(), 0, False
        self._watched_since = 0.0
        self._note, self._took, self._made = (
            protect(self._note_item),
            protect(self._note_take),
            protect(self._note_make),
        )

    @property
    def met(self) -> list[MetQueue]:
        """The queues of batches, the most used first. Any thread may ask."""
        found = [met for met in list(self._met.values()) if met.is_of_batches and met.takes]
        return sorted(found, key=lambda met: -met.takes)

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks in the methods of queues."""
        kinds = (queue.Queue, multiprocessing.queues.Queue, multiprocessing.queues.SimpleQueue)
        yield ReplacedFunction(queue.Queue, "put", functools.partial(_skipped, self._put))
        for kind in kinds:
            yield ReplacedFunction(kind, "get", functools.partial(_skipped, self._get))

    def rest_ended(self, steps: int) -> None:
        """Forget when threads put their newest batches: those put at rest were not seen."""
        self._watched_since = self._clock.read()

    def look(self) -> Inside | None:
        """Return None: no compiled function fetches here."""
        return None

    def maker(self) -> Stack:
        """Return the stack of the thread that fills the queue which the training waits for; [] if it does not."""
        return stack_of(self._making_thread) if self._is_taking and self._making_thread else []

    def _get(self, original: Any) -> Any:
        clock, met_by = self._clock, self._met

        def get(self_: Any, *arguments: Any, **named: Any) -> Any:
            if clock.thread != get_ident() or clock.current != OTHER or not torch.is_grad_enabled():
                return original(self_, *arguments, **named)
            met = met_by.get(id(self_))
            if met is None or not met.is_of_batches or met.reference() is not self_:
                item = original(self_, *arguments, **named)
                if met is None or met.items < FIRST_ITEMS or met.reference() is not self_:
                    self._note(self_, item)
                return item
            ready = _size(self_)
            before = clock.enter(DATA)
            self._is_taking = True
            try:
                item = original(self_, *arguments, **named)
            finally:
                self._is_taking = False
                clock.leave(before)
            self._took(met, ready)
            return item

        return get

    def _put(self, original: Any) -> Any:
        met_by, clock, maker, read = self._met, self._clock, self._maker, self._clock.read

        def put(self_: Any, *arguments: Any, **named: Any) -> Any:
            met = met_by.get(id(self_))
            if met is None or not met.is_of_batches or get_ident() == clock.thread:
                return original(self_, *arguments, **named)
            self._made(met)
            try:
                return original(self_, *arguments, **named)
            finally:
                maker.since = read()

        return put

    def _note_item(self, taken_from: Any, item: Any) -> None:
        met = self._met.get(id(taken_from))
        if met is None or met.reference() is not taken_from:
            if len(self._met) >= MOST_QUEUES:
                for number in [number for number, each in self._met.items() if each.reference() is None]:
                    del self._met[number]
                if len(self._met) >= MOST_QUEUES:
                    return
            met = self._met[id(taken_from)] = MetQueue(taken_from)
        met.items += 1
        if _is_batch(item):
            met.is_of_batches, met.taken_at = True, user_place()

    def _note_take(self, met: MetQueue, ready: float) -> None:
        met.takes += 1
        met.ready += ready
        added = self._statistics.recorder.numbers.added
        if ready >= 0:
            added[BATCHES_READY, "mean"] = ready
        in_fetches = self._clock.seconds[DATA]
        if in_fetches >= LONG_FETCH_SECONDS and (waited := self._clock.waits_so_far()) is not None:
            added[DATA_PROCESSOR_WAIT_SECONDS, "mean"] = min(waited, in_fetches)

    def _note_make(self, met: MetQueue) -> None:
        maker = self._maker
        waited = maker.wait.take()
        self._making_thread = get_ident()
        if maker.since > self._watched_since and waited is not None:
            seconds = self._clock.read() - maker.since
            met.makes += 1
            met.make_seconds += seconds
            met.newest_seconds = _OLD_SHARE * met.newest_seconds + seconds
            met.newest_waits = _OLD_SHARE * met.newest_waits + min(waited, seconds)


def _skipped(wrap: Callable[[Any], Any], original: Any) -> Any:
    wrapped = functools.wraps(original)(wrap(original))
    skip_frame(wrapped)
    return wrapped


def _size(taken_from: Any) -> float:
    """Return the number of items in a queue; -1 if that is unknown."""
    try:
        return float(taken_from.qsize())
    except Exception:  # noqa: BLE001 - macOS cannot count those of processes, and a `SimpleQueue` never
        return -1.0


def _is_batch(item: Any, depth: int = 0) -> bool:
    if isinstance(item, (torch.Tensor, np.ndarray)):
        return True
    parts = item.values() if isinstance(item, Mapping) else item if isinstance(item, (list, tuple)) else ()
    return depth < MOST_DEPTH and any(_is_batch(part, depth + 1) for part in parts)
