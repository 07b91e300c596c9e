"""Every observation of a loss has a detector here, or is another framework's; a failing one costs itself alone."""

from __future__ import annotations

import pytest
import torch

from trackside.contracts.observations import (
    BEYOND_REACH,
    DROPOUTS,
    STEP_SHARE,
    TAKES_SCORES_FOR_PROBABILITIES,
    declared,
)
from trackside.frameworks.pytorch.losses import detector, detectors
from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss, observed
from trackside.frameworks.shared.detectors import Detector, detectors_in

OF_KERAS = {TAKES_SCORES_FOR_PROBABILITIES}  # in PyTorch such a loss ends with an error


def test_each_observation_has_one_detector() -> None:
    seen = [observation for found in detectors_in(detectors) for observation in found.observations]
    assert len(seen) == len(set(seen))
    assert {*seen} == {*declared("losses")} - OF_KERAS


def test_what_is_as_by_default_is_left_out() -> None:
    assert observed(SeenLoss(torch.ones(2, requires_grad=True).sum().grad_fn, UNNAMED)) == {}


def test_a_detector_that_cannot_read_costs_its_own_observation_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def overwritten(_: SeenLoss) -> float:
        raise RuntimeError("one of the variables needed for gradient computation has been modified")

    def known(_: SeenLoss) -> float:
        return 0.5

    found = Detector((BEYOND_REACH,), overwritten), Detector((STEP_SHARE,), known)
    monkeypatch.setattr(detector, "detectors_in", lambda _: found)
    loss = observed(SeenLoss(None, UNNAMED))
    assert loss == {STEP_SHARE: 0.5}
    assert DROPOUTS not in loss
