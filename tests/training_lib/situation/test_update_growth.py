"""Updates that stand out of their own recent past."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.situation.update_growth import stands_out

STEADY = [1e-3, 1.2e-3, 0.9e-3] * 20


@pytest.mark.parametrize(
    ("newest", "stands"),
    [
        pytest.param([4e-3, 5e-3, 4e-3], True, id="four-times-as-large"),
        pytest.param([4e-3, 1e-3, 4e-3], False, id="one-of-three-is-usual"),
        pytest.param([1.4e-3] * 3, False, id="a-little-larger"),
        pytest.param([math.nan, 4e-3, 4e-3], False, id="not-a-number"),
        pytest.param([math.inf] * 3, True, id="without-bounds"),
    ],
)
def test_the_newest_three(newest: list[float], stands: bool) -> None:
    assert stands_out(np.array([*STEADY, *newest]), deviations=6) is stands


@given(
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.0, 0.1, 1.0]),
    times=st.sampled_from([1.0, 1.5, 1.6, 8.0]),
    broken=st.booleans(),
)
def test_as_defined(seed: int, spread: float, times: float, broken: bool) -> None:
    random = np.random.default_rng(seed)
    sizes = 1e-3 * np.exp(spread * random.standard_normal(60))
    sizes[-3:] *= times
    if broken:
        sizes[int(random.integers(0, 60))] = math.nan
    recent = sizes[-53:-3].tolist()
    usual = math.nan if any(map(math.isnan, recent)) else statistics.median(recent)
    deviation = 1.4826 * statistics.median([abs(one - usual) for one in recent])
    limit = usual + 6 * deviation
    expected = min(sizes[-3:]) > 1.5 * usual and min(sizes[-3:]) > limit > 0
    assert stands_out(sizes, deviations=6) == bool(expected and not np.isnan(sizes[-3:]).any())
