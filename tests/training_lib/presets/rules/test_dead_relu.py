"""dead-relu, as documented: shares of units that are hardly ever active."""

from __future__ import annotations

import numpy as np

from tests.training_lib.rules.tables import Row, every_case
from trackside.presets.rules.dead_relu import DocumentedDeadRelu
from trackside.testing.rule_case import RuleCase

ROLE, MXNET, OWN = "Net_act_output_0", "relu0_relu_output_0", "Net_mine"
COLLECTIONS = {"relu_outputs": ("^Net_act",), "mine": ("^Net_mine$",)}
ALIVE = np.ones((8, 10))
DEAD = np.where(np.arange(10) < 6, 0.0, ALIVE)  # 6 units of 10
HALF = np.where(np.arange(10) < 5, 0.0, ALIVE)
IMAGES = np.zeros((4, 10, 3, 3)) + np.where(np.arange(10) < 6, -1.0, 1.0)[:, None, None]
RARE = np.zeros((200, 4))
RARE[0] = 1.0  # each unit is active in half a percent
OFTEN = np.zeros((50, 4))
OFTEN[0] = 1.0  # in two percent


USUAL_RULE = DocumentedDeadRelu()
NAMED = DocumentedDeadRelu(tensor_regex="mine")
STRICT = DocumentedDeadRelu(threshold_layer=10.0)
FIRES = [
    Row("most units put out nothing", {ROLE: {0: DEAD}}, fires=(ROLE,), collections=COLLECTIONS),
    Row("under MXNet's name", {MXNET: {0: DEAD}}, fires=(MXNET,)),
    Row("under a name of the user's own", {OWN: {0: DEAD}}, fires=(OWN,), rule=NAMED),
    Row("channels of images", {ROLE: {0: IMAGES}}, fires=(ROLE,), collections=COLLECTIONS),
    Row("active in half a percent", {ROLE: {0: RARE}}, fires=(ROLE,), collections=COLLECTIONS),
    Row("half of them, where a tenth is asked for", {MXNET: {0: HALF}}, fires=(MXNET,), rule=STRICT),
    Row(
        "the deadest layer leads",
        {MXNET: {0: DEAD}, ROLE: {0: np.zeros((8, 10))}},
        fires=(ROLE, MXNET),
        collections=COLLECTIONS,
    ),
]
SILENT = [
    Row("all alive", {ROLE: {0: ALIVE}}, collections=COLLECTIONS),
    Row("half of them dead, not more", {MXNET: {0: HALF}}),
    Row("dead under another name than the chosen", {MXNET: {0: DEAD}, OWN: {0: ALIVE}}, rule=NAMED),
    Row("each channel is active somewhere", {ROLE: {0: np.abs(IMAGES)}}, collections=COLLECTIONS),
    Row("active in two percent", {ROLE: {0: OFTEN}}, collections=COLLECTIONS),
    Row("dead before, not saved now", {MXNET: {0: DEAD}, "MSELoss_output_0": {0: 1.0, 10: 1.0}}),
    Row("scalars have no units", {MXNET: {0: 0.0}}),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


def test_it_says_what_is_missing() -> None:
    assert "ReLU" in DocumentedDeadRelu().lacks(RuleCase("a loss", {"MSELoss_output_0": {0: 1.0}}).window)
    assert not DocumentedDeadRelu().lacks(RuleCase("outputs", {MXNET: {0: ALIVE}}).window)
