"""Questions about the gradients, each answered present, absent or unknown. Pure functions."""

from __future__ import annotations

import math

from trackside.contracts.cause import Cause
from trackside.evidence.question import Answer, Known, changed_at_first, grown, question
from trackside.situation.constants import COURSE_STEPS, FADED, HARDLY_ANYTHING, NEWEST_LOSSES, VANISHED, WILD
from trackside.situation.medians import median


@question(supports=(Cause.CLIPPING_TOO_LOW,))
def clipped_away(known: Known) -> Answer:
    """Clipping leaves less than 2 % of the gradient."""
    kept = known.seen.kept_by_clipping
    if kept is None:
        return False if known.has_facts else None
    return f"clipping leaves {kept:.2%} of the gradient" if kept < HARDLY_ANYTHING else False


@question(supports=(Cause.DEAD_UNITS,), explains=(Cause.LEARNING_RATE_TOO_LOW, Cause.CLIPPING_TOO_LOW))
def zero_gradients(known: Known) -> Answer:
    """Most gradients are zero."""
    zeros = known.seen.zero_gradients
    if zeros is None:
        return None
    return f"{zeros:.0%} of the gradients are zero" if zeros > 0.5 else False


@question()
def gradients_died(known: Known) -> Answer:
    """A gradient is zero now and was not at first."""
    return None if known.seen.zero_gradients is None else known.seen.had_gradients


@question(supports=(Cause.LEARNING_RATE_TOO_HIGH,), explains=(Cause.DEAD_UNITS,))
def died_by_steps(known: Known) -> Answer:
    """Most gradients are zero, were not at first, and early steps changed weights by a tenth."""
    zeros, ratio = known.seen.zero_gradients, known.seen.first_update_ratio
    if zeros is None or ratio is None:
        return None
    because = f"{changed_at_first(ratio)}, and {zeros:.0%} of the gradients are zero"
    return because if zeros > 0.5 and known.seen.had_gradients and ratio > WILD else False


@question(supports=(Cause.VANISHING_GRADIENTS,))
def gradient_spread(known: Known) -> Answer:
    """Some layers get 100,000 times the gradient of others."""
    spread = known.seen.gradient_spread
    if spread is None:
        return None
    return f"some layers get {spread:.1g} times the gradient of others" if spread > VANISHED else False


@question(supports=(Cause.VANISHING_GRADIENTS,), explains=(Cause.WRONG_LABELS,))
def gradient_fades(known: Known) -> Answer:
    """An element of the first layer gets less than 3 % of the gradient of one of the last."""
    facts = known.window.facts
    if facts is None:
        return None
    tables = {module.name for module in facts.modules if module.role == "embedding"}
    sizes = []
    for held in facts.parameters:
        if len(held.shape) < 2 or held.module in tables or not held.requires_grad:
            continue
        columns = known.window.statistic(held.gradient, "l2", mode=None)
        first = [median(column.values[:NEWEST_LOSSES]) for column in columns if len(column.values) >= NEWEST_LOSSES]
        if first and math.isfinite(first[0]):
            sizes.append(first[0] / math.sqrt(held.size))
    if len(sizes) < 2 or not sizes[-1] > 0:
        return None
    share = sizes[0] / sizes[-1]
    because = f"an element of the first layer gets {share:.2g} of the gradient of one of the last"
    return because if 0 < share < FADED else False


@question(supports=(Cause.STEP_ORDER,), explains=(Cause.DEAD_UNITS, Cause.LEARNING_RATE_TOO_LOW))
def never_a_gradient(known: Known) -> Answer:
    """Each gradient was zero at each step."""
    columns = known.window.columns("gradients", "l2", mode=None)
    if not columns or min(len(column.values) for column in columns) < COURSE_STEPS:
        return None
    is_none = not any(column.values.any() for column in columns)
    return "each gradient has been zero at each step" if is_none else False


@question(supports=(Cause.EXPLODING_GRADIENTS,))
def gradients_grew(known: Known) -> Answer:
    """The gradients are more than ten times as large as at first."""
    growth = known.seen.gradient_growth
    if growth is None:
        return None
    return grown("gradients", growth) if not growth <= 10 else False
