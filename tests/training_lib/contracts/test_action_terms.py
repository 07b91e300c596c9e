"""Terms of actions: what a rule request may say, what is refused, and that they reach the event."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.action import Action
from trackside.contracts.action_terms import NO_TERMS, ActionTerms
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest


def request_with(actions: object) -> str:
    return json.dumps({"version": 1, "rules": [{"rule": "overfit", "actions": actions}]})


TERMS = st.sampled_from([action for action in Action if action.unit.terms]).flatmap(
    lambda action: st.sampled_from(sorted(action.unit.terms)).flatmap(
        lambda term: st.integers(*action.unit.terms[term][:2]).map(lambda value: (action, term, value))
    )
)


@given(st.lists(TERMS, unique_by=lambda one: one[:2]))
def test_terms_survive_the_request(terms: list[tuple[Action, str, int]]) -> None:
    actions = tuple(dict.fromkeys(action for action, _, _ in terms))
    rule = RuleConfiguration("overfit", actions=actions, terms=ActionTerms(tuple(terms)))
    (read,) = RuleRequest.from_json(RuleRequest((rule,)).to_json()).rules
    assert read.actions == actions
    assert read.terms.to_document() == rule.terms.to_document()


@pytest.mark.parametrize(
    ("actions", "read"),
    [
        pytest.param(["Notify", "StopTraining"], {}, id="names, as ever"),
        pytest.param([{"StopTraining": {}}, "Notify"], {}, id="no terms"),
        pytest.param(
            ["Notify", {"StopTraining": {"after_findings": 2}}], {"StopTraining": {"after_findings": 2}}, id="terms"
        ),
        pytest.param([{"Notify": {"quiet_minutes": 0}}, "StopTraining"], {"Notify": {"quiet_minutes": 0}}, id="nought"),
    ],
)
def test_names_and_terms_may_stand_side_by_side(actions: object, read: dict[str, object]) -> None:
    (rule,) = RuleRequest.from_json(request_with(actions)).rules
    assert set(rule.actions) == {Action.NOTIFY, Action.STOP_TRAINING}
    assert rule.terms.to_document() == read


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        pytest.param([{"StopTraining": {"after_finding": 2}}], "Did you mean 'after_findings'", id="a term mistyped"),
        pytest.param([{"StopTrainin": {}}], "Did you mean 'StopTraining'", id="an action mistyped"),
        pytest.param([{"Notify": {"after_findings": 2}}], "no term of Notify", id="another action's term"),
        pytest.param([{"PublishMetric": {"often": 2}}], "It has none", id="an action without terms"),
        pytest.param([{"StopTraining": {"after_findings": 0}}], "1 to 100", id="too small"),
        pytest.param([{"StopTraining": {"after_findings": True}}], "whole number", id="no number"),
        pytest.param([{"StopTraining": {}, "Notify": {}}], "objects of one name", id="two in one"),
        pytest.param([7], "must hold names", id="a number"),
        pytest.param("Notify", "a list", id="no list"),
    ],
)
def test_what_cannot_be_meant_is_refused(actions: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        RuleRequest.from_json(request_with(actions))


def test_what_was_not_given_is_as_the_deployment_says() -> None:
    assert NO_TERMS.value(Action.NOTIFY, "quiet_minutes", 60) == 60
    given = ActionTerms(((Action.NOTIFY, "quiet_minutes", 0),))
    assert given.value(Action.NOTIFY, "quiet_minutes", 60) == 0
