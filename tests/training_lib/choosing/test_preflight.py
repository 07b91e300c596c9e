from __future__ import annotations

import json
from pathlib import Path

import pytest

from trackside.choosing.preflight import plan_rules
from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import RuleCatalogue, built_in_catalogue, parse_catalogue
from trackside.contracts.rule_request import RuleConfiguration


def rule(rule_id: str, watches: list[str], *, save_interval: int = 10) -> dict[str, object]:
    threshold = {"name": "threshold", "kind": "number", "default": 1.0, "help": "where it fires", "minimum": 0}
    return {
        "rule": rule_id,
        "summary": "Something is wrong.",
        "watches": watches,
        "save_interval": save_interval,
        "severity": "critical",
        "since": "0.1",
        "parameters": [threshold],
    }


CATALOGUE = parse_catalogue(
    json.dumps(
        {
            "rules": [
                rule("vanishing-gradient", ["gradients"]),
                rule("loss-not-decreasing", ["losses"], save_interval=5),
                rule("dead-relu", ["no_such_outputs"]),
            ]
        }
    )
)


def test_where_no_rule_is_named_every_rule_judges() -> None:
    plan = plan_rules((), catalogue=CATALOGUE, actions=(Action.NOTIFY,))
    assert [r.rule_id for r in plan.request.rules] == list(CATALOGUE.rules)
    assert all(r.actions == (Action.NOTIFY,) for r in plan.request.rules)


def test_what_is_saved_follows_from_the_rules() -> None:
    plan = plan_rules([RuleConfiguration("loss-not-decreasing")], catalogue=CATALOGUE, actions=())
    assert [(c.name, c.schedule.save_interval) for c in plan.capture.collections] == [("losses", 5)]
    assert plan.notes == ()


def test_a_save_interval_replaces_that_of_the_rules() -> None:
    plan = plan_rules((), catalogue=CATALOGUE, actions=(), save_interval=3)
    assert {c.schedule.save_interval for c in plan.capture.collections} == {3}


def test_a_rule_whose_input_is_not_saved_is_told_before_the_start() -> None:
    plan = plan_rules([RuleConfiguration("dead-relu")], catalogue=CATALOGUE, actions=())
    assert plan.notes == ("dead-relu cannot judge anything: nothing saves no_such_outputs. Did you mean 'outputs'?",)


def test_the_actions_of_a_file_are_kept_where_the_command_line_says_nothing() -> None:
    asked = [RuleConfiguration("vanishing-gradient", actions=(Action.STOP_TRAINING,))]
    assert plan_rules(asked, catalogue=CATALOGUE, actions=None).request.rules[0].actions == (Action.STOP_TRAINING,)
    assert plan_rules(asked, catalogue=CATALOGUE, actions=()).request.rules[0].actions == ()


def test_what_capture_knows_by_itself_counts_as_saved(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from trackside.contracts.verdict import Severity\n"
        "from trackside.rules.rule import Rule\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Rule):\n"
        "    'It looks at labels.'\n"
        "    rule_id = 'mine'; watches = ('labels',); save_interval = 10; severity = Severity.INFO; since = '1'\n"
        "    what_to_do = ('Wait.',)\n"
        "    def check(self, window): return ()\n"
    )
    rule = RuleConfiguration("Mine", source=str(file))
    plan = plan_rules([rule], catalogue=RuleCatalogue({}), actions=None, save_interval=7)
    assert [(c.name, c.schedule.save_interval) for c in plan.capture.collections] == [("losses", 7), ("labels", 7)]
    assert plan.notes == ()


def test_the_same_rule_twice_gets_two_names() -> None:
    asked = [
        RuleConfiguration("vanishing-gradient"),
        RuleConfiguration("vanishing-gradient", parameters={"threshold": "2"}),
    ]
    plan = plan_rules(asked, catalogue=CATALOGUE, actions=())
    assert [r.name for r in plan.request.rules] == ["vanishing-gradient", "vanishing-gradient-2"]


def test_every_problem_is_told_at_once() -> None:
    asked = [
        RuleConfiguration("vanishing-gradiant"),
        RuleConfiguration("vanishing-gradient", parameters={"treshold": "1", "threshold": "abc"}),
        RuleConfiguration("dead-relu", parameters={"threshold": "-1"}),
    ]
    with pytest.raises(ConfigurationError) as caught:
        plan_rules(asked, catalogue=CATALOGUE, actions=())
    text = str(caught.value)
    assert len(caught.value.problems) == 4
    for part in ("Did you mean 'vanishing-gradient'?", "Did you mean 'threshold'?", "must be a number", "at least 0"):
        assert part in text


