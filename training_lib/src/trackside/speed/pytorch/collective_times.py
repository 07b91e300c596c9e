"""The times of collectives on a few steps that are sampled: of FSDP, and of the script's own.

The functions of `torch.distributed` are wrapped for these steps and at no others. A collective that is not waited for
at once ends where its future does; the training waits in its `wait`. NCCL's run on the GPU, behind the processor, and
are not timed.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as ranks

from trackside.records.machine.performance_facts import MOST_EXCHANGES, ExchangeTimes

_NAMES = (
    "all_reduce", "all_gather", "all_gather_single", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "broadcast", "reduce",
    "gather", "scatter", "barrier",
)  # fmt: skip


@dataclass
class _Sums:
    calls: int = 0
    seconds: float = 0.0
    waited: float = 0.0


class CollectiveTimer:
    """Times collectives while it is on.

    Args:
        read: Returns seconds.
    """

    def __init__(self, read: Callable[[], float] = time.perf_counter) -> None:
        self._read = read
        self._sums: dict[str, _Sums] = {}
        self._undo: list[Callable[[], None]] = []
        self._depth = 0  # `all_gather_into_tensor` may be made of others
        self._pending: dict[int, _Sums] = {}  # of collectives that are not waited for at once

    def start(self) -> None:
        """Time collectives from now on, where ranks train together."""
        if self._undo or not ranks.is_available() or not ranks.is_initialized():
            return
        places = (ranks, ranks.distributed_c10d)
        for name in _NAMES:
            for place in places:
                original = getattr(place, name, None)
                if callable(original):
                    self._undo.append(self._watch(place, name, original))
        work: Any = torch._C._distributed_c10d.Work
        self._undo.append(self._watch_waits(work))

    def stop(self) -> None:
        """Time none from now on, and leave PyTorch as it was."""
        undo, self._undo = self._undo, []
        for each in reversed(undo):
            each()
        self._pending = {}

    def times(self, steps: int) -> tuple[ExchangeTimes, ...]:
        """Return the times so far, of a step, the longest first.

        Args:
            steps: Number of steps that were timed.
        """
        found = [
            ExchangeTimes(name, one.calls / steps, one.seconds / steps, one.waited / steps)
            for name, one in list(self._sums.items())
        ]
        return tuple(sorted(found, key=lambda one: -one.seconds)[:MOST_EXCHANGES])

    def _watch(self, place: Any, name: str, original: Any) -> Callable[[], None]:
        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return original(*args, **kwargs)
            self._depth += 1
            began = self._read()
            try:
                work = original(*args, **kwargs)
            finally:
                self._depth -= 1
            with suppress(Exception):  # a backend whose work has no future: its collectives are not timed
                self._called(name, began, work)
            return work

        setattr(place, name, timed)

        def undo() -> None:
            if getattr(place, name) is timed:  # else another library has wrapped it, and it stays
                setattr(place, name, original)

        return undo

    def _called(self, name: str, began: float, work: Any) -> None:
        sums = self._sums.setdefault(name, _Sums())
        sums.calls += 1
        now = self._read()
        sums.waited += now - began  # the call itself
        if work is None:
            sums.seconds += now - began
            return
        self._pending[id(work)] = sums

        def ended(_future: Any) -> None:
            sums.seconds += self._read() - began

        work.get_future().add_done_callback(ended)

    def _watch_waits(self, kind: Any) -> Callable[[], None]:
        original = kind.wait

        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            sums = self._pending.pop(id(work), None)
            if sums is None:
                return original(work, *args, **kwargs)
            began = self._read()
            try:
                return original(work, *args, **kwargs)
            finally:
                sums.waited += self._read() - began

        kind.wait = wait

        def undo() -> None:
            if kind.wait is wait:
                kind.wait = original

        return undo
