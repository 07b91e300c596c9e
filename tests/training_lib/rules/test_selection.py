"""Which tensors a user means."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.rules.selection import at_step, patterns, selected, values_at_step, words
from trackside.testing.rule_case import RuleCase

LOSS, WEIGHT, BIAS, OWN, UNASKED = "MSELoss_output_0", "Net_fc.weight", "Net_fc.bias", "Net_mask_0", "stray"
TENSORS = {name: {0: [1.0]} for name in (LOSS, WEIGHT, BIAS, OWN, UNASKED)}
WINDOW = RuleCase("a run", TENSORS, collections={"masks_of_mine": ("mask",)}).window


@pytest.mark.parametrize(
    ("collections", "regex", "default", "names"),
    [
        pytest.param("", "", ("losses",), (LOSS,), id="neither: the default"),
        pytest.param("weights", "", ("losses",), (WEIGHT,), id="a collection"),
        pytest.param("weights, biases", "", (), (BIAS, WEIGHT), id="two"),
        pytest.param("", "fc", ("losses",), (BIAS, WEIGHT), id="a regex: no default"),
        pytest.param("losses", r"\.bias$", (), (LOSS, BIAS), id="both: their union"),
        pytest.param("", "mask", (), (OWN,), id="a regex finds what a collection of the user's own holds"),
        pytest.param("", "stray", (), (UNASKED,), id="and what no collection holds"),
        pytest.param("masks_of_mine", "", (), (OWN,), id="a collection of the user's own"),
        pytest.param("", "mask,stray", (), (OWN, UNASKED), id="two regexes"),
        pytest.param("", "^(mask|Net_m.{2,5}_0)", (), (OWN,), id="a comma within braces"),
        pytest.param("all", "", (), (LOSS, BIAS, WEIGHT, OWN, UNASKED), id="all"),
        pytest.param("nonsense", "", (), (), id="a collection that nobody knows"),
        pytest.param("", "nothing at all", (), (), id="a regex that finds nothing"),
    ],
)
def test_selected(collections: str, regex: str, default: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert selected(WINDOW, collection_names=collections, tensor_regex=regex, default=default) == tuple(sorted(names))


def test_a_regex_that_is_none_says_so() -> None:
    with pytest.raises(re.error):
        selected(WINDOW, tensor_regex="(")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param(" a , b ", ["a", "b"], id="two"),
        pytest.param("a{1,2},b", ["a{1,2}", "b"], id="a count"),
        pytest.param("[a,b],(c,d)", ["[a,b]", "(c,d)"], id="brackets"),
        pytest.param(r"a\(,b", [r"a\(", "b"], id="a bracket that is meant as such"),
        pytest.param("a,,b", ["a", "b"], id="an empty one would find everything"),
    ],
)
def test_patterns(text: str, parts: list[str]) -> None:
    assert [pattern.pattern for pattern in patterns(text)] == parts


@given(st.lists(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), max_size=5))
def test_words_come_back(names: list[str]) -> None:
    assert list(words(",".join(names))) == list(words(" ".join(names))) == names


def test_what_was_saved_at_a_step_and_what_only_before() -> None:
    window = RuleCase("two steps", {WEIGHT: {0: [1.0], 5: [2.0]}, BIAS: {0: [3.0]}}).window
    assert [column.tensor for column in at_step(window, (WEIGHT, BIAS, "never"), "mean")] == [WEIGHT]
    assert [(saved.tensor, saved.value.tolist()) for saved in values_at_step(window, (WEIGHT, BIAS))] == [
        (WEIGHT, [2.0])
    ]


def test_tensors_of_which_reductions_were_saved_have_no_value() -> None:
    window = RuleCase("a reduction", {f"smdebug/reductions/mean/{WEIGHT}": {0: 1.0}}).window
    assert [column.tensor for column in at_step(window, (WEIGHT,), "mean")] == [WEIGHT]
    assert list(values_at_step(window, (WEIGHT,))) == []


def test_each_worker_has_its_own_value() -> None:
    values = {0: {"worker_0": np.zeros(2), "worker_1": np.ones(2)}}
    window = RuleCase("two workers", {WEIGHT: values}).window
    found = {saved.worker: saved.value.tolist() for saved in values_at_step(window, (WEIGHT,))}
    assert found == {"worker_0": [0.0, 0.0], "worker_1": [1.0, 1.0]}
