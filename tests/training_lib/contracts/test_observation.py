"""Observations in words, with units."""

from __future__ import annotations

import math

import pytest

from trackside.contracts.observation import in_words, is_recorded_number


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (("mean |gradient|", 3.1e-12, "<", 1e-7), "mean |gradient|: 3.1e-12, below the limit of 1e-07"),
        (("dead units in %", 97.25, ">", 90.0), "dead units: 97.25%, above the limit of 90%"),
        (("units at both ends, in %", 97.25, ">", 90.0), "units at both ends: 97.25%, above the limit of 90%"),
        (("share of steps kept", 1.0, ">", 0.9), "share of steps kept: 100%, above the limit of 90%"),
        (("wrong share of class 3", 0.5, ">", 0.25), "wrong share of class 3: 50%, above the limit of 25%"),
        (("seconds without a step", 1830.4, ">", 1800), "time without a step: 1830 s, above the limit of 1,800 s"),
        (("non-finite values", 5.0, ">", 0.0), "non-finite values: 5"),
        (("softmax before CrossEntropyLoss, times", 1.0, ">", 0.0), "softmax before CrossEntropyLoss: once"),
        (("softmax before CrossEntropyLoss, times", 2.0, ">", 0.0), "softmax before CrossEntropyLoss: 2 times"),
        (("optimizers that hold it", 0.0, "<", 1.0), "optimizers that hold it: none"),
        (("relative update", 0.0, "<", math.ulp(0.0)), "relative update: 0"),
        (("mean |gradient|", math.nan, "<", 1e-7), "mean |gradient|: nan, below the limit of 1e-07"),
        (("units", math.inf, ">", 2.0), "units: inf, above the limit of 2"),
        (("steps without a gain", 1200.0, ">", 1000.0), "steps without a gain: 1,200, above the limit of 1,000"),
    ],
    ids=lambda case: str(case[0]) if isinstance(case, tuple) else "",
)  # fmt: skip
def test_an_observation_has_numbers_and_units(observed: tuple[str, float, str, float], words: str) -> None:
    assert in_words(*observed) == words


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param("trackside/gradients_kept", True, id="ours"),
        pytest.param("gradient/Net_fc.weight", False, id="a-tensor"),
        pytest.param("trackside_model.weight", False, id="a-name-like-ours"),
    ],
)
def test_numbers_that_a_run_records_of_itself(subject: str, expected: bool) -> None:
    assert is_recorded_number(subject) is expected
