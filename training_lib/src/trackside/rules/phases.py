"""The phases of a run: trainings with an optimizer of their own, and parts that begin to train late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from trackside.trial.window import Column, Window

_MOST_PHASES = 3  # optimizers made after the first: a program that makes more makes one each epoch


def newest_phase(window: Window) -> int:
    """Return the step at which the newest optimizer began; 0 for a run's first, or for a run that makes many.

    Args:
        window: The window to read.
    """
    facts, begins = window.facts, list[int]()
    while facts is not None and facts.from_step > 0:
        earlier = window.source.facts_at(facts.from_step - 1)
        if earlier is None or earlier.from_step >= facts.from_step:
            break
        if {o.name for o in facts.optimizers} - {o.name for o in earlier.optimizers}:
            begins.append(facts.from_step)
        facts = earlier
    return begins[0] if begins and len(begins) <= _MOST_PHASES else 0


class NewPart(Enum):
    """A part of the model that has its first gradients late: none, one, or perhaps one."""

    NONE = "none"
    POSSIBLE = "possible"  # some have had none yet, and gradients were not measured since that step
    BEGAN = "began"


def new_part(window: Window, *, since: int) -> NewPart:
    """Return whether a part of the model, such as the head of the next task, has its first gradients since a step.

    Only weights of two dimensions and more count, and only in a run whose gradients were measured before that step.

    Args:
        window: The window to read.
        since: The first step at which the new part may have been used.
    """
    facts = window.facts
    weights = [p for p in facts.parameters if len(p.shape) > 1 and not p.tied_to] if facts is not None else []
    columns = [column for held in weights for column in window.statistic(held.gradient, "is_present", mode=None)]
    if not any((column.steps < since).any() for column in columns):
        return NewPart.NONE
    untrained = [column for column in columns if not (column.values[column.steps < since] > 0).any()]
    if any((column.values > 0).any() for column in untrained):
        return NewPart.BEGAN
    return NewPart.POSSIBLE if any(column.steps[-1] < since for column in untrained) else NewPart.NONE


def since(columns: Iterable[Column], step: int) -> tuple[Column, ...]:
    """Return the columns from a step on, without those that have no value since.

    Args:
        columns: The columns.
        step: The first step to keep.
    """
    if step <= 0:
        return tuple(columns)
    kept = [(column, column.steps >= step) for column in columns]
    return tuple(
        [replace(column, steps=column.steps[some], values=column.values[some]) for column, some in kept if some.any()]
    )
