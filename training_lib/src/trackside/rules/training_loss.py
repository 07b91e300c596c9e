"""The training losses that a rule should judge, of a run up to a step."""

from __future__ import annotations

from collections.abc import Sequence

from trackside.contracts.model_facts import ModelFacts
from trackside.rules.diagnosis import training_losses
from trackside.rules.medians import median
from trackside.trial.window import Column, Window

_RECENT = 5  # values
_RISE = 0.2  # of the value before, or of what was learned
_LONGEST_WAIT = 20  # steps without a value


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


def terms_stay(window: Window, loss: str, *, worker: str, since: int) -> bool:
    """Return True for a sum by hand with terms of loss functions, none of which has risen with it.

    So it is where a penalty is phased in, or a term begins late. A term without a value since then may still rise, for
    a while.

    Args:
        window: The window to read.
        loss: The name of the sum.
        worker: The worker.
        since: The step at which the sum rose.
    """
    facts = window.facts
    whole = facts.loss(loss) if facts is not None else None
    if facts is None or whole is None or whole.is_built_in or not whole.backward_line:
        return False
    names = {f.name for f in facts.losses if f.is_built_in and f.backward_line == whole.backward_line}
    terms = [c for c in training_losses(window) if c.tensor in names and c.worker == worker]
    if all(c.steps[-1] < since for c in terms) and window.step - since > _LONGEST_WAIT:
        return False
    return bool(terms) and not any(_has_risen(column, since=since) for column in terms)


def _has_risen(term: Column, *, since: int) -> bool:
    before, after = term.values[term.steps < since], term.values[term.steps >= since]
    if not before.size or not after.size:
        return False
    level = median(before[-_RECENT:])
    return not float(after[-1]) <= level + _RISE * max(abs(level), float(before[0]) - level)
