"""Causes ranked by evidence: the likeliest first, refuted ones never, none where nothing supports one."""

from __future__ import annotations

import math

import pytest

from trackside.contracts.cause import SPEED_CAUSES, Cause, Sign, Suspicion
from trackside.diagnosis.learned import Weights, weights
from trackside.diagnosis.ranking import ranked, suspicions_of

WEIGHTS = Weights(
    bias=dict.fromkeys(weights().bias, 0.0),  # of the causes that the table knows
    present={
        "weights-grew": {"learning-rate-too-high": 2.0, "weight-decay-too-strong": 1.0},
        "shown:loss-sign": {"loss-sign": 5.0},
        "found:overfit": {"overfitting": 3.0},
        "worse-than-guessing": {"wrong-labels": 0.2},
        "gradient-fades": {"vanishing-gradients": 0.5},
        "weak": {"stalled": 0.01},
        "rate-rose": {"learning-rate-schedule": 0.5},
        "harm:lasting": {"class-imbalance": 4.0},
    },
    absent={"loss-fell": {"overfitting": -3.0}},
)
RANKED = [cause for cause in Cause if cause.value in WEIGHTS.bias and cause not in SPEED_CAUSES]
GREW = Sign("weights-grew", because="weights are 50 times as large")
SIGN = Sign("shown:loss-sign", because="the loss is multiplied by -1")
ROSE = Sign("rate-rose", because="the rate began at 0.1 and is 9 now")
OVERFIT, GUESS, FADES = Sign("found:overfit"), Sign("worse-than-guessing"), Sign("gradient-fades")
NO_DECAY = Sign("weight-decay", is_present=False)


def causes(*signs: Sign) -> list[str]:
    return [suspicion.cause.value for suspicion in suspicions_of(signs, WEIGHTS, hints={})]


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        pytest.param((), [], id="no-evidence"),
        pytest.param((Sign("weak"),), [], id="too-weak"),
        pytest.param((Sign("never-heard-of"),), [], id="an-unknown-name"),
        pytest.param((Sign("loss-fell", is_present=False),), [], id="only-evidence-against"),
        pytest.param((Sign("harm:lasting", because="it has lasted for 29 steps"),), [], id="harm-is-no-reason"),
        pytest.param((SIGN,), ["loss-sign"], id="strong"),
        pytest.param((SIGN, GREW), ["loss-sign"], id="the-stronger-alone"),
        pytest.param((GREW, GREW), ["learning-rate-too-high", "weight-decay-too-strong"], id="two"),
        pytest.param((GREW, GREW, NO_DECAY), ["learning-rate-too-high"], id="a-refuted-one-is-never-listed"),
        pytest.param((GREW, GREW, ROSE, NO_DECAY), ["learning-rate-schedule"], id="a-cause-in-place-of-its-sign"),
        pytest.param((SIGN, ROSE), ["loss-sign"], id="it-explains-no-other-cause"),
        pytest.param((Sign("uphill"), Sign("negative-loss")), ["loss-sign"], id="newer-than-the-table"),
        pytest.param((GREW, GREW, Sign("uphill"), NO_DECAY), ["loss-sign"], id="newer-and-in-place-of-its-sign"),
        pytest.param((Sign("uphill", is_present=False),), [], id="newer-and-absent"),
        pytest.param((OVERFIT,), ["overfitting"], id="learned-by-heart"),
        pytest.param((OVERFIT, GUESS), ["wrong-labels", "overfitting"], id="after-its-better-and-listed-still"),
        pytest.param(
            (OVERFIT, GUESS, FADES), ["vanishing-gradients", "overfitting"], id="after-what-explains-its-better"
        ),
        pytest.param((GUESS,), [], id="nothing-speaks-for-the-outranked-one"),
        pytest.param(
            (GREW, GREW, Sign("rate-rose", is_present=False), NO_DECAY), ["learning-rate-too-high"], id="it-is-absent"
        ),
    ],
)
def test_the_causes_that_are_listed(signs: tuple[Sign, ...], expected: list[str]) -> None:
    assert causes(*signs) == expected


def test_probabilities_are_those_of_a_softmax() -> None:
    found = {one.cause: one.probability for one in ranked([GREW], WEIGHTS, hints={})}
    total = math.exp(2) + math.exp(1) + len(RANKED) - 2
    assert found[Cause.LEARNING_RATE_TOO_HIGH] == pytest.approx(math.exp(2) / total)
    assert found[Cause.STALLED] == pytest.approx(1 / total)
    assert sum(found.values()) == pytest.approx(1)


