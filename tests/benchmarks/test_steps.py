"""The table of frameworks' own steps, losses and rates: what follows from a log, and what does not."""

from __future__ import annotations

import numpy as np

from benchmarks.steps.__main__ import READINGS, Compared, Reading

LOSSES = np.array([4.0, 2.0, 3.0, 1.0])
_SMOOTHED = np.array([4.0, (0.98 * 4 + 2) / 1.98])  # fastai's mean of 4 and 2


def test_recorded_numbers_follow_from_the_log_or_the_table_says_that_they_differ() -> None:
    mean_since = READINGS["keras", 1, "losses"]
    cases = [
        (mean_since, 1, [4.0, 3.0, 3.0, 2.5], LOSSES, True),
        (mean_since, 1, [4.0, 3.0, 3.0, 2.5], [4.0, 2.0, 3.0, 2.5], False),
        (READINGS["fastai", 1, "losses"], 1, _SMOOTHED, [4.0, 2.0], True),
        (READINGS["fastai", 1, "losses"], 1, _SMOOTHED, _SMOOTHED, False),
        (READINGS["ignite", 4, "losses"], 2, LOSSES, [3.0, 2.0], True),
        (READINGS["skorch", 4, "losses"], 2, LOSSES, [6.0, 4.0], True),
        (READINGS["skorch", 4, "rates"], 2, LOSSES, [2.0, 1.0], True),
        (READINGS["skorch", 4, "rates"], 2, LOSSES, [4.0, 3.0], False),
        (READINGS["stable_baselines3", 1, "rates"], 1, LOSSES[:3], LOSSES, True),
        (Reading("", lambda logged, _: logged), 1, LOSSES[:3], LOSSES, False),
    ]
    for reading, parts, logged, recorded, follows in cases:
        cell = Compared(np.asarray(logged), np.asarray(recorded), reading, parts)
        assert cell.follows == follows, cell
        assert ("differs" in cell.shown) != follows, cell
