"""Verdicts: what is written is what is read, with the life and the reasons of an issue; and older lines still read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.action import Action
from trackside.contracts.cause import EXPLANATIONS, Cause, Suspicion
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.verdict import Finding, Outcome, Severity, State, Verdict

numbers = st.floats(allow_nan=False)
texts = st.text(max_size=12)
steps = st.integers(0, 10**12)

findings = st.builds(
    Finding,
    subject=texts,
    step=steps,
    since_step=steps,
    measure=texts,
    observed=numbers,
    relation=st.sampled_from(["<", ">"]),
    threshold=numbers,
    worker=texts,
    statistics=st.dictionaries(texts, numbers, max_size=3),
    series=st.lists(st.tuples(steps, numbers), max_size=3).map(tuple),
    place=texts,
)
verdicts = st.builds(
    Verdict,
    run=texts,
    rule_id=texts,
    configuration_name=texts,
    outcome=st.sampled_from(Outcome),
    severity=st.sampled_from(Severity),
    step=steps,
    message=texts,
    detected_at=st.floats(0, 1e10),
    findings=st.lists(findings, max_size=2).map(tuple),
    affected=st.integers(0, 1000),
    what_to_do=st.lists(texts, max_size=2).map(tuple),
    actions=st.lists(st.sampled_from(Action), max_size=2, unique=True).map(tuple),
    tensor_key=texts,
    suspicions=st.lists(st.builds(Suspicion, st.sampled_from(Cause), texts), max_size=3).map(tuple),
    state=st.sampled_from(State),
    occurrence=st.integers(1, 10),
    group=texts,
)

PLAIN = Verdict("digits", "rule", "mine", Outcome.ISSUE_FOUND, Severity.CRITICAL, 7, "Odd.", 1.5)


@given(verdict=verdicts)
def test_what_is_written_is_what_is_read(verdict: Verdict) -> None:
    line = verdict.to_json()
    assert "\n" not in line
    assert Verdict.from_json(line) == verdict


@pytest.mark.parametrize(
    ("verdict", "verdict_id"),
    [
        pytest.param(PLAIN, "digits/mine/issue-found", id="first"),
        pytest.param(replace(PLAIN, occurrence=2), "digits/mine/issue-found/2", id="again"),
        pytest.param(
            replace(PLAIN, outcome=Outcome.CLEAN, state=State.RECOVERED), "digits/mine/clean/recovered", id="recovered"
        ),
        pytest.param(
            replace(PLAIN, outcome=Outcome.CLEAN, state=State.RECOVERED, occurrence=3),
            "digits/mine/clean/recovered/3",
            id="recovered-again",
        ),
        pytest.param(replace(PLAIN, outcome=Outcome.NOT_EVALUATED), "digits/mine/not-evaluated", id="not-evaluated"),
    ],
)
def test_each_answer_has_an_id_of_its_own(verdict: Verdict, verdict_id: str) -> None:
    assert verdict.verdict_id == verdict_id


def test_a_verdict_is_its_own_group_until_it_is_put_into_another() -> None:
    assert PLAIN.group == PLAIN.verdict_id
    assert replace(PLAIN, group="digits/first/issue-found").group == "digits/first/issue-found"


def test_a_line_of_version_1_is_read_as_an_issue_that_was_opened() -> None:
    document = json.loads(PLAIN.to_json())
    for name in ("suspicions", "state", "occurrence", "group"):
        del document[name]
    read = Verdict.from_json(json.dumps({**document, "version": 1}))
    assert read == replace(PLAIN, version=1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"suspicions": [{"cause": "bad-luck", "because": ""}]}, id="unknown-cause"),
        pytest.param({"state": "asleep"}, id="unknown-state"),
        pytest.param({"occurrence": "often"}, id="no-number"),
        pytest.param({"group": 3}, id="no-text"),
    ],
)
def test_what_is_no_verdict_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        Verdict.from_json(json.dumps({**json.loads(PLAIN.to_json()), **change}))


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_is_explained_in_words_that_fit_a_card(cause: Cause) -> None:
    explanation = Suspicion(cause).explanation
    assert explanation.what[0].islower()
    assert not explanation.what.endswith(".")
    assert explanation.fix[0].isupper()
    assert explanation.fix.endswith((".", "?"))
    assert max(len(explanation.what), len(explanation.fix)) <= 120


def test_no_cause_is_explained_that_does_not_exist() -> None:
    assert set(EXPLANATIONS) == set(Cause)
    assert len({explanation.what for explanation in EXPLANATIONS.values()}) == len(Cause)
