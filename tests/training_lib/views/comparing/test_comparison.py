from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from trackside.views.comparing.comparison import BLOCK_STEPS, parting

STEPS = 320
Curve = NDArray[np.float64]


def noisy(seed: int, *, level: float = 1.0, noise: float = 0.1, shift: Callable[[Curve], Curve] | None = None) -> Curve:
    steps = np.arange(STEPS, dtype=np.float64)
    values = level * np.exp(-steps / 100) + noise * np.random.default_rng(seed).standard_normal(STEPS)
    return values if shift is None else values + shift(steps)


@pytest.mark.parametrize(
    ("other", "earliest", "latest"),
    [
        pytest.param(noisy(2, shift=lambda s: np.where(s >= 160, 0.4, 0.0)), 144, 160, id="a jump"),
        pytest.param(noisy(2, shift=lambda s: np.full(STEPS, -0.3)), 0, 0, id="lower from the start"),
        pytest.param(noisy(2, shift=lambda s: np.maximum(0, s - 100) / 200), 112, 160, id="a slow drift"),
        pytest.param(noisy(1, shift=lambda s: np.where(s >= 200, np.nan, 0.0)), 200, 200, id="not finite"),
    ],
)
def test_losses_that_part(other: Curve, earliest: int, latest: int) -> None:
    _, place = parting(noisy(1), other)
    assert place is not None
    assert earliest <= place <= latest


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(noisy(1), id="the same"),
        pytest.param(noisy(1) * (1 + 1e-9), id="rounding"),
        *[pytest.param(noisy(seed), id=f"another seed {seed}") for seed in range(2, 12)],
        pytest.param(noisy(2, shift=lambda s: np.where((s > 100) & (s < 130), 0.4, 0.0)), id="a passing bump"),
    ],
)
def test_losses_that_stay_together(other: Curve) -> None:
    noise, place = parting(noisy(1), other)
    assert place is None
    assert noise is not None


def test_too_few_steps_are_not_weighed() -> None:
    few = noisy(1)[: 2 * BLOCK_STEPS]
    assert parting(few, few + 5) == (None, None)
