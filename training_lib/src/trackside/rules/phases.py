"""The trainings that one process runs one after the other, each with an optimizer of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

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
