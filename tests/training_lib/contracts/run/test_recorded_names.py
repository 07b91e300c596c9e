"""Every number that a run records of itself has a name that users can read."""

from __future__ import annotations

import pytest

from trackside.capture.statistics.step_numbers import STEP_NUMBERS, clipping_name
from trackside.contracts.run import recorded_names
from trackside.contracts.run.recorded_names import LOGGED, RECORDED, loss_term, loss_term_guess, plain_name

NAMES = {value for value in vars(recorded_names).values() if isinstance(value, str) and value.startswith(RECORDED)}
NAMES = (NAMES - {RECORDED, LOGGED}) | {number.name for number in STEP_NUMBERS}


@pytest.mark.parametrize("name", sorted({*NAMES, clipping_name(1), loss_term(2), loss_term_guess(0)}))
def test_no_internal_word_reaches_a_card(name: str) -> None:
    words = plain_name(name)
    assert words
    assert "trackside" not in words
    assert "_" not in words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("trackside/gradients_kept", "gradients kept from the step before", id="named"),
        pytest.param("trackside/loss_term_2", "loss term 2", id="numbered"),
        pytest.param("trackside/logged/cut_share", "the logged cut share", id="logged"),
        pytest.param("gradient/Net_fc.weight", "gradient/Net_fc.weight", id="a-tensor"),
        pytest.param("hyperparameters/SGD/group_0/lr", "hyperparameters/SGD/group_0/lr", id="a-rate"),
    ],
)
def test_the_plain_name(name: str, words: str) -> None:
    assert plain_name(name) == words
