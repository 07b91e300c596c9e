"""Questions about the learning rates, each answered present, absent or unknown. Pure functions."""

from __future__ import annotations

import numpy as np

from trackside.contracts.cause import Cause
from trackside.evidence.question import Answer, Known, question


@question(supports=(Cause.LEARNING_RATE_SCHEDULE,), explains=(Cause.LEARNING_RATE_TOO_LOW,))
def rate_collapsed(known: Known) -> Answer:
    """The learning rate collapsed long ago."""
    if not known.seen.learning_rates:
        return None
    rate = known.seen.collapsed_rate
    return f"the learning rate fell from {rate[1]:.3g} to {rate[2]:.3g} by step {rate[0]}" if rate else False


@question(supports=(Cause.LEARNING_RATE_SCHEDULE,), explains=(Cause.LEARNING_RATE_TOO_HIGH,))
def rate_rose(known: Known) -> Answer:
    """The learning rate rose to a multiple without a warm-up."""
    if not known.seen.learning_rates:
        return None
    rose = known.seen.risen_rate
    return f"the learning rate began at {rose[0]:.3g} and is {rose[1]:.3g} now" if rose else False


@question(refutes=(Cause.LEARNING_RATE_SCHEDULE,))
def rate_varies(known: Known) -> Answer:
    """The learning rate varies."""
    rates = known.seen.learning_rates
    return any(np.ptp(column.values) > 0 for column in rates) if rates else None
