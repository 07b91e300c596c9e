"""saturated-activation, as documented: shares of units whose inputs lie where the activation is flat."""

from __future__ import annotations

import numpy as np

from tests.training_lib.rules.tables import Row, every_case
from trackside.contracts.model_facts import ModelFacts, ModuleFacts
from trackside.presets.rules.saturated_activation import DocumentedSaturatedActivation
from trackside.testing.rule_case import RuleCase, assert_case

TANH, SIGMOID, ROLE = "Net_tanh_input_0", "Net_sigmoid_input_0", "Net_gate_input_0"
COLLECTIONS = {"saturating_inputs": ("^Net_gate",)}
FACTS = ModelFacts(modules=(ModuleFacts("Net_gate", "Sigmoid", role="activation", activation="sigmoid"),))


def layer(share: float, value: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """A batch of 8 samples and 10 units, so many of which are that large throughout."""
    return np.where(np.arange(10) < 10 * share, value, np.zeros((8, 10)))


USUAL_RULE = DocumentedSaturatedActivation()
NAMED = DocumentedSaturatedActivation(tensor_regex="gate")
CHOSEN = DocumentedSaturatedActivation(collection_names="saturating_inputs", tensor_regex="")
NARROW = DocumentedSaturatedActivation(threshold_tanh_max=3.0, threshold_layer=20.0)
FIRES = [
    Row("tanh, far above", {TANH: {0: layer(0.6, 10.0)}}, fires=(TANH,)),
    Row("tanh, far below", {TANH: {0: layer(0.6, -10.0)}}, fires=(TANH,)),
    Row("sigmoid, far above", {SIGMOID: {0: layer(0.6, 17.0)}}, fires=(SIGMOID,)),
    Row("by its role", {ROLE: {0: layer(0.6, 20.0)}}, fires=(ROLE,), collections=COLLECTIONS, facts=FACTS),
    Row("of no known kind: as tanh", {ROLE: {0: layer(0.6, 10.0)}}, fires=(ROLE,), rule=NAMED),
    Row("a collection", {ROLE: {0: layer(1, 20.0)}}, fires=(ROLE,), collections=COLLECTIONS, rule=CHOSEN),
    Row("limits of the user's own", {TANH: {0: layer(0.3, 4.0)}}, fires=(TANH,), rule=NARROW),
]
SILENT = [
    Row("tanh, within", {TANH: {0: layer(1.0, 9.0)}}),
    Row("half of the units, not more", {TANH: {0: layer(0.5, -10.0)}}),
    Row("sigmoid has other limits than tanh", {SIGMOID: {0: layer(1.0, 10.0)}}),
    Row("known to be a sigmoid", {ROLE: {0: layer(1, 10.0)}}, collections=COLLECTIONS, facts=FACTS),
    Row("another name than the chosen", {TANH: {0: layer(1.0, 10.0)}, ROLE: {0: layer(0, 0)}}, rule=NAMED),
    Row("another collection", {TANH: {0: layer(1.0, 10.0)}}, collections=COLLECTIONS, rule=CHOSEN),
    Row("fewer units than allowed", {TANH: {0: layer(0.2, 4.0)}}, rule=NARROW),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


def test_a_unit_with_a_few_inputs_between_is_saturated_and_one_with_more_is_not() -> None:
    inputs = np.full((200, 1), 10.0)
    inputs[0] = 0.0
    assert_case(DocumentedSaturatedActivation(), RuleCase("half a percent", {TANH: {0: inputs}}, fires=(TANH,)))
    inputs[:2] = 0.0
    assert_case(DocumentedSaturatedActivation(), RuleCase("one percent", {TANH: {0: inputs}}))
