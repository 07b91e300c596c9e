"""nlp-sequence-ratio: shares of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training_lib.rules.tables import Row, every_case
from trackside.contracts.errors import ConfigurationError
from trackside.rules.tensors.nlp_sequence_ratio import NlpSequenceRatio
from trackside.testing.rule_case import RuleCase

ROLE, MXNET, OWN = "Net_input_0", "model_embedding0_input_0", "Net_tokens"
COLLECTIONS = {"model_inputs": ("^Net_input",)}


def tokens(padding: int, *, unknown: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Four sequences of 25 tokens: of a hundred, so many are 0 and so many 100; the others are words."""
    return np.array([0] * padding + [100] * unknown + [7] * (100 - padding - unknown)).reshape(4, 25)


NAMED = NlpSequenceRatio(tensor_regex="tokens")
TWO = NlpSequenceRatio(token_values="0,100", token_thresholds_percent="50, 10")
FEWER = NlpSequenceRatio(token_values="0 100", token_thresholds_percent="20")
FIRES = [
    Row("more than half is padding", {ROLE: {0: tokens(51)}}, fires=(ROLE,), collections=COLLECTIONS),
    Row("under MXNet's name", {MXNET: {0: tokens(60)}}, fires=(MXNET,)),
    Row("under a name of the user's own", {OWN: {0: tokens(60)}}, fires=(OWN,), rule=NAMED),
    Row("stored as floating point", {OWN: {0: tokens(60).astype(np.float32)}}, fires=(OWN,), rule=NAMED),
    Row("the second token", {MXNET: {0: tokens(20, unknown=11)}}, fires=(MXNET,), rule=TWO),
    Row("both tokens", {MXNET: {0: tokens(60, unknown=30)}}, fires=(MXNET, MXNET), rule=TWO),
    Row("the last threshold holds on", {MXNET: {0: tokens(0, unknown=30)}}, fires=(MXNET,), rule=FEWER),
]
SILENT = [
    Row("half is padding, not more", {ROLE: {0: tokens(50)}}, collections=COLLECTIONS),
    Row("no padding", {MXNET: {0: tokens(0)}}),
    Row("another name", {MXNET: {0: tokens(60)}, OWN: {0: tokens(0)}}, rule=NAMED),
    Row("floating inputs are no tokens", {ROLE: {0: np.zeros((4, 5))}}, collections=COLLECTIONS),
    Row("the second token within its share", {MXNET: {0: tokens(20, unknown=10)}}, rule=TWO),
    Row("neither token", {MXNET: {0: tokens(50, unknown=10)}}, rule=TWO),
    Row("within the last threshold", {MXNET: {0: tokens(20, unknown=20)}}, rule=FEWER),
]

test_rows = every_case(NlpSequenceRatio(), [*FIRES, *SILENT])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("token_values", "pad", id="a word"),
        pytest.param("token_values", "", id="nothing"),
        pytest.param("token_thresholds_percent", "50%", id="a percent sign"),
    ],
)
def test_what_are_no_numbers_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"nlp-sequence-ratio.{name}: must be numbers"):
        NlpSequenceRatio.from_parameters({name: text})


def test_without_tokens_it_says_what_it_lacks() -> None:
    assert "tokens" in NlpSequenceRatio().lacks(RuleCase("a loss", {"MSELoss_output_0": {0: 1.0}}).window)
