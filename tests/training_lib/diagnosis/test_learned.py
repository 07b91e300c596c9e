"""The learned tables: complete, sound, and believed by the gate and the cards."""

from __future__ import annotations

import math

import pytest

from tests.training_lib.local.verdicts import issue
from trackside.contracts.cause import Cause
from trackside.contracts.probability import in_words
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.verdict import Severity
from trackside.diagnosis.harm import Harm, gated
from trackside.diagnosis.learned import Odds, critical_harms, odds, weights
from trackside.diagnosis.probability import PROPERTIES, probability_of, properties_of
from trackside.diagnosis.signs import FOUND, HARM, SHOWN
from trackside.evidence.registry import all_questions

CAUSES = {cause.value for cause in Cause}


def test_every_weight_is_about_known_evidence_and_causes() -> None:
    learned = weights()
    assert set(learned.bias) <= CAUSES
    for table in (learned.present, learned.absent):
        assert {cause for row in table.values() for cause in row} <= CAUSES
        assert {name for name in table if not name.startswith((FOUND, SHOWN, HARM))} <= set(all_questions())
        assert all(math.isfinite(weight) for row in table.values() for weight in row.values())


def test_numbers_for_a_cause_speak_for_it_and_most_for_it() -> None:
    for name, row in weights().present.items():
        if name.startswith(SHOWN):
            assert max(row, key=lambda cause: row[cause]) == name.removeprefix(SHOWN)


def test_every_harm_of_the_table_is_one() -> None:
    assert set(critical_harms()) <= set(built_in_catalogue().rules)
    assert {harm for harms in critical_harms().values() for harm in harms} <= {harm.value for harm in Harm}


@pytest.mark.parametrize("rule_id", [rule for rule, harms in critical_harms().items() if not harms])
def test_a_rule_without_a_critical_level_is_never_critical(rule_id: str) -> None:
    every = dict.fromkeys(Harm, "it hurts")
    found, _ = gated(Severity.CRITICAL, every, critical_harms().get(rule_id, ()), lasted_steps=10**6)
    assert found is Severity.WARNING


def test_every_usual_rule_is_more_likely_right_than_wrong() -> None:
    assert set(odds().rules) <= set(built_in_catalogue().rules)
    likely = {rule: probability_of(rule, (), odds()) for rule in built_in_catalogue().usual}
    assert {rule for rule, probability in likely.items() if not 0.5 < probability < 1} == set()


def test_a_probability_is_the_logistic_function_of_its_weights() -> None:
    table = Odds(bias=1.0, rules={"a": 0.5}, extra={"harm": 2.0})
    assert probability_of("a", ("harm",), table) == pytest.approx(1 / (1 + math.exp(-3.5)))
    assert probability_of("new", (), table) == pytest.approx(1 / (1 + math.exp(-1)))


def test_properties_of_an_issue() -> None:
    assert properties_of(issue(), others=()) == ()
    assert properties_of(issue(severity=Severity.INFO), others=("a",)) == ("info", "with-others")
    assert set(odds().extra) == set(PROPERTIES)


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.2, "possible"), (0.599, "possible"), (0.6, "likely"), (0.949, "likely"), (0.95, "almost certain")],
)
def test_the_words_for_a_probability(probability: float, words: str) -> None:
    assert in_words(probability) == words
