"""Modules that are called with labels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.modules.given_labels import GivenLabels

TOKENS = torch.zeros(2, 3, dtype=torch.long)


@pytest.mark.parametrize(
    ("given", "is_given"),
    [({"labels": TOKENS}, True), ({"labels": None}, False), ({"input_ids": TOKENS}, False), ({}, False)],
)
def test_labels(given: dict[str, Any], is_given: bool) -> None:
    seen, module = GivenLabels(Watch()), nn.Linear(2, 2)
    seen.called(module, (), given)
    assert seen.of(module) is is_given
