"""The four words that choose rules, from one source and from several."""

from __future__ import annotations

from typing import Any

import pytest

from trackside.choosing.rule_choice import Chosen, Layer, choose_rules, layer_of_document, layer_of_options
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration

CATALOGUE = built_in_catalogue()
USUAL = list(CATALOGUE.usual)
CODE = CATALOGUE.code_of("overfit")
PREVIEW = next(rule for rule in CATALOGUE.rules if rule not in USUAL)


def words(**given: Any) -> Layer:
    return layer_of_options(**given)


def chosen(*layers: Layer) -> Chosen:
    return choose_rules(layers, catalogue=CATALOGUE)


def names(*layers: Layer) -> list[str]:
    return [rule.name for rule in chosen(*layers).rules]


def parameters(rule: str, *layers: Layer) -> dict[str, str]:
    (found,) = [each for each in chosen(*layers).rules if each.name == rule]
    return dict(found.parameters)


def test_without_a_word_the_default_rules_judge() -> None:
    found = chosen()
    assert [rule.rule_id for rule in found.rules] == USUAL
    assert (found.is_default, found.difference) == (True, "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"add": ["overfit:patience_evaluations=9"]}, USUAL, id="tuning-by-rule-keeps-all"),
        pytest.param({"settings": ["overfit.patience_evaluations=9"]}, USUAL, id="set-keeps-all"),
        pytest.param({"add": [PREVIEW]}, [*USUAL, PREVIEW], id="rule-adds"),
        pytest.param({"add": ["m.py:Large"]}, [*USUAL, "Large"], id="own-rule-adds"),
        pytest.param({"skip": ["overfit"]}, [r for r in USUAL if r != "overfit"], id="skip-leaves-out"),
        pytest.param({"only": ["overfit", "dead-relu"]}, ["overfit", "dead-relu"], id="only-replaces"),
        pytest.param({"only": ["overfit"], "add": ["m.py:Large"]}, ["overfit", "Large"], id="only-and-rule"),
        pytest.param({"only": ["m.py:Large:limit=1", "m.py:Large:limit=2"]}, ["Large", "Large-2"], id="twice"),
        pytest.param({"skip": [PREVIEW]}, USUAL, id="skip-of-a-rule-that-does-not-judge"),
        pytest.param({"only": [CODE]}, ["overfit"], id="only-by-code"),
        pytest.param({"skip": [CODE.lower()]}, [r for r in USUAL if r != "overfit"], id="skip-by-code"),
        pytest.param({"add": [f"{CODE}:patience_evaluations=9"]}, USUAL, id="rule-by-code"),
        pytest.param({"settings": [f"{CODE}.patience_evaluations=9"]}, USUAL, id="set-by-code"),
    ],
)
def test_a_word_does_one_thing(given: dict[str, list[str]], expected: list[str]) -> None:
    assert names(words(**given)) == expected


@pytest.mark.parametrize(
    ("layers", "rule", "expected"),
    [
        pytest.param(
            [{"settings": ["overfit.ratio_threshold=0.3"]}, {}], "overfit", {"ratio_threshold": "0.3"}, id="file"
        ),
        pytest.param(
            [{"settings": ["overfit.ratio_threshold=0.3"]}, {"settings": ["overfit.ratio_threshold=0.4"]}],
            "overfit", {"ratio_threshold": "0.4"}, id="later-counts-more",
        ),
        pytest.param(
            [{"settings": ["overfit.ratio_threshold=0.3"]}, {"only": ["overfit"]}],
            "overfit", {"ratio_threshold": "0.3"}, id="a-projects-setting-holds-for-only",
        ),
        pytest.param(
            [{"settings": ["overfit.ratio_threshold=0.3"]}, {"only": ["overfit:ratio_threshold=0.5"]}],
            "overfit", {"ratio_threshold": "0.5"}, id="what-a-later-word-gives-stays",
        ),
        pytest.param(
            [{"add": ["overfit:ratio_threshold=0.3"]}, {"settings": ["overfit.patience_evaluations=4"]}],
            "overfit", {"ratio_threshold": "0.3", "patience_evaluations": "4"}, id="both",
        ),
        pytest.param(
            [{"settings": [f"{CODE}.ratio_threshold=0.3"]}], "overfit", {"ratio_threshold": "0.3"}, id="code"
        ),
        pytest.param(
            [{}, {"only": ["m.py:Large"], "settings": ["limit=3"]}], "Large", {"limit": "3"}, id="the-one-rule"
        ),
        pytest.param(
            [{}, {"add": ["m.py:Large"], "settings": ["Large.limit=3"]}], "Large", {"limit": "3"}, id="own-by-class"
        ),
    ],
)  # fmt: skip
def test_the_later_source_counts_more(layers: list[dict[str, list[str]]], rule: str, expected: dict[str, str]) -> None:
    assert parameters(rule, *(words(**each) for each in layers)) == expected


