"""Whether a model can have tensors in a collection of a role."""

from __future__ import annotations

import pytest

from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts
from trackside.rules.role_collections import without_members


def model(*activations: str, losses: tuple[LossFacts, ...] = ()) -> ModelFacts:
    named = [ModuleFacts(f"a{k}", kind, "activation", kind) for k, kind in enumerate(activations)]
    return ModelFacts(modules=(ModuleFacts("fc", "Linear", "linear"), *named), losses=losses)


MSE, BY_HAND = LossFacts("MSELoss_output_0", "MSELoss"), LossFacts("Loss_output_0")
CROSS_ENTROPY = LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", class_count=3)


@pytest.mark.parametrize(
    ("collections", "facts", "reason"),
    [
        pytest.param(("relu_outputs",), model("tanh"), "no module of the model is a ReLU", id="tanh"),
        pytest.param(
            ("relu_outputs",), model(),
            "no module of the model is a ReLU (one that is called as a function is not seen)", id="functions",
        ),
        pytest.param(
            ("saturating_inputs",), model("relu", "gelu"), "no module of the model is a sigmoid or tanh", id="relu"
        ),
        pytest.param(("labels",), model(losses=(MSE,)), "the loss separates no classes (MSELoss)", id="regression"),
        pytest.param(("labels",), model(losses=(MSE, MSE)), "the loss separates no classes (MSELoss)", id="twice"),
        pytest.param(("relu_outputs", "labels"), model("tanh", losses=(MSE,)), "no module of the model is a ReLU",
                     id="neither"),
    ],
)  # fmt: skip
def test_a_model_without(collections: tuple[str, ...], facts: ModelFacts, reason: str) -> None:
    assert without_members(collections, facts) == reason


@pytest.mark.parametrize(
    ("collections", "facts"),
    [
        pytest.param(("relu_outputs",), model("tanh", "relu"), id="one-relu"),
        pytest.param(("saturating_inputs",), model("sigmoid"), id="sigmoid"),
        pytest.param(("labels",), model(losses=(CROSS_ENTROPY,)), id="classes"),
        pytest.param(("labels",), model(losses=(MSE, CROSS_ENTROPY)), id="two-losses"),
        pytest.param(("labels",), model(losses=(BY_HAND,)), id="a-loss-by-hand"),
        pytest.param(("labels",), model(), id="no-loss-yet"),
        pytest.param(("relu_outputs",), ModelFacts(), id="nothing-told"),
        pytest.param(("relu_outputs", "weights"), model("tanh"), id="one-that-any-model-has"),
        pytest.param((), model("tanh"), id="no-collection"),
    ],
)
def test_a_model_that_may_have(collections: tuple[str, ...], facts: ModelFacts) -> None:
    assert without_members(collections, facts) == ""
