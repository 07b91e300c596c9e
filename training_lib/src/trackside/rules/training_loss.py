"""The training losses that a rule should judge, of a run up to a step."""

from __future__ import annotations

from collections.abc import Sequence

from trackside.contracts.model_facts import LossFacts
from trackside.rules.diagnosis import training_losses
from trackside.trial.window import Column, Window


def whole_losses(window: Window) -> tuple[Column, ...]:
    """Return the training losses, without addends of another one: an addend may rise while the sum falls.

    Args:
        window: The window to read.
    """
    columns = training_losses(window)
    if len(columns) < 2:
        return columns
    sums = {facts.backward_line for facts in _known(window, columns) if not facts.is_built_in and facts.backward_line}
    parts = {facts.name for facts in _known(window, columns) if facts.is_built_in and facts.backward_line in sums}
    return tuple(column for column in columns if column.tensor not in parts)


def _known(window: Window, columns: Sequence[Column]) -> list[LossFacts]:
    return [known for c in columns if window.facts and (known := window.facts.loss(c.tensor)) is not None]
