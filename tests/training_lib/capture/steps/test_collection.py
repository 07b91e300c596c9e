"""Membership by smdebug's regexes."""

from __future__ import annotations

import pytest

from trackside.capture.steps.collection import Membership, Saved
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


PREFIXED = (
    "gradient/Net_fc.weight",
    "raw_gradient/Net_fc.weight",
    "activation_gradient/weight_output_0",
    "buffer/Net_weight",
    "optimizer/Net_fc.weight/exp_avg",
    "hyperparameters/SGD/group_0/weight_decay",
    "metrics/weight",
    "scalar/weight",
)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(CaptureRequest((CollectionRequest("all"),)), id="all"),
        pytest.param(CaptureRequest((CollectionRequest("buffers"), CollectionRequest("weights"))), id="one-of-them"),
        pytest.param(CaptureRequest((CollectionRequest("mine", include_regex=("weight",)),)), id="a-regex"),
    ],
)
def test_where_prefixed_tensors_are_saved_they_are_no_weights(request_: CaptureRequest) -> None:
    membership = Membership(request_)
    assert [name for name in PREFIXED if "weights" in membership.of(name)] == []
    assert "weights" in membership.of("Net_fc.weight")
    assert membership.regexes["weights"] == (
        (
            "^(?!gradient|raw_gradient/|activation_gradient/|buffer/|optimizer/|hyperparameters/|metrics/|scalar/"
            "|feature_importance/|trees/|average_shap/|full_shap/).*weight"
        ),
    )


def test_elsewhere_the_regexes_are_the_originals() -> None:
    regexes = Membership(CaptureRequest((CollectionRequest("weights"), CollectionRequest("outputs")))).regexes
    assert (regexes["weights"], regexes["biases"]) == (("^(?!gradient).*weight",), ("^(?!gradient).*bias",))


def test_every_tensor_is_in_all_and_names_count_beside_regexes() -> None:
    membership = Membership(CaptureRequest((CollectionRequest("all"), CollectionRequest("mine", tensor_names=("x",)))))
    assert membership.of("x") == {"all", "mine"}
    assert membership.of("y") == {"all"}


REDUCED = CollectionRequest("weights", reductions=("mean", "max"))
SHAPES = CollectionRequest("mine", include_regex=("fc1",), save_raw_tensor=False, save_shape=True)
BOTH = CollectionRequest("also", include_regex=("fc1",), reductions=("max", "abs_max"), save_raw_tensor=True)


@pytest.mark.parametrize(
    ("name", "due", "expected"),
    [
        pytest.param("Net_fc1.weight", {"weights"}, Saved(False, ("mean", "max"), False, "weights"), id="reduced"),
        pytest.param("Net_fc1.weight", {"mine"}, Saved(False, (), True, "mine"), id="shape-only"),
        pytest.param(
            "Net_fc1.weight",
            {"weights", "mine", "also"},
            Saved(True, ("mean", "max", "abs_max"), True, "weights"),
            id="a-union-each-once",
        ),
        pytest.param(
            "Net_fc2.weight", {"weights", "also"}, Saved(False, ("mean", "max"), False, "weights"), id="not-in"
        ),
        pytest.param(
            "CrossEntropyLoss_output_0", {"losses"}, Saved(True, (), False, ""), id="losses-are-never-reduced"
        ),
        pytest.param("anything", set(), Saved(), id="given-by-the-user"),
    ],
)
def test_what_is_saved_of_a_tensor(name: str, due: set[str], expected: Saved) -> None:
    losses = CollectionRequest("losses", reductions=("mean",), save_raw_tensor=False, save_shape=True)
    membership = Membership(CaptureRequest((losses, REDUCED, SHAPES, BOTH)))
    assert membership.saved(name, frozenset(due)) == expected
    assert membership.saved(name, frozenset(due)) == expected  # the remembered answer


def test_what_an_adapter_knows_counts() -> None:
    membership = Membership(CaptureRequest((CollectionRequest("outputs", reductions=("mean",)),)))
    due = frozenset({"outputs"})
    assert membership.saved("fc_output_0", due, due) == Saved(False, ("mean",), False, "outputs")
    assert membership.saved("fc_output_0", due) == Saved()
