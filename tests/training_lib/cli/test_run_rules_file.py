"""`trackside run --rules-file` with YAML and with a request of CreateTrainingJob."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from trackside.cli import main
from trackside.contracts.rule_request import RuleRequest

REQUEST = {
    "DebugRuleConfigurations": [
        {"RuleConfigurationName": "Gone", "RuleParameters": {"rule_to_invoke": "VanishingGradient"}}
    ],
    "ProfilerRuleConfigurations": [
        {"RuleConfigurationName": "Busy", "RuleParameters": {"rule_to_invoke": "CPUBottleneck"}},
        {"RuleConfigurationName": "Numbers", "RuleParameters": {"rule_to_invoke": "OverallSystemUsage"}},
    ],
}


def run(file: str, text: str) -> Result:
    Path(file).write_text(text)
    return CliRunner().invoke(main, ["run", "--rules-file", file, "--out", "it", "--", sys.executable, "-c", "pass"])


def test_yaml() -> None:
    result = run("rules.yaml", "rules:\n  - exploding-tensor\n  - rule: vanishing-gradient\n    name: gone\n")
    assert result.exit_code == 0, result.stderr
    request = RuleRequest.from_json(Path("it/rule-request.json").read_bytes())
    assert [(rule.rule_id, rule.name) for rule in request.rules] == [
        ("exploding-tensor", "exploding-tensor"),
        ("vanishing-gradient", "gone"),
    ]


def test_a_request_of_create_training_job_and_what_of_it_has_no_counterpart() -> None:
    result = run("request.json", json.dumps(REQUEST))
    assert result.exit_code == 0, result.stderr
    assert "trackside: Never an issue, as in SageMaker Debugger: Numbers." in result.stderr
    request = RuleRequest.from_json(Path("it/rule-request.json").read_bytes())
    assert [(rule.rule_id, rule.name) for rule in request.rules] == [
        ("vanishing-gradient", "Gone"),
        ("cpu-bottleneck", "Busy"),
    ]


def test_what_the_hook_configuration_asks_for_is_captured() -> None:
    configured = {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "1"}}
    hook = {"S3OutputPath": "s3://b", "CollectionConfigurations": [configured]}
    Path("request.json").write_text(json.dumps({**REQUEST, "DebugHookConfig": hook}))
    program = "import os; print(os.environ['TRACKSIDE_CAPTURE_REQUEST'], file=open('captured.json', 'w'))"
    result = CliRunner().invoke(
        main, ["run", "--rules-file", "request.json", "--out", "it", "--", sys.executable, "-c", program]
    )
    assert result.exit_code == 0, result.stderr
    assert "trackside: Saved as DebugHookConfig says, in the run's own folder: gradients, losses." in result.stderr
    collections = json.loads(Path("captured.json").read_text())["collections"]
    assert {one["name"]: one["save_interval"] for one in collections} == {"gradients": 1, "losses": 500}


def test_a_mistake_starts_nothing() -> None:
    result = run("rules.yaml", "- vanishing-gradiant")
    assert result.exit_code == 2
    assert "Did you mean 'vanishing-gradient'?" in result.stderr
    assert not Path("it").exists()
