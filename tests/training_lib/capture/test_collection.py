"""Membership by smdebug's regexes."""

from __future__ import annotations

import pytest

from trackside.capture.collection import Membership
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule

OWN = CollectionRequest("mine", Schedule(1), (r"fc1\.",))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("Net_fc1.weight", {"weights", "mine"}, id="weight"),
        pytest.param("Net_fc2.weight", {"weights"}, id="other-weight"),
        pytest.param("Net_fc2.bias", {"biases"}, id="bias"),
        pytest.param("gradient/Net_fc1.weight", {"gradients", "mine"}, id="gradient-is-no-weight"),
        pytest.param("gradient/Net_fc2.bias", {"gradients"}, id="gradient-is-no-bias"),
        pytest.param("CrossEntropyLoss_output_0", {"losses"}, id="loss"),
        pytest.param("loss_output_0", {"losses"}, id="unnamed-loss"),
        pytest.param("CrossEntropyLoss_input_0", set(), id="input-of-a-loss"),
        pytest.param("Net_output_0", set(), id="output-of-a-module"),
    ],
)
def test_membership(name: str, expected: set[str]) -> None:
    membership = Membership(CaptureRequest((CollectionRequest("losses"), OWN)))
    assert membership.of(name) == expected
    assert membership.of(name) == expected  # the remembered answer


def test_every_built_in_collection_is_there_unasked() -> None:
    assert set(Membership(CaptureRequest(())).regexes) == {"losses", "weights", "biases", "gradients"}
