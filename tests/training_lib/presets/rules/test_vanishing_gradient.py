"""vanishing-gradient, as documented: the mean of |g| of any gradient."""

from __future__ import annotations

import math

import numpy as np

from tests.training_lib.rules.tables import every_case
from trackside.presets.rules.vanishing_gradient import DocumentedVanishingGradient
from trackside.testing.rule_case import RuleCase, assert_case

FIRST, LAST, LOSS = "gradient/Net_a.weight", "gradient/Net_b.weight", "MSELoss_output_0"

FIRES = [
    RuleCase("one tensor suffices", {FIRST: {0: [1e-9, -1e-9]}, LAST: {0: [1.0]}}, fires=(FIRST,)),
    RuleCase("the smallest leads", {FIRST: {0: [1e-8]}, LAST: {0: [1e-9]}}, fires=(LAST, FIRST)),
    RuleCase("frozen parameters fire, as documented", {FIRST: {0: np.zeros(4)}}, fires=(FIRST,)),
    RuleCase("at a later step", {FIRST: {0: [1.0], 500: [1e-8]}}, fires=(FIRST,)),
]
SILENT = [
    RuleCase("gradients of usual size", {FIRST: {0: [1e-4]}, LAST: {0: [1e-2]}}),
    RuleCase("the threshold itself", {FIRST: {0: [1e-7]}}),
    RuleCase("small and large ones within a tensor", {FIRST: {0: [1e-9, 1e-3]}}),
    RuleCase("small before, not saved now", {FIRST: {0: [1e-9]}, LOSS: {0: 1.0, 10: 1.0}}),
]

test_cases = every_case(DocumentedVanishingGradient(), [*FIRES, *SILENT])


def test_nan_is_below_nothing() -> None:
    assert_case(DocumentedVanishingGradient(), RuleCase("NaN", {FIRST: {0: [math.nan]}}))
