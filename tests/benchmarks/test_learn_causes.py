"""The choice of how near learned weights stay to the expected ones, and the expected ones themselves."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.detection.learn_causes import CAUSES, evidence_names, prior_weights, tightest_as_good
from trackside.diagnosis.signs import FOUND


@pytest.mark.parametrize(
    ("by_fold", "chosen"),
    [
        pytest.param({0.1: [0.1, 0.2, 0.3], 1.0: [0.11, 0.21, 0.31]}, 1.0, id="a-gain-that-chance-explains"),
        pytest.param({0.1: [0.1, 0.1, 0.11], 1.0: [0.3, 0.3, 0.3]}, 0.1, id="a-certain-gain"),
        pytest.param({0.1: [0.3, 0.3, 0.3], 1.0: [0.1, 0.1, 0.1]}, 1.0, id="the-tightest-is-best"),
        pytest.param({0.1: [0.1, 0.2], 0.3: [0.1, 0.25], 1.0: [0.5, 0.6]}, 0.3, id="the-middle"),
    ],
)
def test_the_tightest_that_is_as_good_is_chosen(by_fold: dict[float, list[float]], chosen: float) -> None:
    assert tightest_as_good({tightness: np.array(found) for tightness, found in by_fold.items()}) == chosen


def test_every_piece_of_evidence_has_expected_weights() -> None:
    names = evidence_names()
    weights = prior_weights(names)
    assert weights.shape == (1 + 2 * len(names), len(CAUSES))
    assert weights[1 + names.index(FOUND + "overfit")].max() == 1.5
