"""The learning rate to try first, by how far the first steps moved the weights.

A step moves a weight in proportion to the learning rate, so one measurement says how far off the rate is: sound
trainings begin with steps of some 1 % of the size of the weights.
"""

from __future__ import annotations

import time

from trackside.contracts.errors import TracksideError

USUAL_FIRST_UPDATE = 0.01  # of the size of a weight
FAR_OFF = 3.0  # a rate that is off by less is not what the cause is about


def proposed_rate(run: str, value: float, *, is_too_high: bool) -> float | None:
    """Return the learning rate with which first steps are of usual size; None where they settle nothing.

    Args:
        run: Location of the run.
        value: Its learning rate.
        is_too_high: The rate must fall; else it must rise.
    """
    first = _first_update(run)
    if not first:
        return None
    proposed = value * USUAL_FIRST_UPDATE / first
    is_far = proposed * FAR_OFF <= value if is_too_high else proposed >= value * FAR_OFF
    return proposed if is_far else None


def _first_update(run: str) -> float | None:
    from trackside.situation.measurements import Evidence  # NumPy: the help of no command needs it
    from trackside.trial.trial import open_trial

    try:
        trial = open_trial(run)
        return Evidence(trial.window(trial.recorded_through, now=time.time())).first_update_ratio
    except (TracksideError, OSError):
        return None
