"""The fake trial is a real one over real records."""

from __future__ import annotations

import numpy as np
import pytest

from trackside.testing.fake_trial import fake_trial
from trackside.trial.trial import Trial


def test_it_is_a_trial_over_records() -> None:
    trial = fake_trial({"gradient/Net_fc1.weight": {0: np.ones((2, 3)), 10: 4.0}}, modes={10: "EVAL"})
    assert type(trial) is Trial
    assert trial.steps() == (0, 10)
    assert trial.mode_of(10) == "EVAL"
    assert trial.value("gradient/Net_fc1.weight", step=0, worker="worker_0").shape == (2, 3)


@pytest.mark.parametrize("ended", [True, False])
def test_it_has_ended_or_not(ended: bool) -> None:
    assert fake_trial({"a": {0: 1.0}}, ended=ended).has_ended is ended
