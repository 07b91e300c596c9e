"""Sizes of gradients: by compiled code or by NumPy, they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trackside.capture.statistics import array_parameters as subject
from trackside.capture.statistics.always_on import AlwaysOn
from trackside.capture.statistics.array_parameters import Parameters
from trackside.contracts.capture_request import StatisticsRequest

RANDOM = np.random.default_rng(0)
PLAIN = RANDOM.normal(size=(70, 90)).astype(np.float32)
SPARSE = np.where(RANDOM.random((4000,)) < 0.3, 0, RANDOM.normal(size=4000)).astype(np.float32)


def oracle(gradient: Any) -> tuple[float, float, float]:
    sizes = np.abs(np.asarray(gradient, np.float64))
    return float(sizes.mean()), float(np.mean(sizes == 0)), float(sizes.max())


@pytest.mark.parametrize(
    "gradients",
    [
        pytest.param([PLAIN, SPARSE], id="single precision"),
        pytest.param([PLAIN, SPARSE.astype(np.float64)], id="double precision among them"),
        pytest.param([PLAIN, SPARSE.astype(np.float16)], id="half precision among them"),
        pytest.param([PLAIN.T, SPARSE], id="transposed"),
        pytest.param([PLAIN[::2], SPARSE[::3]], id="with gaps"),
        pytest.param([-PLAIN, np.zeros(5, np.float32)], id="nothing but zeros"),
        pytest.param([np.array([np.nan, 1, 0], np.float32), PLAIN], id="a NaN"),
        pytest.param([np.array([-np.inf, 1, 0], np.float32), PLAIN], id="infinite"),
        pytest.param(
            [np.array([3e38, 1, 0], np.float32), np.array([1e-42, 0, 1e-41], np.float32)], id="at the ends of the range"
        ),
        pytest.param([PLAIN, None], id="one without a gradient"),
        pytest.param([PLAIN, np.empty(0, np.float32)], id="one without elements"),
    ],
)
@pytest.mark.parametrize("has_loops", [True, False], ids=["compiled", "numpy"])
def test_sizes_are_those_of_numpy(gradients: list[Any], has_loops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_loops:
        monkeypatch.setattr(subject, "LOOPS", None)
    recorder = AlwaysOn(StatisticsRequest(budget=1.0, dear_interval=1))
    named = {str(place): gradient for place, gradient in enumerate(gradients)}
    found = Parameters().before(named, named, recorder).dear
    assert found is not None
    for place, gradient in enumerate(gradients):
        expected = (0.0, 0.0, 0.0) if gradient is None or not gradient.size else oracle(gradient)
        assert [row[place] for row in found[1:]] == pytest.approx(expected, rel=1e-5, nan_ok=True)
