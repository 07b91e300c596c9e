"""The causes behind a kind of symptom, for the rules that find it. Each is shown by a question, or by nothing."""

from __future__ import annotations

import math

from trackside.contracts.cause import Cause
from trackside.contracts.observations import HAS_EQUAL_ROWS, LABEL_SMOOTHING
from trackside.evidence.question import Answer, Known, changed, changed_at_first, grown, times_as_large
from trackside.evidence.questions import gradients, labels, program, rates, weights
from trackside.evidence.suspects import FirstOf, Suspect, Suspects
from trackside.situation.breakage import growth_before, undefined_value
from trackside.situation.constants import GROWN, LOOKED_BACK, REPLACED, SUDDEN, VISIBLE, WILD
from trackside.situation.update_growth import growth_of_updates, risen_rate

HIGH, LOW = Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW


def why_narrow(known: Known) -> Answer:
    """Return the reason for which cross entropy cannot get far below a guess.

    Args:
        known: What is known of the run.
    """
    smoothing = max((LABEL_SMOOTHING.of(loss) for loss in known.seen.losses), default=0.0)
    if smoothing:
        return f"label_smoothing is {smoothing:.2g}: so much of each label is spread over all classes"
    return "its scores are cosines, and a temperature is missing or too high"


def _replaced_at_first(known: Known) -> Answer:
    ratio = known.seen.first_update_ratio
    return changed_at_first(ratio) if ratio is not None and ratio > REPLACED else False


def _replaced_by_each_step(known: Known) -> Answer:
    ratio = known.seen.update_ratio
    return changed(ratio) if ratio is not None and ratio > WILD else False


def _visible_step(known: Known) -> Answer:
    ratio = known.seen.update_ratio
    return changed(ratio) if ratio is not None and math.isfinite(ratio) and ratio >= VISIBLE else False


def _grown_by_steps(known: Known) -> Answer:
    growth = known.seen.weight_growth
    return grown("weights", growth) if growth is not None and growth > GROWN and known.seen.weight_decay >= 0 else False


def _alike_without_gradients(known: Known) -> bool:
    facts = known.window.facts
    is_alike = facts is None or any(HAS_EQUAL_ROWS.of(parameter) for parameter in facts.parameters)
    return is_alike and bool(gradients.zero_gradients(known))


def _died_by_a_large_step(known: Known) -> Answer:
    ratio = known.seen.first_update_ratio
    has_died = known.seen.had_gradients and ratio is not None and ratio > WILD / 2
    return changed_at_first(ratio) if has_died and ratio is not None and gradients.zero_gradients(known) else False


def _without_gradients(known: Known) -> bool:
    return bool(gradients.zero_gradients(known))


def _broken_since(known: Known) -> int:
    return min(finding.since_step for finding in known.findings if finding.measure == known.lead.measure)


def _broke_suddenly(known: Known) -> Answer:
    growth = growth_before(known.window, step=_broken_since(known))
    if growth is None or growth > SUDDEN:
        return False
    return f"losses and gradients were as usual up to step {_broken_since(known)}"


def _without_a_value(known: Known) -> Answer:
    return undefined_value(known.window) if _broke_suddenly(known) else False


OF_THE_PROGRAM: Suspects = (
    Suspect(Cause.MISSING_ZERO_GRAD, program.gradients_kept),
    Suspect(Cause.DOUBLE_SOFTMAX, program.softmax_twice),
    Suspect(Cause.LOSS_SIGN, program.negative_loss),
    Suspect(Cause.PARAMETERS_NOT_IN_OPTIMIZER, program.left_out),
)
_DECAY: Suspects = (
    Suspect(Cause.WEIGHT_DECAY_TOO_STRONG, program.negative_weight_decay),
    Suspect(Cause.WEIGHT_DECAY_TOO_STRONG, weights.weights_shrank),
)
CERTAIN: Suspects = (*OF_THE_PROGRAM, *_DECAY, Suspect(Cause.LEARNING_RATE_SCHEDULE, rates.rate_rose))
"""Mistakes of the program or its settings that are certain, whatever the symptom; mostly none."""

TORN: Suspects = (Suspect(HIGH, weights.torn_at_first), Suspect(HIGH, _grown_by_steps))
"""A learning rate that threw the weights out: early steps left little of them, or all together made them large."""

TOO_HIGH_A_RATE: Suspects = (Suspect(HIGH, _visible_step), *TORN, Suspect(HIGH))

MOVES_WILDLY: Suspects = (
    FirstOf(CERTAIN, (Suspect(HIGH, _replaced_at_first),), (Suspect(HIGH, _replaced_by_each_step),)),
)
"""Certain causes, else a learning rate with which most steps replace the weights; mostly none."""

DIVERGES: Suspects = (
    *CERTAIN,
    Suspect(Cause.PRECISION_OVERFLOW, program.float16),
    *TOO_HIGH_A_RATE,
    Suspect(Cause.EXPLODING_GRADIENTS),
)
"""Numbers that grow without bound."""

BREAKS: Suspects = (
    FirstOf(
        (Suspect(Cause.UNDEFINED_VALUE, _without_a_value),),
        (
            Suspect(Cause.PRECISION_OVERFLOW, lambda known: _broke_suddenly(known) and program.float16(known)),
            Suspect(Cause.NON_FINITE_DATA, _broke_suddenly),
            *DIVERGES,
        ),
    ),
)
"""Numbers that are not finite."""

LEARNS_NOTHING: Suspects = (
    *OF_THE_PROGRAM,
    Suspect(Cause.WRONG_LABELS, labels.unrelated_noise),
    Suspect(Cause.LEARNING_RATE_SCHEDULE, rates.rate_collapsed),
    Suspect(Cause.CLIPPING_TOO_LOW, gradients.clipped_away),
    Suspect(Cause.DEAD_UNITS, gradients.zero_gradients),
    FirstOf(
        (Suspect(Cause.SYMMETRIC_INITIALIZATION, _alike_without_gradients),),
        (Suspect(HIGH, _died_by_a_large_step),),
        (Suspect(Cause.BAD_INITIALIZATION, _without_gradients),),
    ),
    *_DECAY,
    Suspect(Cause.VANISHING_GRADIENTS, gradients.gradient_spread),
    FirstOf(
        (Suspect(LOW, weights.goes_nowhere),),
        (Suspect(HIGH, weights.wild_updates),),
        TORN,  # beside weights that were thrown out any step is small
        (Suspect(LOW, weights.still_updates),),
    ),
)
"""A loss that does not fall."""


def _risen_rate(known: Known) -> Answer:
    rate = risen_rate(known.window, before=known.lead.since_step - LOOKED_BACK)
    return rate is not None and f"the rate is {rate[1]:.3g}, and was never above {rate[0]:.3g} before"


def _grown_updates(known: Known) -> Answer:
    growth = growth_of_updates(known.window, worker=known.lead.worker)
    return growth is not None and times_as_large(growth.times)


RISES: Suspects = (
    *CERTAIN,
    FirstOf(
        (Suspect(HIGH, _risen_rate),),
        (
            Suspect(HIGH, _grown_updates),
            Suspect(Cause.EXPLODING_GRADIENTS, lambda known: bool(_grown_updates(known))),
        ),
    ),
)
"""A loss that has left its level for a higher one."""