def test_each_cause_shows_its_numbers() -> None:
    (first,) = suspicions_of([SIGN], WEIGHTS, hints={})
    assert first.because == "the loss is multiplied by -1"
    assert first.probability == pytest.approx(math.exp(5) / (math.exp(5) + len(RANKED) - 1), abs=1e-3)


@pytest.mark.parametrize(
    ("signs", "causes"),
    [
        pytest.param([Sign("found:overfit")], [Cause.OVERFITTING], id="another-cause"),
        pytest.param([Sign("found:labels-rule")], [], id="nothing-shows-it"),
        pytest.param([Sign("found:labels-rule"), Sign("labels-differ", False)], [], id="absent"),
        pytest.param(
            [Sign("found:labels-rule"), Sign("labels-differ")], [Cause.WRONG_LABELS], id="a-question-shows-it"
        ),
        pytest.param(
            [Sign("found:labels-rule"), Sign("shown:wrong-labels")], [Cause.WRONG_LABELS], id="a-rule-shows-it"
        ),
    ],
)
def test_labels_are_wrong_where_something_shows_it_else_the_cause_is_unknown(
    signs: list[Sign], causes: list[Cause]
) -> None:
    hints = {"labels-rule": (Suspicion(Cause.WRONG_LABELS),)}
    assert [one.cause for one in suspicions_of(signs, WEIGHTS, hints=hints)][:1] == causes


@pytest.mark.parametrize(
    ("signs", "is_named"),
    [
        pytest.param([Sign("found:loss-spike")], False, id="the loss broke"),
        pytest.param([Sign("found:loss-spike"), Sign("loss-not-finite")], False, id="it is not finite"),
        pytest.param([Sign("found:loss-spike"), Sign("broke-suddenly", False)], False, id="it grew before"),
        pytest.param(
            [Sign("found:loss-spike"), Sign("loss-not-finite"), Sign("broke-suddenly")], True, id="out of the blue"
        ),
        pytest.param([Sign("found:loss-spike"), Sign("shown:non-finite-data")], True, id="seen in the data"),
    ],
)
def test_the_data_hold_nan_where_something_shows_it(signs: list[Sign], is_named: bool) -> None:
    found = suspicions_of(signs, weights(), hints={})
    assert (Cause.NON_FINITE_DATA in {one.cause for one in found}) is is_named


def test_a_rule_without_a_row_counts_by_its_own_causes() -> None:
    hints = {"new-rule": (Suspicion(Cause.STALLED), Suspicion(Cause.DATA_ORDER))}
    found = suspicions_of([Sign("found:new-rule")], WEIGHTS, hints=hints)
    assert [suspicion.cause for suspicion in found] == [Cause.STALLED, Cause.DATA_ORDER]


def test_a_cause_that_the_table_does_not_know_takes_part_where_something_speaks_for_it() -> None:
    newer = [cause for cause in Cause if cause.value not in weights().bias and cause not in SPEED_CAUSES]
    assert newer
    found = ranked([GREW], WEIGHTS, hints={"new-rule": (Suspicion(newer[0]),)})
    assert not {one.cause for one in found} & set(newer)
    found = ranked([GREW, Sign("found:new-rule")], WEIGHTS, hints={"new-rule": (Suspicion(newer[0]),)})
    assert {one.cause for one in found} & set(newer) == {newer[0]}


def test_a_rule_with_a_row_does_not() -> None:
    hints = {"overfit": (Suspicion(Cause.STALLED),)}
    (first, *_) = ranked([Sign("found:overfit")], WEIGHTS, hints=hints)
    assert first.cause is Cause.OVERFITTING


@pytest.mark.parametrize("signs", [(), (SIGN,), (SIGN, GREW)], ids=["no-evidence", "another-cause", "two-others"])
def test_a_cause_that_the_finding_is_stands_alone(signs: tuple[Sign, ...]) -> None:
    observed = Suspicion(Cause.RANDOM_EVALUATION, "dropout is on in eval mode", 1.0)
    assert suspicions_of(signs, WEIGHTS, hints={}, observed=observed) == (observed,)
