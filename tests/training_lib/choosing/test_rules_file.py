"""Rules in a file: JSON and YAML, in our words and in SageMaker's."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from trackside.choosing.rules_file import MOST_BYTES, read_rules_file
from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration

VANISHING = RuleConfiguration("vanishing-gradient", "gone", {"threshold": "1e-07"}, (Action.STOP_TRAINING,))
EXPLODING = RuleConfiguration("exploding-tensor")

YAML = """
rules:
  - rule: vanishing-gradient
    name: gone
    parameters: {threshold: "1e-07"}
    actions: [StopTraining]
  - exploding-tensor
"""
ENTRY = {
    "rule": "vanishing-gradient",
    "name": "gone",
    "parameters": {"threshold": 0.0000001},
    "actions": ["StopTraining"],
}
CODES = [built_in_catalogue().code_of(rule) for rule in ("vanishing-gradient", "exploding-tensor")]
REQUEST = {
    "DebugHookConfig": {"S3OutputPath": "s3://b"},
    "DebugRuleConfigurations": [
        {"RuleConfigurationName": "R", "RuleParameters": {"rule_to_invoke": "VanishingGradient"}}
    ],
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(name: str, text: str) -> tuple[RuleConfiguration, ...]:
    Path(name).write_text(text, encoding="utf-8")
    return read_rules_file(Path(name)).rules


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("rules.json", json.dumps({"version": 1, "rules": [ENTRY, "exploding-tensor"]}), id="json"),
        pytest.param("rules.json", json.dumps([ENTRY, {"rule": "exploding-tensor"}]), id="json-list"),
        pytest.param("rules", json.dumps([ENTRY, "exploding-tensor"]), id="any-name-is-json"),
        pytest.param("rules.json", json.dumps([{**ENTRY, "rule": CODES[0]}, CODES[1]]), id="codes"),
        pytest.param("rules.yaml", YAML, id="yaml"),
        pytest.param("rules.YML", YAML.replace("rules:", "").replace("\n  ", "\n"), id="yaml-list"),
        pytest.param("rules.yaml", json.dumps([ENTRY, "exploding-tensor"]), id="json-in-yaml"),
    ],
)
def test_spellings(name: str, text: str) -> None:
    assert read(name, text) == (VANISHING, EXPLODING)


@pytest.mark.parametrize("name", ["request.json", "request.yaml"])
def test_a_request_of_create_training_job(name: str) -> None:
    Path(name).write_text(json.dumps(REQUEST))
    found = read_rules_file(Path(name))
    assert [(rule.rule_id, rule.name) for rule in found.rules] == [("vanishing-gradient", "R")]
    assert found.capture is not None
    assert found.notes == ()
    assert found.capture_notes == (
        "Saved as DebugHookConfig says, in the run's own folder: losses, gradients.",
        "Saved too, because R watches it: gradients.",
    )


HOOK = {
    "S3OutputPath": "s3://b",
    "HookParameters": {"save_interval": "50"},
    "CollectionConfigurations": [
        {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "7"}},
        {"CollectionName": "mine", "CollectionParameters": {"include_regex": "fc1"}},
    ],
}


def captured(**changes: Any) -> dict[str, int] | None:
    Path("request.json").write_text(json.dumps({**REQUEST, **changes}))
    capture = read_rules_file(Path("request.json")).capture
    return None if capture is None else {c.name: c.schedule.save_interval for c in capture.collections}


def test_what_the_hook_configuration_asks_for_is_saved() -> None:
    assert captured(DebugHookConfig=HOOK) == {"losses": 50, "gradients": 7, "mine": 50}


def test_without_a_hook_configuration_the_rules_alone_say_what_is_saved() -> None:
    Path("request.json").write_text(json.dumps({"DebugRuleConfigurations": REQUEST["DebugRuleConfigurations"]}))
    assert read_rules_file(Path("request.json")).capture is None


def test_files_for_tensorboard_are_not_sent_to_a_bucket_from_here() -> None:
    Path("request.json").write_text(json.dumps({**REQUEST, "TensorBoardOutputConfig": {"S3OutputPath": "s3://b/tb"}}))
    found = read_rules_file(Path("request.json"))
    assert found.capture is not None
    assert found.capture.tensorboard == ""
    assert "TensorBoardOutputConfig was read and has no effect here." in found.capture_notes


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("r.json", "{", "is not JSON", id="no-json"),
        pytest.param("r.yaml", "rules: [", "is not YAML", id="no-yaml"),
        pytest.param("r.yaml", "a: 1\nb", "is not YAML", id="half-yaml"),
        pytest.param("r.yaml", "", "must be an object", id="empty"),
        pytest.param("r.json", "[" * 200_000, "nested too deeply", id="deep"),
        pytest.param("r.yaml", "[" * 20_000, "is not YAML", id="deep-yaml"),
        pytest.param("r.json", "5", "must be an object", id="a-number"),
        pytest.param("r.json", '{"rules": []}', "names no rule that can judge", id="none"),
        pytest.param("r.json", '{"ruls": ["x"]}', "Did you mean 'rules'?", id="misspelled"),
        pytest.param("r.json", '{"skip": ["overfit"], "ste": {}}', "Did you mean 'set'?", id="misspelled-word"),
        pytest.param("r.json", '{"skip": "overfit,dead-relu", "only": [5]}', "must be a list of texts", id="no-list"),
        pytest.param("r.yaml", "rules:\n  - rule: x\n    paramters: {}", "Did you mean 'parameters'?", id="field"),
        pytest.param("r.yaml", "- 2026-11-21", "must be an object", id="a-date"),
        pytest.param("r.yaml", "!!python/object/apply:os.getcwd []", "is not YAML", id="code-never-runs"),
        pytest.param(
            "r.json",
            '{"DebugRuleConfigurations": [{"RuleConfigurationName": "R", "RuleParameters": {"rule_to_invoke": "X"}}]}',
            "Unknown rule 'X'",
            id="sagemaker",
        ),
        pytest.param(
            "r.json",
            '{"ProfilerRuleConfigurations": [{"RuleConfigurationName": "R", "RuleParameters": '
            '{"rule_to_invoke": "ProfilerReport"}}]}',
            "Never an issue",
            id="nothing-that-can-judge",
        ),
    ],
)
def test_what_is_wrong_names_the_file(name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"The rules file {name}") as caught:
        read(name, text)
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_rules_file(Path("nowhere.json"))


def test_a_file_that_is_far_too_large_is_not_read() -> None:
    with Path("large.json").open("wb") as file:
        os.truncate(file.fileno(), MOST_BYTES + 1)
    with pytest.raises(ConfigurationError, match="larger than 4 MiB"):
        read_rules_file(Path("large.json"))


def test_without_pyyaml_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigurationError, match=r"pip install( --python \S+)? pyyaml, or write the file as JSON"):
        read("rules.yaml", YAML)


def test_json_needs_no_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert read("rules.json", '["exploding-tensor"]') == (EXPLODING,)


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (10, "10"), (0.5, "0.5"), ("a,b", "a,b")])
def test_parameters_of_any_type_become_texts(value: Any, text: str) -> None:
    (rule,) = read("r.json", json.dumps([{"rule": "x", "parameters": {"p": value}}]))
    assert rule.parameters == {"p": text}
