"""The collections that are due on each step of a mode, decided once per step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trackside.capture.steps.collection import ANYTHING, kinds_of_name
from trackside.contracts.cached_property import cached_property
from trackside.contracts.capture_request import (
    ALL,
    BUILT_IN_COLLECTIONS,
    CaptureRequest,
    CollectionRequest,
    Schedule,
)

# smdebug: never saved in EVAL and PREDICT. Ours of the same nature, for nothing is differentiated there.
ONLY_IN_TRAINING = frozenset({"gradients", "optimizer_variables", "raw_gradients", "activation_gradients"})
_WITHOUT_TRAINING = ("EVAL", "PREDICT")
_BUILT_IN = frozenset(BUILT_IN_COLLECTIONS)


@dataclass(frozen=True)
class Due:
    """The collections that one step must save, and the kinds of tensors that an adapter must gather for them.

    Kinds are the names of the built-in collections. `OpenStep.wants` selects the tensors to save among the gathered
    ones.
    """

    collections: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    # Needed on every step, so each is computed once.

    @cached_property
    def losses(self) -> bool:
        """True if a loss may belong to one of the collections."""
        return "losses" in self.kinds

    @cached_property
    def parameters(self) -> bool:
        """True if a weight, bias or gradient may belong to one of the collections."""
        return not self.kinds.isdisjoint(("weights", "biases", "gradients"))


NOTHING_DUE = Due()


def due_at(request: CaptureRequest, step: int, mode: str = "TRAIN") -> Due:
    """Return the data that `step` must save by step numbers alone, without the clock; `NOTHING_DUE` on an idle step."""
    return _due((c for c in _requested_in(request, mode) if c.schedule_for(mode).is_due(step)), mode)


def next_due_step(request: CaptureRequest, start: int, mode: str = "TRAIN") -> int | None:
    """Return the first step from `start` on with anything due, without the clock; None if no step ever has."""
    schedules = (c.schedule_for(mode) for c in _requested_in(request, mode))
    return min((step for s in schedules if (step := _next_of(s, start)) is not None), default=None)


class ModeSchedule:
    """The schedule of one mode, by steps and by seconds.

    Call `due_at` before every step that is not `is_idle`, in order, and `has_saved` after it.
    """

    def __init__(
        self,
        request: CaptureRequest,
        mode: str,
        *,
        monotonic: Callable[[], float],
        kinds_of_regex: frozenset[str] = ANYTHING,
    ) -> None:
        self._mode, self._monotonic, self._kinds_of_regex = mode, monotonic, kinds_of_regex
        self._collections = [(c, c.schedule_for(mode)) for c in _requested_in(request, mode)]
        self._names = frozenset(c.name for c, _ in self._collections)
        self._timed = [(c.name, s.save_seconds) for c, s in self._collections if s.save_seconds is not None]
        self._saved_at: dict[str, float] = {}
        self._decided_at = 0.0
        self._due_by_names: dict[frozenset[str], Due] = {frozenset(): NOTHING_DUE}
        self._always = _always(self._collections)
        self._next_step: int | None = None
        self._next_at: float | None = None

    def is_idle(self, step: int) -> bool:
        """Return True if certainly nothing is due at `step`: one comparison, and the clock if seconds count."""
        if step == self._next_step:
            return False
        return self._next_at is None or self._monotonic() < self._next_at

    def idle_steps(self, step: int) -> int:
        """Return the number of steps from `step` on with certainly nothing due; 0 where seconds count."""
        if self._next_at is not None:
            return 0
        return sys.maxsize if self._next_step is None else max(0, self._next_step - step)

    def is_always(self, step: int) -> bool:
        """Return True if `step` and all after it save the same collections."""
        return self._always is not None and step >= self._always

    def due_at(self, step: int) -> Due:
        """Return what `step` must save; intervals in seconds are measured now."""
        if self.is_always(step):
            self._next_step = step + 1
            return self._due_of(self._names)
        now = self._decided_at = self._monotonic() if self._timed else 0.0
        names = frozenset(c.name for c, schedule in self._collections if self._is_due(c.name, schedule, step, now))
        self._look_ahead(step + 1)
        return self._due_of(names)

    def _due_of(self, names: frozenset[str]) -> Due:
        due = self._due_by_names.get(names)
        if due is None:
            due = self._due_by_names[names] = _due(
                (c for c, _ in self._collections if c.name in names), self._mode, self._kinds_of_regex
            )
        return due

    def has_saved(self, due: Due) -> None:
        """Note the end of a step with these collections: their seconds count from the decision in `due_at`."""
        if self._timed:
            self._saved_at.update((name, self._decided_at) for name, _ in self._timed if name in due.collections)

    def _is_due(self, name: str, schedule: Schedule, step: int, now: float) -> bool:
        if schedule.is_due(step):
            return True
        if schedule.save_seconds is None or not schedule.is_within(step):
            return False
        saved_at = self._saved_at.get(name)
        return saved_at is None or now - saved_at >= schedule.save_seconds

    def _look_ahead(self, start: int) -> None:
        self._next_step = min((n for _, s in self._collections if (n := _next_of(s, start)) is not None), default=None)
        self._next_at = min(
            (self._saved_at.get(name, float("-inf")) + seconds for name, seconds in self._timed), default=None
        )


def _always(collections: Iterable[tuple[CollectionRequest, Schedule]]) -> int | None:
    """Return the step from which on every step saves all collections; None if none does, or seconds count."""
    schedules = [schedule for _, schedule in collections]
    is_so = all(s.save_interval == 1 and s.end_step is None and s.save_seconds is None for s in schedules)
    return max(s.start_step for s in schedules) if schedules and is_so else None


def _requested_in(request: CaptureRequest, mode: str) -> list[CollectionRequest]:
    if mode in _WITHOUT_TRAINING:
        return [c for c in request.collections if c.name not in ONLY_IN_TRAINING]
    return list(request.collections)


def _due(collections: Iterable[CollectionRequest], mode: str, kinds_of_regex: frozenset[str] = ANYTHING) -> Due:
    due = list(collections)
    if not due:
        return NOTHING_DUE
    kinds = frozenset[str]().union(*(_kinds(collection, kinds_of_regex) for collection in due))
    return Due(frozenset(c.name for c in due), kinds - ONLY_IN_TRAINING if mode in _WITHOUT_TRAINING else kinds)


def _kinds(collection: CollectionRequest, kinds_of_regex: frozenset[str]) -> frozenset[str]:
    """Return the kinds to gather for the collection: its own, those of its tensor names, and nearly any for a regex."""
    if collection.include_regex or collection.name == ALL:
        return kinds_of_regex | ({collection.name} & _BUILT_IN)
    return frozenset({collection.name} & _BUILT_IN).union(*map(kinds_of_name, collection.tensor_names))


def _next_of(schedule: Schedule, start: int) -> int | None:
    candidates = [step for step in schedule.save_steps if step >= start]
    interval = schedule.save_interval
    first = -(-max(start, schedule.start_step) // interval) * interval
    if schedule.end_step is None or first < schedule.end_step:
        candidates.append(first)
    return min(candidates, default=None)
