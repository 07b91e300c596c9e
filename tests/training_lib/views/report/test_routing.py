"""Experts over steps, from the gradients of their parameters."""

from __future__ import annotations

import numpy as np

from tests.training_lib.rules.program.test_collapsed_routing import EXPERTS, MODULES, ROWS
from tests.training_lib.views.report.recorded import recorded_trial
from trackside.views.report.routing import routing_maps

STEPS = 100


def test_each_expert_has_its_share_and_a_forgotten_one_none() -> None:
    loads = np.array([[3.0, 4.0, 0.0, 0.0]] * 50 + [[1.0, 1.0, 1.0, 1.0]] * 50)
    numbers = {
        expert.gradient: {"l2": {step: float(loads[step, place]) for step in range(STEPS) if loads[step, place]}}
        for place, expert in enumerate(EXPERTS)
    }
    (found,) = routing_maps(recorded_trial(numbers, facts=MODULES), (0, STEPS - 1))
    assert found.tensors == ("expert 0", "expert 1", "expert 2", "expert 3")
    np.testing.assert_allclose(found.values[:, 10], [9 / 25, 16 / 25, 0, 0])
    np.testing.assert_allclose(found.values[:, 90], [0.25] * 4)


def test_a_model_without_experts_or_with_experts_in_rows_has_no_picture() -> None:
    numbers = {"gradient/Net_fc.weight": {"l2": {0: 1.0}}}
    assert not list(routing_maps(recorded_trial(numbers), (0, 1)))
    assert not list(routing_maps(recorded_trial(numbers, facts=ROWS), (0, 1)))
