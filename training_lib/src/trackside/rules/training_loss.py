"""The training losses that a rule should judge, of a run up to a step."""

from __future__ import annotations

from collections.abc import Sequence

from trackside.contracts.model_facts import ModelFacts
from trackside.rules.diagnosis import training_losses
from trackside.trial.window import Column, Window


def whole_losses(window: Window) -> tuple[Column, ...]:
    """Return the training losses, without addends of another one: an addend may rise while the sum falls.

    Args:
        window: The window to read.
    """
    columns = training_losses(window)
    parts = parts_of_sums(window.facts, [column.tensor for column in columns])
    return tuple(column for column in columns if column.tensor not in parts) if parts else columns


def parts_of_sums(facts: ModelFacts | None, losses: Sequence[str]) -> frozenset[str]:
    """Return those of these losses that are addends of another one.

    Args:
        facts: The facts of the run.
        losses: Names of training losses.
    """
    known = [loss for name in losses if facts and (loss := facts.loss(name)) is not None]
    sums = {loss.backward_line for loss in known if not loss.is_built_in and loss.backward_line}
    return frozenset(loss.name for loss in known if loss.is_built_in and loss.backward_line in sums)
