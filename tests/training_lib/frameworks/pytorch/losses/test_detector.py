"""Every observation of a loss has a detector here, or is another framework's; a failing one costs itself alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trackside.contracts.observations import (
    BEYOND_REACH,
    DROPOUTS,
    OF_LOSSES,
    STEP_SHARE,
    TAKES_SCORES_FOR_PROBABILITIES,
    Observation,
)
from trackside.frameworks.pytorch.losses import detector
from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss, observed

OF_KERAS = {TAKES_SCORES_FOR_PROBABILITIES}  # in PyTorch such a loss ends with an error


def test_each_observation_has_one_detector() -> None:
    seen = [observation for observation, _ in detector._all_detectors()]
    assert len(seen) == len(set(seen))
    assert {*seen} == {*OF_LOSSES} - OF_KERAS


def test_what_is_as_by_default_is_left_out() -> None:
    assert observed(SeenLoss(torch.ones(2, requires_grad=True).sum().grad_fn, UNNAMED)) == {}


def test_a_detector_that_cannot_read_costs_its_own_observation_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def overwritten(_: SeenLoss) -> float:
        raise RuntimeError("one of the variables needed for gradient computation has been modified")

    def known(_: SeenLoss) -> float:
        return 0.5

    found: tuple[tuple[Observation[Any], Any], ...] = ((BEYOND_REACH, overwritten), (STEP_SHARE, known))
    monkeypatch.setattr(detector, "_all_detectors", lambda: found)
    loss = observed(SeenLoss(None, UNNAMED))
    assert loss == {STEP_SHARE: 0.5}
    assert DROPOUTS not in loss
