"""Callbacks and settings of a Trainer that choose by a number in a direction of the script's own, and plateaus.

Of `ReduceLROnPlateau` it is noted where the number that it follows goes against its mode.
"""

from __future__ import annotations

import functools
import math
import sys
import weakref
from typing import Any

import torch
from torch.optim import lr_scheduler

from trackside.capture.ground.script_lines import user_place
from trackside.contracts.observations import SELECTIONS, SelectionFacts
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.facts.detector import InScript, Watch
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.detectors import watches
from trackside.frameworks.shared.replaced_methods import replace
from trackside.frameworks.shared.selections import of_running_trainer

FEWEST_VALUES, MOST_VALUES = 5, 64  # of a number that a schedule follows


@watches(SELECTIONS)
class Selections:
    """The callbacks of the Trainer that runs at the first look, and schedules with numbers against their mode."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._of_trainer: tuple[SelectionFacts, ...] = ()
        self._reversed: list[InScript] = []
        self._followed: weakref.WeakKeyDictionary[Any, list[float]] = weakref.WeakKeyDictionary()
        self._follow = untraced(watch.protect(self._after_number))

    def install(self) -> Undo:
        """Wrap `step` of schedules that follow a number. Return the function that undoes it."""
        return replace([(lr_scheduler.ReduceLROnPlateau, "step")], self._following)

    def look_begins(self) -> None:
        """Read the callbacks of the Trainer that runs."""
        if self._watch.is_first_look():
            self._of_trainer = of_running_trainer(sys._getframe())

    def of(self, watch: Watch) -> tuple[SelectionFacts | InScript, ...]:
        """Return the callbacks, settings and plateaus."""
        return (*self._of_trainer, *self._reversed)

    def _following(self, original: Any) -> Any:
        follow = self._follow

        @functools.wraps(original)
        def step(schedule: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(schedule, metrics, *args, **kwargs)
            follow(schedule, metrics)
            return result

        skip_frame(step)
        return step

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
                facts = SelectionFacts(type(schedule).__name__, "", schedule.mode)
                self._reversed.append(InScript(user_place(), facts, (("monitor", "step"),)))
                self._watch.changed()
