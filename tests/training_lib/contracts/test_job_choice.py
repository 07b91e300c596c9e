"""What jobs say of themselves: words and addresses, in the few signs and characters that tags and variables have."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.job_choice import (
    JobChoice,
    ParameterReference,
    S3Reference,
    choice_in_environment,
    choice_in_tags,
    chosen_by_document,
    chosen_by_words,
    is_reference,
    is_tag_value,
    read_actions,
    read_reference,
    words_of,
)
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import AWS_DOCS, RuleConfiguration, RuleRequest

CATALOGUE = built_in_catalogue()
STOP, NOTIFY = Action.STOP_TRAINING, Action.NOTIFY


def chosen(rules: str, actions: str = "") -> RuleRequest:
    return chosen_by_words(rules, actions, catalogue=CATALOGUE)


@pytest.mark.parametrize(
    ("rules", "actions", "configurations"),
    [
        pytest.param(
            "overfit",
            "",
            (RuleConfiguration("overfit", actions=DEFAULT_ACTIONS),),
            id="a rule, and nothing stopped unasked",
        ),
        pytest.param(
            "TS108 ts203",
            "none",
            (RuleConfiguration("overfit"), RuleConfiguration("gradients-not-cleared")),
            id="short codes",
        ),
        pytest.param(
            "vanishing-gradient:threshold=1e-8:relative_threshold=0.1",
            "StopTraining",
            (
                RuleConfiguration(
                    "vanishing-gradient", parameters={"threshold": "1e-8", "relative_threshold": "0.1"}, actions=(STOP,)
                ),
            ),
            id="parameters, as a tag can say them",
        ),
        pytest.param(
            "vanishing-gradient:threshold=1e-8,relative_threshold=0.1",
            "StopTraining,Notify",
            (
                RuleConfiguration(
                    "vanishing-gradient",
                    parameters={"threshold": "1e-8", "relative_threshold": "0.1"},
                    actions=(STOP, NOTIFY),
                ),
            ),
            id="parameters, as a variable and the command line can say them",
        ),
        pytest.param(
            "  vanishing-gradient@aws-docs   overfit ",
            "none",
            (RuleConfiguration("vanishing-gradient", preset=AWS_DOCS), RuleConfiguration("overfit")),
            id="two rules, one as documented, and nothing follows",
        ),
        pytest.param(
            "overfit",
            "Notify Notify",
            (RuleConfiguration("overfit", actions=(NOTIFY,)),),
            id="an action named twice is carried out once",
        ),
    ],
)
def test_words_choose(rules: str, actions: str, configurations: tuple[RuleConfiguration, ...]) -> None:
    assert chosen(rules, actions) == RuleRequest(configurations)


@pytest.mark.parametrize("rules", [pytest.param("", id="no word"), pytest.param("all", id="the word")])
def test_all_are_the_usual_rules(rules: str) -> None:
    assert [rule.rule_id for rule in chosen(rules).rules] == list(CATALOGUE.usual)


def test_all_of_a_preset_are_those_that_offer_it() -> None:
    offered = [rule for rule in CATALOGUE.usual if CATALOGUE.rules[rule].in_sense_of(AWS_DOCS)]
    rules = chosen("all@aws-docs").rules
    assert [rule.rule_id for rule in rules] == offered
    assert {rule.preset for rule in rules} == {AWS_DOCS}


@pytest.mark.parametrize(
    ("rules", "actions", "said"),
    [
        pytest.param("vanishing-gradiant", "", ["Did you mean 'vanishing-gradient'?"], id="misspelled"),
        pytest.param("overfit@aws", "", ["'aws' is no preset", "Did you mean"], id="no such preset"),
        pytest.param(
            "overfit:patience_evaluation=3",
            "",
            ["Unknown parameter 'patience_evaluation'", "'patience_evaluations'"],
            id="no such parameter",
        ),
        pytest.param("overfit:patience_evaluations=many", "", ["must be a"], id="no such value"),
        pytest.param("overfit:patience", "", ["'patience' is not NAME=VALUE"], id="no value"),
        pytest.param("overfit:", "", ["'' is not NAME=VALUE"], id="no parameter"),
        pytest.param("overfit:patience=1:patience=2", "", ["is set twice"], id="a parameter twice"),
        pytest.param("overfit overfit", "", ["'overfit' stands there twice"], id="a rule twice"),
        pytest.param(":threshold=1", "", ["is no rule"], id="no rule"),
        pytest.param("all:patience=3", "", ["takes no parameters"], id="parameters of all"),
        pytest.param("overfit", "Stop", ["'Stop' is no action", "StopTraining"], id="no such action"),
        pytest.param("overfit", "none Notify", ["'none' is no action"], id="nothing and something"),
        pytest.param(
            "overfitt dead-reluu", "Sing", ["has 3 problems", "'overfit'", "'dead-relu'", "'Sing'"], id="all at once"
        ),
    ],
)
def test_wrong_words_are_refused_with_what_would_work(rules: str, actions: str, said: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        chosen(rules, actions)
    assert [part for part in said if part not in str(refused.value)] == []


def document(*rules: RuleConfiguration) -> str:
    return RuleRequest(rules).to_json()


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        pytest.param("", ((STOP,), ()), id="what the document says is all"),
        pytest.param("Notify", ((STOP,), (NOTIFY,)), id="what the job says is for rules that name none"),
        pytest.param("none", ((STOP,), ()), id="nothing more"),
    ],
)
def test_a_document_keeps_its_actions(actions: str, expected: tuple[tuple[Action, ...], ...]) -> None:
    text = document(RuleConfiguration("overfit", actions=(STOP,)), RuleConfiguration("dead-relu"))
    rules = chosen_by_document(text, actions, catalogue=CATALOGUE).rules
    assert tuple(rule.actions for rule in rules) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b"\xff\xfe{", "is not JSON", id="no UTF-8"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep"),
        pytest.param("[]", "", id="no object"),
        pytest.param("{", "is not JSON", id="no JSON"),
        pytest.param('{"version": 1, "rules": []}', "is empty", id="no rule"),
        pytest.param('{"version": 2, "rules": []}', "Update Trackside", id="of a later version"),
        pytest.param(document(RuleConfiguration("overfitt")), "Did you mean 'overfit'?", id="misspelled"),
        pytest.param('{"rules": [{"rule": "overfit", "action": ["Notify"]}]}', "'actions'", id="a misspelled name"),
    ],
)
def test_a_wrong_document_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(ConfigurationError, match="choice of rules") as refused:
        chosen_by_document(text, "", catalogue=CATALOGUE)
    assert said in str(refused.value)


SYSTEM = {"bucket": "runs", "parameters_below": "/trackside/trackside/rules"}


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        pytest.param("s3://runs/a/rule-request.json", S3Reference("runs", "a/rule-request.json"), id="an object"),
        pytest.param("s3://runs/rule-request.json", S3Reference("runs", "rule-request.json"), id="at the bucket's top"),
        pytest.param(
            "ssm:/trackside/trackside/rules/strict",
            ParameterReference("/trackside/trackside/rules/strict"),
            id="a parameter",
        ),
    ],
)
def test_references_that_are_followed(text: str, reference: S3Reference | ParameterReference) -> None:
    assert is_reference(text)
    assert read_reference(text, **SYSTEM) == reference


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("s3://other/a/rule-request.json", id="another bucket"),
        pytest.param("s3://runs/a/secrets.json", id="another object"),
        pytest.param("s3://runs/a/my-rule-request.json", id="a name that ends alike"),
        pytest.param("s3://runs", id="no object"),
        pytest.param("https://runs/rule-request.json", id="another scheme"),
        pytest.param("file:///etc/rule-request.json", id="a file"),
        pytest.param("ssm:/trackside/trackside/dry-run", id="another parameter of ours"),
        pytest.param("ssm:/trackside/trackside/rules", id="the path itself"),
        pytest.param("ssm:/trackside/trackside/rules/", id="no name"),
        pytest.param("ssm:/trackside/trackside/rules/../dry-run/..//x", id="out of it"),
        pytest.param("ssm:/trackside/trackside/rulesets/x", id="a path that begins alike"),
        pytest.param("ssm:arn:aws:ssm:us-east-1:210987654321:parameter/x", id="another account's"),
    ],
)
def test_references_that_are_refused(text: str) -> None:
    assert is_reference(text)
    with pytest.raises(ConfigurationError, match="that this deployment reads"):
        read_reference(text, **SYSTEM)


def test_dots_do_not_lead_out_of_the_parameters() -> None:
    """SSM takes a name as it is; `..` in it is a name like any other, so it stays below the path."""
    found = read_reference("ssm:/trackside/trackside/rules/../x", **SYSTEM)
    assert found == ParameterReference("/trackside/trackside/rules/../x")


def test_a_choice_is_read_of_tags_and_of_variables() -> None:
    tags = {"trackside:run": "s3://b/r", "trackside:rules": " overfit ", "team": "vision", "trackside:watch": "no"}
    assert choice_in_tags(tags) == JobChoice(run="s3://b/r", rules="overfit", watch="no")
    variables = {"TRACKSIDE_RUN": "s3://b/r", "TRACKSIDE_ACTIONS": "Notify", "PATH": "/bin"}
    assert choice_in_environment(variables) == JobChoice(run="s3://b/r", actions="Notify")


def test_tags_are_asked_first() -> None:
    assert JobChoice(run="tag").filled_up(JobChoice(run="variable", rules="overfit")) == JobChoice("tag", "overfit")


def test_no_actions_named_is_another_thing_than_none_wanted() -> None:
    assert read_actions("  ") is None
    assert read_actions("none") == ()


RULES = st.lists(
    st.builds(
        RuleConfiguration,
        st.sampled_from(sorted(CATALOGUE.usual)),
        parameters=st.dictionaries(st.sampled_from(["patience_evaluations", "threshold"]), st.integers(1, 9).map(str)),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda rule: rule.rule_id,
)


@given(RULES, st.sets(st.sampled_from(list(Action))))
def test_what_can_be_said_in_words_is_read_as_it_was_meant(
    rules: list[RuleConfiguration], actions: set[Action]
) -> None:
    asked = tuple(action for action in Action if action in actions)
    request = RuleRequest(tuple(RuleConfiguration(r.rule_id, parameters=r.parameters, actions=asked) for r in rules))
    words = words_of(request, catalogue=CATALOGUE)
    if words is not None:  # else a rule has no such parameter, or a tag is too short
        assert all(is_tag_value(word) for word in words)
        assert chosen(*words) == request


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(RuleRequest(()), id="no rule"),
        pytest.param(
            RuleRequest((RuleConfiguration("overfit", actions=(STOP,)), RuleConfiguration("dead-relu"))),
            id="other actions for each",
        ),
        pytest.param(RuleRequest((RuleConfiguration("overfit", name="mine"),)), id="a name of its own"),
        pytest.param(RuleRequest((RuleConfiguration("Mine", source="s3://b/mine.py"),)), id="a rule from a file"),
        pytest.param(RuleRequest((RuleConfiguration("dead-relu", parameters={"tensor_regex": "a b"}),)), id="a blank"),
        pytest.param(RuleRequest((RuleConfiguration("dead-relu", parameters={"tensor_regex": "a*"}),)), id="a sign"),
        pytest.param(RuleRequest(tuple(map(RuleConfiguration, CATALOGUE.usual))), id="too long for a tag"),
    ],
)
def test_what_words_cannot_say_is_not_said_in_words(request_: RuleRequest) -> None:
    assert words_of(request_, catalogue=CATALOGUE) is None


@given(st.text(), st.text())
def test_any_text_is_read_or_refused(rules: str, actions: str) -> None:
    try:
        request = chosen(rules, actions)
    except ConfigurationError:
        return
    CATALOGUE.check(request)


@given(st.text(string.printable))
def test_no_text_leads_out_of_the_bucket_or_the_path(text: str) -> None:
    for address in (text, f"s3://runs/{text}", f"ssm:/trackside/trackside/rules/{text}"):
        try:
            found = read_reference(address, **SYSTEM)
        except ConfigurationError:
            continue
        if isinstance(found, S3Reference):
            assert found.bucket == "runs"
            assert found.key.split("/")[-1] == "rule-request.json"
        else:
            assert found.name.startswith("/trackside/trackside/rules/")
