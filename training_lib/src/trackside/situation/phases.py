"""The phases of a run: trainings with an optimizer of their own, and parts that begin to train late."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum

from trackside.contracts.model_facts import ModelFacts
from trackside.situation.constants import MOST_PHASES
from trackside.trial.window import Column, Window


def newest_phase(window: Window) -> int:
    """Return the step at which the newest optimizer began; 0 for a run's first, or for one of many.

    An optimizer that holds no parameter of any earlier one begins a training of its own, however many there are: the
    folds of a cross-validation, the members of an ensemble, the trials of a search. Of others a run has few.
    """
    revisions = revisions_of(window)
    begins = _begins(revisions)
    if len(begins) <= MOST_PHASES:
        return revisions[begins[0]].from_step if begins else 0
    return newest_training(window)


def newest_training(window: Window) -> int:
    """Return the step at which the newest training of other parameters began; 0 for a run's first."""
    revisions = revisions_of(window)
    return next((revisions[place].from_step for place in _begins(revisions) if _is_of_others(revisions, place)), 0)


def revisions_of(window: Window) -> list[ModelFacts]:
    """Return the facts of the run, the newest first."""
    found = [window.facts] if window.facts is not None else []
    while found and (step := found[-1].from_step) > 0:
        earlier = window.source.facts_at(step - 1)
        if earlier is None or earlier.from_step >= step:
            break
        found.append(earlier)
    return found


def _begins(revisions: Sequence[ModelFacts]) -> list[int]:
    """Return the indices of the revisions with a new optimizer, but for the oldest."""
    return [place for place in range(len(revisions) - 1) if _made(revisions, place)]


def _made(revisions: Sequence[ModelFacts], place: int) -> set[str]:
    """Return the names of the optimizers that the revision before did not have."""
    return {o.name for o in revisions[place].optimizers} - {o.name for o in revisions[place + 1].optimizers}


def _is_of_others(revisions: Sequence[ModelFacts], place: int) -> bool:
    """Return True if the new optimizers of a revision hold parameters, and none that an earlier one held."""
    made = _made(revisions, place)
    held = {p.name for p in revisions[place].parameters if p.optimizer in made}
    return bool(held) and not any(
        p.name in held and p.optimizer for one in revisions[place + 1 :] for p in one.parameters
    )


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
    """Return the columns from a step on, without those that have no value since."""
    if step <= 0:
        return tuple(columns)
    kept = [(column, column.steps >= step) for column in columns]
    return tuple(
        [replace(column, steps=column.steps[some], values=column.values[some]) for column, some in kept if some.any()]
    )