def test_an_empty_catalogue_is_an_error_not_a_run_without_rules() -> None:
    with pytest.raises(ConfigurationError):
        plan_rules((), catalogue=RuleCatalogue({}), actions=())


def test_rules_of_the_users_own_are_tried_before_the_start_and_named_by_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("from trackside.rules.tensors.unchanged_tensor import UnchangedTensor as Mine")
    (tmp_path / "broken.py").write_text("1 / 0")
    mine = RuleConfiguration("Mine", source="mine.py")
    plan = plan_rules([mine, mine], catalogue=RuleCatalogue({}), actions=None)
    assert [(rule.name, rule.source) for rule in plan.request.rules] == [
        ("Mine", str(tmp_path / "mine.py")),
        ("Mine-2", str(tmp_path / "mine.py")),
    ]
    assert [(c.name, c.schedule.save_interval) for c in plan.capture.collections] == [("losses", 500), ("weights", 500)]
    assert plan.notes == ()
    with pytest.raises(ConfigurationError) as raised:
        plan_rules(
            [RuleConfiguration("Mine", source="broken.py"), RuleConfiguration("Yours", source="mine.py")],
            catalogue=RuleCatalogue({}),
            actions=None,
        )
    assert [problem.where for problem in raised.value.problems] == ["broken.py", "mine.py"]


def test_a_capture_of_the_users_own_is_saved_beside_what_the_rules_need() -> None:
    asked = CaptureRequest((CollectionRequest("losses", Schedule(50)), CollectionRequest("outputs", Schedule(9))))
    plan = plan_rules([RuleConfiguration("loss-not-decreasing")], catalogue=CATALOGUE, actions=(), capture=asked)
    assert {c.name: c.schedule.save_interval for c in plan.capture.collections} == {"losses": 5, "outputs": 9}


def test_a_rule_in_amazons_sense_takes_the_schedule_of_the_users_capture() -> None:
    asked = CaptureRequest((CollectionRequest("losses", Schedule(50)),))
    rule = RuleConfiguration("loss-not-decreasing", preset="aws-docs")
    plan = plan_rules([rule], catalogue=built_in_catalogue(), actions=(), capture=asked)
    assert {c.name: c.schedule.save_interval for c in plan.capture.collections} == {"losses": 50}


def test_a_rule_of_ones_own_that_watches_what_nothing_saves_is_told_of(tmp_path: Path) -> None:
    text = (
        "from dataclasses import dataclass\n"
        "from trackside.contracts.verdict import Severity\n"
        "from trackside.rules.rule import Rule\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Rule):\n"
        "    'It looks at gradients.'\n"
        "    rule_id = 'mine'; watches = ('gradiants',); save_interval = 10; severity = Severity.INFO; since = '1'\n"
        "    what_to_do = ('Wait.',)\n"
        "    def check(self, window): return ()\n"
    )
    (tmp_path / "wrong.py").write_text(text)
    (tmp_path / "right.py").write_text(text.replace("gradiants", "gradients"))
    (tmp_path / "nothing_saved.py").write_text(text.replace("    what", "    needs = ()\n    what"))
    rules = [RuleConfiguration("Mine", f.stem, source=str(f)) for f in sorted(tmp_path.glob("*.py"))]
    plan = plan_rules(rules, catalogue=RuleCatalogue({}), actions=None)
    assert plan.notes == ("wrong cannot judge anything: nothing saves gradiants. Did you mean 'gradients'?",)


def test_saved_collections_add_values_and_take_nothing_from_a_rule() -> None:
    saves = [CollectionRequest("losses", Schedule(save_interval=10**6)), CollectionRequest("weights", Schedule(7))]
    plan = plan_rules([RuleConfiguration("loss-not-decreasing")], catalogue=CATALOGUE, actions=None, saves=saves)
    found = {collection.name: collection for collection in plan.capture.collections}
    assert found["losses"].schedule.save_interval == 5
    assert found["losses"].saves_raw_tensor
    assert found["weights"].schedule.save_interval == 7
