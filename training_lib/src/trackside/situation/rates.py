"""Changes of a learning rate: warm-up and collapse. Pure functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trackside.situation.constants import ALL_BUT_CHANCE, HALF_WAY, LASTING_STEPS, VISIBLE


def warms_up(rates: NDArray[np.float64], *, places: NDArray[np.int64] | None = None) -> bool:
    """Return True if the rates rise to their peak in about a straight line, as in a warm-up.

    Half way to the peak a line is at a half of it, and so is half a cosine; exponential growth and jumps are far below.

    Args:
        rates: One rate per step, oldest first, shape (n,).
        places: The number of training steps before each, shape (n,); None where each follows the one before.
    """
    peak = int(np.argmax(rates >= ALL_BUT_CHANCE * rates.max()))
    if places is None:
        return bool(rates[peak // 2] > HALF_WAY * rates[peak])
    return bool(np.interp(places[peak] // 2, places, rates) > HALF_WAY * rates[peak])


def collapsed_at(
    rates: NDArray[np.float64],
    *,
    share: float = VISIBLE,
    steps: int = LASTING_STEPS,
    places: NDArray[np.int64] | None = None,
) -> int | None:
    """Return the index from which on the rates stayed below `share` of their peak, if long enough ago; else None.

    Long enough: `steps` steps, and more than half as many as before. So a schedule that ends at zero at the end of the
    run does not count.

    Args:
        rates: One rate per step, oldest first, shape (n,).
        share: The share of the peak below which a rate has collapsed.
        steps: The fewest steps since the collapse.
        places: The number of training steps before each, shape (n,); None where each follows the one before.
    """
    peak = float(rates.max()) if len(rates) else 0.0
    if not peak > 0 or not rates[-1] < share * peak:
        return None
    since = int(np.flatnonzero(rates >= share * peak)[-1]) + 1
    if places is None:
        places = np.arange(len(rates))
    is_long = 2 * (places[-1] + 1 - places[since]) > places[since]
    return since if len(rates) - since >= steps and is_long else None
