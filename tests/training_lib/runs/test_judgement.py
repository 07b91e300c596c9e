from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner

import trackside
from tests.training_lib.local.verdicts import issue, no_issue
from trackside.cli import main
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Severity
from trackside.runs.judgement import Findings, Judgement
from trackside.runs.rule_state import RuleState
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

LOSS = "CrossEntropyLoss_output_0"
RULE = "exploding-tensor"


@pytest.fixture(autouse=True)
def _a_run_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore(".trackside/runs/a/debug-output")
    write_collections(store)
    for step in range(0, 60, 10):
        write_tensors(store, step, {LOSS: 1.0 if step < 30 else math.nan})
    end_run(store)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([RULE], id="an id"),
        pytest.param(RULE, id="a text alone"),
        pytest.param([f"{RULE}:only_nan=true"], id="with a parameter"),
        pytest.param({RULE: {"only_nan": True}}, id="a mapping"),
        pytest.param([RuleConfiguration(RULE)], id="a configuration"),
    ],
)
def test_rules_are_named_in_any_way(rules: object) -> None:
    found = trackside.judge("a", rules=rules)  # type: ignore[arg-type] # one of them is a text
    assert [(one.configuration_name, one.lead.step) for one in found.findings if one.lead] == [(RULE, 30)]
    assert [rule.state for rule in found.rules] == [RuleState.ISSUE]
    assert found.worst_severity is Severity.CRITICAL


def test_it_judges_as_the_command_line_does() -> None:
    found = trackside.judge(trackside.open_trial(".trackside/runs/a"))
    again = trackside.judge("latest")
    assert [one.message for one in found.verdicts] == [one.message for one in again.verdicts]
    table = CliRunner().invoke(main, ["rules", "run", "a"]).stdout
    issues = [rule.name for rule in found.rules if rule.state is RuleState.ISSUE]
    assert issues
    assert all("Issue" in table and name in table for name in issues)
    assert not Path(".trackside/runs/a/rule-output").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("run", "rules", "error"),
    [
        pytest.param("a", ["exploding-tensr"], trackside.ConfigurationError, id="misspelt"),
        pytest.param("a", {RULE: {"patince": 1}}, trackside.ConfigurationError, id="misspelt parameter"),
        pytest.param("a", ["a.py"], trackside.ConfigurationError, id="a file without a class"),
        pytest.param("a", [], trackside.ConfigurationError, id="none"),
        pytest.param("nowhere", [RULE], trackside.RunNotFoundError, id="no run"),
    ],
)
def test_mistakes_are_named(run: str, rules: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        trackside.judge(run, rules=rules)


def test_what_is_shown_is_short_and_safe() -> None:
    bad = issue("<script>alert(1)</script>\x1b[2J")
    found = Judgement("runs/a", True, (), (issue(), bad, no_issue()))
    assert repr(found) == (
        "<Judgement of 'runs/a': 2 problems, critical, not judged: no rule was asked; trackside rules run runs/a>"
    )
    for text in (str(found), repr(found.findings), found._repr_html_(), found.findings._repr_html_()):
        assert "vanishing-gradient" in text
        assert "\x1b" not in text
    assert "<script>" not in found._repr_html_() + found.findings._repr_html_()
    assert repr(Findings()) == "no findings"
