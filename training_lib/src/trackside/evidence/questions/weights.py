"""Questions about the weights and their updates, each answered present, absent or unknown. Pure functions."""

from __future__ import annotations

import math

from trackside.contracts.cause import Cause
from trackside.contracts.observations import HAS_EQUAL_ROWS
from trackside.evidence.question import Answer, Known, changed, changed_at_first, grown, question
from trackside.situation.constants import GROWN, REPLACED, SHRUNK, STILL, VISIBLE, WILD


@question(supports=(Cause.WEIGHT_DECAY_TOO_STRONG,))
def weights_shrank(known: Known) -> Answer:
    """The weights under weight decay shrank to less than half."""
    growth = known.seen.weight_growth
    if growth is None or not known.has_facts:
        return None
    return f"weights shrank to {growth:.0%} of their size" if growth < SHRUNK and known.seen.weight_decay > 0 else False


@question(supports=(Cause.LEARNING_RATE_TOO_HIGH,))
def weights_grew(known: Known) -> Answer:
    """The weights are more than three times as large as at first."""
    growth = known.seen.weight_growth
    if growth is None:
        return None
    return grown("weights", growth) if not growth <= GROWN else False


@question(supports=(Cause.SYMMETRIC_INITIALIZATION,))
def units_alike(known: Known) -> Answer:
    """All units of a layer started alike."""
    facts = known.window.facts
    if facts is None or not facts.parameters:
        return None
    alike = any(HAS_EQUAL_ROWS.of(parameter) for parameter in facts.parameters)
    return "all units of a layer started alike" if alike else False


@question(supports=(Cause.LEARNING_RATE_TOO_LOW,))
def goes_nowhere(known: Known) -> Answer:
    """No weight has moved visibly."""
    way = known.seen.way
    if way is None:
        return None
    because = f"no weight has moved more than {way[0]:.2g} of its size in {way[1]} steps"
    return because if known.seen.goes_nowhere else False


@question(supports=(Cause.LEARNING_RATE_TOO_LOW,))
def still_updates(known: Known) -> Answer:
    """A step hardly changes weights."""
    return _updates(known, 0.0, 10 * STILL)


@question()
def visible_updates(known: Known) -> Answer:
    """A step changes weights by a thousandth to a tenth."""
    return _updates(known, VISIBLE, WILD)


@question(supports=(Cause.LEARNING_RATE_TOO_HIGH,))
def wild_updates(known: Known) -> Answer:
    """A step changes weights by a tenth and more."""
    return _updates(known, WILD, math.inf)


def _updates(known: Known, above: float, below: float) -> Answer:
    ratio = known.seen.update_ratio
    if ratio is None:
        return None
    return changed(ratio) if above <= ratio < below else False


@question(supports=(Cause.LEARNING_RATE_TOO_HIGH,))
def torn_at_first(known: Known) -> Answer:
    """Early steps changed weights by half their size."""
    ratio = known.seen.first_update_ratio
    if ratio is None:
        return None
    return changed_at_first(ratio) if ratio > REPLACED / 2 else False
