"""Learning-rate schedules of PyTorch: the rate that one aims at, and how often the script steps it.

`LRScheduler.step` is wrapped, which each schedule also calls once as it is made. A call costs some microseconds.
Backward passes tell turns of the loop apart: a schedule that moves on by several places between two passes, again and
again, is stepped too often. Of those that follow a number (ReduceLROnPlateau) it is noted where the number goes against
their mode. Those of other libraries are not seen.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import lr_scheduler
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.script_lines import Place, user_place
from trackside.contracts.model_facts import ScheduleFacts, SelectionFacts
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.shared.adapter import StepHook, Undo
from trackside.frameworks.shared.replaced_methods import ReplacedFunction, replace

FEWEST_TURNS = 3  # with several places each, before they are reported
_MOST_PLAIN = 0.2  # of the turns with a place: the share with one alone, beyond which it is no habit
FEWEST_VALUES, MOST_VALUES = 5, 64  # of a number that a schedule follows
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


class Schedules:
    """The schedules of a process, by optimizer. Nothing raises.

    Args:
        passes: Returns the number of backward passes of this process so far.
        changed: Called when `facts` returns something else.
        protect: Wraps a function so that its first error ends this, and nothing else.
    """

    def __init__(
        self,
        *,
        passes: Callable[[], int],
        changed: Callable[[], None],
        protect: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self._passes, self._changed = passes, changed
        self._turns: weakref.WeakKeyDictionary[Any, _Turn] = weakref.WeakKeyDictionary()
        self._found: weakref.WeakKeyDictionary[Optimizer, ScheduleFacts] = weakref.WeakKeyDictionary()
        self.reversed: list[tuple[SelectionFacts, Place | None]] = []  # whose number goes against their mode
        self._followed: weakref.WeakKeyDictionary[Any, list[float]] = weakref.WeakKeyDictionary()
        self._stepped = untraced(protect(self._after_step))
        self._follow = untraced(protect(self._after_number))

    def install(self) -> Undo:
        """Wrap `step` of schedules that follow a number. Return the function that undoes it."""
        return replace([(lr_scheduler.ReduceLROnPlateau, "step")], self._following)

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks in `step` of all others."""
        for kind in _STEPPING:
            yield ReplacedFunction(kind, "step", self._stand_in)

    def rest_ended(self, steps: int) -> None:
        """Begin a new turn of each schedule at its present place: its calls at rest were not seen."""
        for schedule, turn in self._turns.items():
            place = attribute_of(schedule, "last_epoch", 0)
            turn.passes, turn.began, turn.ended = self._passes(), place, place

    def _following(self, original: Any) -> Any:
        follow = self._follow

        @functools.wraps(original)
        def step(schedule: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(schedule, metrics, *args, **kwargs)
            follow(schedule, metrics)
            return result

        skip_frame(step)
        return step

    def facts(self, optimizer: Optimizer) -> ScheduleFacts | None:
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

    def _after_number(self, schedule: Any, number: Any) -> None:
        values = self._followed.setdefault(schedule, [])
        if isinstance(number, torch.Tensor) and not number.is_cpu:
            return
        if len(values) < MOST_VALUES and math.isfinite(value := float(number)):
            values.append(value)
            half = len(values) // 2
            rise = sum(values[-half:]) - sum(values[:half])
            if len(values) >= FEWEST_VALUES and (rise > 0 if schedule.mode == "min" else rise < 0):
                values += [math.nan] * (MOST_VALUES - len(values))  # once
                self.reversed.append((SelectionFacts(type(schedule).__name__, "", schedule.mode), user_place()))
                self._changed()

    def _set(self, schedule: Any, calls: int) -> None:
        self._found[schedule.optimizer] = ScheduleFacts(type(schedule).__name__, _highest(schedule), calls)
        self._changed()


def _highest(schedule: Any) -> float:
    """Return the highest rate that a schedule names for the first group; 0 if it is no plain number."""
    group = schedule.optimizer.param_groups[0]
    named = [group.get("initial_lr"), group.get("max_lr"), *list(attribute_of(schedule, "max_lrs", []))[:1]]
    return max((float(rate) for rate in named if isinstance(rate, (int, float))), default=0.0)
