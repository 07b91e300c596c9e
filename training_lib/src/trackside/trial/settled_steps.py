"""Up to which step a growing run has settled, when it speaks in two ways: saved tensors, and recorded statistics.

A step is judged once, and in order. Both ways lead through queues of the training, each of its own length: so the one
that is ahead waits for the other where that is expected to say something in between, for a bounded time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WAIT_SECONDS = 10.0  # for a step that one way is expected to bring while the other is ahead
WORKER_WAIT_SECONDS = 60.0  # for the rows of a worker that says nothing while others do
_GAPS = 8


@dataclass(frozen=True)
class Way:
    """One of the two: its newest complete step (-1: none), and the one that is expected next (None: who knows)."""

    name: str
    last: int
    expected: int | None


class SettledSteps:
    """`clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._through = -1
        self._waiting_since: dict[tuple[str, int], float] = {}

    def through(self, ways: Sequence[Way], *, has_ended: bool) -> int:
        """The last step that may be judged now; -1 for none. It never goes back."""
        newest = max(way.last for way in ways)
        now = self._clock()
        awaited = [(way.name, way.expected) for way in ways if way.expected is not None and way.expected <= newest]
        self._waiting_since = {each: self._waiting_since.get(each, now) for each in awaited}
        still = (step for (_, step), since in self._waiting_since.items() if now - since < WAIT_SECONDS)
        through = newest if has_ended else min([newest, *(step - 1 for step in still)])
        self._through = max(self._through, through)
        return self._through


class RecordingWorkers:
    """Up to which step the rows of all workers are there; no longer waiting for one that has fallen silent."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._behind: dict[str, tuple[int, float]] = {}  # the newest step of each that is behind, and since when
        self._first_at: float | None = None
        self._through = -1

    def through(self, last_by_worker: Mapping[str, int], *, count: int | None, has_ended: bool) -> int:
        """`count` is how many workers the run has, None where that is not known. -1: nothing is whole so far."""
        if not last_by_worker:
            return -1
        now, newest = self._clock(), max(last_by_worker.values())
        self._first_at = now if self._first_at is None else self._first_at
        behind = {worker: last for worker, last in last_by_worker.items() if last < newest}
        known = self._behind
        self._behind = {
            w: known[w] if w in known and known[w][0] == last else (last, now) for w, last in behind.items()
        }
        is_lacking = len(last_by_worker) < (count or 0) and now - self._first_at < WORKER_WAIT_SECONDS
        awaited = (last for last, since in self._behind.values() if now - since < WORKER_WAIT_SECONDS)
        whole = newest if has_ended else -1 if is_lacking else min(awaited, default=newest)
        self._through = max(self._through, whole)
        return self._through


def usual_gap(steps: Sequence[int]) -> int | None:
    """The smallest step between the newest of `steps`, ascending; None for fewer than two."""
    newest = steps[-_GAPS:]
    return min((int(b - a) for a, b in itertools.pairwise(newest)), default=None)
