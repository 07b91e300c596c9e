"""What the inputs of samples tell of their labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.situation.inputs import neighbours_of

RANDOM = np.random.default_rng(0)
CLASSES = np.arange(64) % 4
NEAR = np.eye(4)[CLASSES] + 0.2 * RANDOM.normal(size=(64, 4))
FAR = RANDOM.normal(size=(64, 4))
NUMBERS = NEAR @ np.array([0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("inputs", "labels", "is_told"),
    [
        pytest.param(NEAR, CLASSES, True, id="classes"),
        pytest.param(NEAR.reshape(64, 1, 2, 2), CLASSES[:, None], True, id="images"),
        pytest.param(1e6 * NEAR + 7, CLASSES, True, id="another-scale"),
        pytest.param(NEAR, NUMBERS, True, id="numbers"),
        pytest.param(FAR, CLASSES, False, id="noise"),
        pytest.param(NEAR, RANDOM.permutation(CLASSES), False, id="shuffled"),
        pytest.param(NEAR, RANDOM.permutation(NUMBERS), False, id="shuffled-numbers"),
        pytest.param(np.repeat(FAR[:16], 4, axis=0), np.repeat(CLASSES[:16], 4), False, id="the-same-samples-again"),
        pytest.param((100 * NEAR).astype(np.int64), CLASSES, None, id="words"),
        pytest.param(NEAR[:16], CLASSES[:16], None, id="too-few"),
        pytest.param(NEAR, CLASSES[:32], None, id="other-samples"),
        pytest.param(NEAR, np.zeros(64, np.int64), None, id="one-class"),
        pytest.param(NEAR, np.ones((64, 3), np.float32), None, id="several-numbers-a-sample"),
        pytest.param(np.full((64, 4), np.nan), CLASSES, None, id="broken"),
    ],
)
def test_what_inputs_tell(inputs: Any, labels: Any, is_told: bool | None) -> None:
    found = neighbours_of(inputs, labels)
    assert (None if found is None else found.deviations > 2) is is_told


@given(samples=st.integers(32, 80), classes=st.integers(2, 6), seed=st.integers(0, 99))
def test_no_count_exceeds_the_samples(samples: int, classes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    found = neighbours_of(random.normal(size=(samples, 3)), np.arange(samples) % classes)
    assert found is not None
    assert 0 <= found.alike <= samples
    assert 0 < found.expected < samples