def test_only_replaces_what_earlier_sources_chose_and_skip_of_an_earlier_source_does_not_touch_it() -> None:
    project = words(add=["m.py:Large"], skip=["overfit"])
    assert "Large" in names(project)
    assert names(project, words(only=["overfit"])) == ["overfit"]


def test_a_rules_file_replaces_the_default_rules_and_is_added_to() -> None:
    file = Layer(requests=(RuleConfiguration("dead-relu", name="mine"),), requested_in="r.json")
    assert names(file) == ["mine"]
    assert names(file, words(add=["overfit"], settings=["mine.threshold_layer=0.7"])) == ["mine", "overfit"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"skip": ["overfit"]}, f"the {len(USUAL)} default rules, without overfit", id="skip"),
        pytest.param(
            {"settings": ["overfit.patience_evaluations=4"]},
            f"the {len(USUAL)} default rules; set: overfit.patience_evaluations=4", id="set",
        ),
        pytest.param({"add": [PREVIEW]}, f"the {len(USUAL)} default rules, with {PREVIEW} added", id="add"),
        pytest.param({"only": ["overfit"]}, "overfit only", id="only"),
        pytest.param({"add": ["overfit"]}, "", id="a-default-rule-added"),
    ],
)  # fmt: skip
def test_the_difference_from_the_default_is_one_line(given: dict[str, list[str]], said: str) -> None:
    assert chosen(words(**given)).difference == said


@pytest.mark.parametrize(
    ("given", "where", "said"),
    [
        pytest.param({"add": ["overfitt"]}, "--rule overfitt", "Did you mean 'overfit'?", id="unknown"),
        pytest.param({"skip": ["overfitt"]}, "--skip overfitt", "Did you mean 'overfit'?", id="unknown-skip"),
        pytest.param({"only": ["mine.py"]}, "--only mine.py", "names a file, and no class", id="no-class"),
        pytest.param({"settings": ["overfitt.x=1"]}, "--set overfitt.x=1", "Did you mean 'overfit'?", id="set-unknown"),
        pytest.param(
            {"settings": ["overfit.patience=1"]}, "--set overfit.patience=1", "'patience_evaluations'", id="p"
        ),
        pytest.param(
            {"settings": ["overfit.ratio_threshold=x"]}, "--set overfit.ratio_threshold=x", "a number", id="v"
        ),
        pytest.param({"settings": [f"{PREVIEW}.x=1"]}, f"--set {PREVIEW}.x=1", f"--rule {PREVIEW}:x=1", id="absent"),
        pytest.param({"settings": ["threshold=1"]}, "--set threshold=1", "--set RULE.threshold=1", id="no-rule"),
        pytest.param({"only": ["overfit"], "skip": ["overfit"]}, "rules", "No rule is left", id="none-left"),
    ],
)
def test_a_wrong_word_names_its_place_and_a_cure(given: dict[str, list[str]], where: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        chosen(words(**given))
    (problem,) = raised.value.problems
    assert problem.where == where
    assert said in str(problem)


def test_all_problems_come_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        chosen(words(add=["overfitt"], skip=["dead-rellu"], settings=["overfit.patience=1"]))
    assert len(raised.value.problems) == 3


def test_a_projects_setting_for_a_rule_that_is_not_judged_is_checked_and_left_alone() -> None:
    assert names(words(settings=["overfit.ratio_threshold=0.3"]), words(only=["dead-relu"])) == ["dead-relu"]
    with pytest.raises(ConfigurationError, match="Did you mean 'ratio_threshold'"):
        chosen(words(settings=["overfit.ratio_treshold=0.3"]), words(only=["dead-relu"]))


@pytest.mark.parametrize(
    ("document", "layer"),
    [
        pytest.param({"skip": ["overfit"]}, {"skip": ["overfit"]}, id="list"),
        pytest.param({"skip": "overfit"}, {"skip": ["overfit"]}, id="one-text"),
        pytest.param({"set": {"overfit": {"ratio_threshold": 4}}}, {"settings": ["overfit.ratio_threshold=4"]}, id="a"),
        pytest.param({"set": {"overfit.ratio_threshold": 4}}, {"settings": ["overfit.ratio_threshold=4"]}, id="dotted"),
        pytest.param({"on-issue": "stop"}, {}, id="other-keys"),
    ],
)  # fmt: skip
def test_a_document_says_the_same_as_options(document: dict[str, Any], layer: dict[str, list[str]]) -> None:
    problems: list[Problem] = []
    read = layer_of_document(document, where="trackside.toml", problems=problems)
    assert problems == []
    assert chosen(read).rules == chosen(words(**layer)).rules
