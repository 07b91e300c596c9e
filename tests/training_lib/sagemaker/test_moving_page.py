"""The page `docs/moving-from-sagemaker-debugger.md`: its code runs in order, and no name is forgotten."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import trackside.sagemaker as ours
from trackside.choosing.rules_file import read_rules_file
from trackside.contracts.errors import ConfigurationError
from trackside.documents.hook import COLLECTION_KEYS, ELSEWHERE, HOOK_KEYS
from trackside.documents.rule_names import CLASS_NAMES, known_rule
from trackside.documents.sdk import rule_configs

PAGE = (Path(__file__).parents[3] / "docs" / "moving-from-sagemaker-debugger.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(?P<language>[\w ]+)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = [(m["language"], m["text"]) for m in FENCE.finditer(PAGE)]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that stand when every Python block has run, one after the other."""
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    for language, text in BLOCKS:
        if language == "python":
            exec(compile(text, "the page", "exec"), found)  # noqa: S102 - the page's code is what is tested
    return found


def test_the_code_does_what_the_page_says(names: dict[str, Any]) -> None:
    assert Path("runs/digits-01/rule-request.json").exists()
    assert names["job"]["Environment"]["TRACKSIDE_RUN"] == "runs/digits-01"
    judged = ["vanishing-gradient", "exploding-tensor", "low-gpu-utilization"]
    assert [rule.rule_id for rule in names["same"].request.rules] == judged
    assert names["same"].recipients[0].endpoint == "first.last@example.com"
    for source in ("from_a_request", "from_a_rule_container"):
        assert [rule.rule_id for rule in names[source].request.rules] == ["vanishing-gradient"]
    assert {rule.preset for rule in names["ours"].request.rules} == {""}
    assert names["one_of_them"].rule_parameters["preset"] == "calibrated"
    assert len(names["document"]["DebugRuleConfigurations"]) == 2


def test_the_mistakes_are_told_as_the_page_shows(names: dict[str, Any]) -> None:
    (wrong,) = [text for language, text in BLOCKS if language == "python raises"]
    (shown,) = [text for language, text in BLOCKS if language == "text"]
    with pytest.raises(ConfigurationError) as caught:
        exec(compile(wrong, "the page", "exec"), names)  # noqa: S102 - the page's code is what is tested
    assert str(caught.value) == shown.rstrip()


def test_the_rules_file_of_the_page_is_good(tmp_path: Path) -> None:
    (text,) = [text for language, text in BLOCKS if language == "yaml"]
    (tmp_path / "rules.yaml").write_text(text)
    rules = read_rules_file(tmp_path / "rules.yaml").rules
    assert [rule.rule_id for rule in rules] == ["exploding-tensor", "vanishing-gradient"]


def test_every_old_name_stands_on_the_page() -> None:
    functions = [
        name
        for name, each in vars(rule_configs).items()
        if not name.startswith("_") and inspect.isfunction(each) and not inspect.signature(each).parameters
    ]
    snake = [name for name, each in vars(rule_configs).items() if name.islower() and inspect.isclass(each)]
    keys = {key.rpartition(".")[2] for key in (*COLLECTION_KEYS, *HOOK_KEYS)}
    exported = set(ours.__all__) - {
        "RuleBase",
        "PreparedRun",
        "Translation",
        "to_capture_request",
        "to_rule_request",
        "to_environment",
    }
    new = ("trackside.sagemaker.attachment", "trackside.sagemaker.estimators")  # no old names: other pages have them
    exported = {name for name in exported if getattr(getattr(ours, name), "__module__", "") not in new}
    wanted = {*functions, *snake, *keys, *ELSEWHERE, *exported}
    assert len(snake) >= 12
    assert sorted(name for name in wanted if not re.search(rf"\b{name}\b", PAGE)) == []
    rules = [rule for name in CLASS_NAMES if (rule := known_rule(name)) and not rule.is_profiler_rule]
    assert [
        rule.class_name
        for rule in rules
        if f" {rule.class_name} " not in PAGE and rule.class_name != "GradientClipping"
    ] == []
    assert [rule.rule_id for rule in rules if f"`{rule.rule_id}`" not in PAGE and not rule.is_report] == []
