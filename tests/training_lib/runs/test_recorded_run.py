"""A run as it was recorded, with what rules said that had containers of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.training_lib.local.verdicts import issue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Outcome
from trackside.runs.recorded_run import read_run
from trackside.storage.local import LocalStore


def test_the_verdict_of_a_rule_with_a_container_of_its_own_is_among_the_others(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    request = RuleRequest((RuleConfiguration("overfit"), RuleConfiguration("Mine", name="large", source="mine.py")))
    store.put("rule-request.json", request.to_json().encode())
    for key, name, outcome in (
        ("verdicts.jsonl", "overfit", Outcome.CLEAN),
        ("large/verdicts.jsonl", "large", Outcome.ISSUE_FOUND),
        ("large/deeper/verdicts.jsonl", "deeper", Outcome.ISSUE_FOUND),
        ("large/other.jsonl", "other", Outcome.ISSUE_FOUND),
    ):
        line = f"{replace(issue(name), outcome=outcome).to_json()}\n"
        store.put(f"rule-output/{key}", line.encode())
    run = read_run(str(tmp_path))
    assert {said.configuration_name: said.outcome for said in run.verdicts} == {
        "overfit": Outcome.CLEAN,
        "large": Outcome.ISSUE_FOUND,
    }
    assert [group.lead.configuration_name for group in run.groups] == ["large"]
