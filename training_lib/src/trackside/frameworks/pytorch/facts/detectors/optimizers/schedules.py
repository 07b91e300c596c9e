"""Learning-rate schedules of PyTorch: the rate that one aims at, and how often the script steps it.

`LRScheduler.step` is wrapped, which each schedule also calls once as it is made. A call costs some microseconds.
Backward passes tell turns of the loop apart: a schedule that moves on by several places between two passes, again and
again, is stepped too often. Those of other libraries are not seen, and of those that follow a number
(ReduceLROnPlateau) see `plateaus.py`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch.optim import lr_scheduler
from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import SCHEDULE, ScheduleFacts
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.shared.adapter import StepHook
from trackside.frameworks.shared.detectors import watches
from trackside.frameworks.shared.replaced_methods import ReplacedFunction

MOST_STEPS = 1 << 31  # a length beyond is infinite
FEWEST_TURNS = 3  # with several places each, before they are reported
_MOST_PLAIN = 0.2  # of the turns with a place: the share with one alone, beyond which it is no habit
_STEPPING = (lr_scheduler.LRScheduler, lr_scheduler.CosineAnnealingWarmRestarts)  # with a `step` of their own


@dataclass
class _Turn:
    """The places of one schedule.

    passes        backward passes of the process before its newest calls
    began, ended  its places before and after these
    plain, several, fewest   turns with one place, turns with more, and the fewest places of these
    """

    passes: int
    began: float
    ended: float
    plain: int = 0
    several: int = 0
    fewest: int = 0

    def end(self) -> None:
        """Count the turn's places."""
        moved = int(self.ended - self.began)
        self.plain += moved == 1
        if moved > 1:
            self.fewest = min(self.fewest, moved) if self.several else moved
            self.several += 1

    @property
    def calls(self) -> int:
        """The number of places by which it moves on at a time."""
        is_habit = self.several >= FEWEST_TURNS and self.plain <= _MOST_PLAIN * self.several
        return self.fewest if is_habit else 1


@watches(SCHEDULE)
class Schedules:
    """The schedules of a process, by optimizer. Nothing raises."""

    def __init__(self, watch: Watch) -> None:
        self._passes, self._changed = watch.passes, watch.changed
        self._turns: weakref.WeakKeyDictionary[Any, _Turn] = weakref.WeakKeyDictionary()
        self._found: weakref.WeakKeyDictionary[Optimizer, ScheduleFacts] = weakref.WeakKeyDictionary()
        self._stepped = untraced(watch.protect(self._after_step))

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks in `step` of schedules that follow no number."""
        for kind in _STEPPING:
            yield ReplacedFunction(kind, "step", self._stand_in)

    def rest_ended(self, steps: int) -> None:
        """Begin a new turn of each schedule at its present place: its calls at rest were not seen."""
        for schedule, turn in self._turns.items():
            place = attribute_of(schedule, "last_epoch", 0)
            turn.passes, turn.began, turn.ended = self._passes(), place, place

    def of(self, optimizer: Optimizer) -> ScheduleFacts | None:
        """Return the facts of an optimizer's newest schedule that moved; None without one."""
        return self._found.get(optimizer)

    def _stand_in(self, original: Any) -> Any:
        stepped = self._stepped

        @functools.wraps(original)
        def step(schedule: Any, *args: Any, **kwargs: Any) -> Any:
            place = attribute_of(schedule, "last_epoch", 0)
            result = original(schedule, *args, **kwargs)
            stepped(schedule, place, bool(args or kwargs))
            return result

        skip_frame(step)
        return step

    def _after_step(self, schedule: Any, place: float, is_set: bool) -> None:
        turn, passes = self._turns.get(schedule), self._passes()
        if turn is None:  # it was just made
            self._turns[schedule] = _Turn(passes, schedule.last_epoch, schedule.last_epoch)
            known = self._found.get(schedule.optimizer)
            self._set(schedule, known.calls if known is not None else 0)
            return
        if passes > turn.passes:
            turn.end()
            turn.passes, turn.began = passes, place
            if turn.calls > self._found[schedule.optimizer].calls:
                self._set(schedule, turn.calls)
        turn.ended = schedule.last_epoch
        if is_set:  # to a place that the script chose
            turn.began = turn.ended

    def _set(self, schedule: Any, calls: int) -> None:
        self._found[schedule.optimizer] = ScheduleFacts(
            type(schedule).__name__, _highest(schedule), calls, _length(schedule)
        )
        self._changed()


def _highest(schedule: Any) -> float:
    """Return the highest rate that a schedule names for the first group; 0 if it is no plain number."""
    group = schedule.optimizer.param_groups[0]
    named = [group.get("initial_lr"), group.get("max_lr"), *list(attribute_of(schedule, "max_lrs", []))[:1]]
    return max((float(rate) for rate in named if isinstance(rate, (int, float))), default=0.0)


def _length(schedule: Any) -> int:
    length = attribute_of(schedule, "T_max", 0) if isinstance(schedule, lr_scheduler.CosineAnnealingLR) else 0
    return int(length) if isinstance(length, (int, float)) and 0 < length < MOST_STEPS else 0
