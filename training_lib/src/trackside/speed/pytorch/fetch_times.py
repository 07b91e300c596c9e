"""The times of DataLoaders' own work: to make batches, in workers and in the training process, and to pin them.

Workers add to sums in memory that they share with the training, and the writer thread reads them: nothing is sent, and
the training thread does nothing for it. A worker that is not forked (spawn, forkserver) shares none: its times are
unknown, not 0.
"""

from __future__ import annotations

import functools
import mmap
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import get_worker_info
from torch.utils.data._utils import fetch as fetching
from torch.utils.data._utils import pin_memory as pinning

from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.shared.adapter import StepHook
from trackside.frameworks.shared.replaced_methods import ReplacedFunction
from trackside.profiling.processor_wait import ProcessorWait

MOST_DATA_SETS = 16
MOST_WORKERS = 128  # of one DataLoader, that are told apart
_PROCESSES = MOST_WORKERS + 1  # the last one is the training's own
_NUMBERS = 5  # batches, seconds, seconds of the longest; of the newest ones: seconds, and seconds without a processor
_OLD_SHARE = 0.98  # that a batch leaves of the sums of the newest ones: some fifty count
UNKNOWN = -1


@dataclass(frozen=True)
class WorkTimes:
    """The times of one kind of work.

    Attributes:
        batches: Number of batches.
        seconds: Seconds of all together.
        longest_seconds: Seconds of the longest.
        processes: Number of processes that did it.
        waited_share: Share of the newest batches in which workers were ready and had no processor; 0 if unknown.
    """

    batches: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0
    processes: int = 0
    waited_share: float = 0.0


class FetchTimes:
    """The times of the DataLoaders of one training: a source (see `frameworks/shared/adapter.py`).

    Args:
        read: Returns seconds.
    """

    def __init__(self, read: Callable[[], float] = time.perf_counter) -> None:
        self._read = read
        size = _NUMBERS * (MOST_DATA_SETS * _PROCESSES + 1)  # the last one is of pinning
        self._sums = memoryview(mmap.mmap(-1, 8 * size)).cast("d")  # shared with processes that are forked from now on
        self._rows: dict[tuple[int, type], int] = {}
        self._is_pinning = threading.local()

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks in the functions that make and pin batches. A process that is forked inherits them."""
        for kind in (fetching._MapDatasetFetcher, fetching._IterableDatasetFetcher):
            yield ReplacedFunction(kind, "fetch", self._watched)
        yield ReplacedFunction(pinning, "pin_memory", self._watched_pinning)

    def row_of(self, dataset: Any) -> int:
        """Return the row of a data set's times, a new one if it has none; `UNKNOWN` for one too many."""
        key = id(dataset), type(dataset)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MOST_DATA_SETS:
                return UNKNOWN
            row = self._rows[key] = len(self._rows)
        return row

    def of(self, row: int) -> WorkTimes:
        """Return the times of the batches of a data set.

        Args:
            row: Its row.
        """
        if row < 0:
            return WorkTimes()
        first = row * _PROCESSES
        places = range(_NUMBERS * first, _NUMBERS * (first + _PROCESSES), _NUMBERS)
        newest, waited = (sum(self._sums[place + number] for place in places) for number in (3, 4))
        found = [times for process in range(_PROCESSES) if (times := self._at(first + process)).batches]
        return WorkTimes(
            sum(times.batches for times in found),
            sum(times.seconds for times in found),
            max((times.longest_seconds for times in found), default=0.0),
            len(found),
            min(1.0, waited / newest) if newest else 0.0,
        )

    @property
    def pins(self) -> WorkTimes:
        """Times of the copies of batches to pinned memory."""
        return self._at(MOST_DATA_SETS * _PROCESSES)

    def _at(self, place: int) -> WorkTimes:
        batches, seconds, longest = self._sums[_NUMBERS * place : _NUMBERS * place + 3].tolist()
        return WorkTimes(int(batches), seconds, longest, 1 if batches else 0)

    def _add(self, place: int, seconds: float, waited: float | None = None) -> None:
        sums, first = self._sums, _NUMBERS * place
        if waited is not None:
            sums[first + 3] = _OLD_SHARE * sums[first + 3] + seconds
            sums[first + 4] = _OLD_SHARE * sums[first + 4] + waited
        sums[first + 1] += seconds
        sums[first + 2] = max(sums[first + 2], seconds)
        sums[first] += 1

    def _watched(self, original: Any) -> Any:
        read, wait = self._read, ProcessorWait()

        @functools.wraps(original)
        def fetch(fetcher: Any, *arguments: Any, **named: Any) -> Any:
            worker = get_worker_info()
            if worker is not None:  # of the training's own thread the clock of the step knows it
                wait.take()
            began = read()
            batch = original(fetcher, *arguments, **named)
            self._fetched(fetcher.dataset, worker, read() - began, wait.take() if worker is not None else None)
            return batch

        skip_frame(fetch)
        return fetch

    def _fetched(self, dataset: Any, worker: Any, seconds: float, waited: float | None) -> None:
        if worker is None:
            row, number = self.row_of(dataset), MOST_WORKERS
        else:  # in a process that was forked, the data set is at the same address
            row, number = self._rows.get((id(dataset), type(dataset)), UNKNOWN), worker.id
        if row >= 0 and number <= MOST_WORKERS:
            self._add(row * _PROCESSES + number, seconds, waited)

    def _watched_pinning(self, original: Any) -> Any:
        read, state = self._read, self._is_pinning

        @functools.wraps(original)
        def pin_memory(data: Any, *arguments: Any, **named: Any) -> Any:
            if getattr(state, "value", False):  # a part of a batch
                return original(data, *arguments, **named)
            state.value = True
            began = read()
            try:
                return original(data, *arguments, **named)
            finally:
                state.value = False
                self._add(MOST_DATA_SETS * _PROCESSES, read() - began)

        skip_frame(pin_memory)
        return pin_memory
