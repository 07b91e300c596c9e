"""The real SageMaker Python SDK: its own classes, and the post's whole notebook, against the local account."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from trackside.cli import main
from trackside.contracts.rule_request import RuleRequest
from trackside_localaccount.server import LocalAccount

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "sagemaker"
ROLE_ARN = "arn:aws:iam::123456789012:role/service-role/data-scientist"
SHARED = "s3://runs/digits/@job"
RULES = {"ExplodingTensor", "LossNotDecreasing", "Overfit", "VanishingGradient", "WeightUpdateRatio"}
account_group = pytest.mark.xdist_group("local-account")  # one account at a time in a process


@pytest.fixture(scope="module")
def example() -> Iterator[Callable[[str], Any]]:
    """Imports a module of the example's folder, as its own scripts do."""
    sys.path.insert(0, str(EXAMPLE))
    yield importlib.import_module
    sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def sdk(example: Callable[[str], Any]) -> Path:
    """The Python of the real SDK, built once in 30 s and 300 MB."""
    environment = example("sdk_environment")
    try:
        return Path(environment.sdk_python())
    except environment.CannotBuild as error:
        pytest.skip(f"The real SDK is needed from the package index. {error}")


@pytest.fixture(scope="module")
def account() -> Iterator[LocalAccount]:
    with LocalAccount(stop_grace_seconds=1) as opened:
        opened.client("s3").create_bucket(Bucket="runs")
        opened.register_image("pytorch-training", [sys.executable, "-c", "pass"])
        yield opened


def under(python: Path, account: LocalAccount, script: Path, *words: str) -> dict[str, Any]:
    """The last line of what the script prints, there."""
    environment = {**importlib.import_module("play").notebook_environment(account), "TRACKSIDE_TABLE": "not-asked"}
    command: list[str | Path] = [python, "-W", "ignore", script, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


# The page -------------------------------------------------------------------------------------------------------------


def test_each_change_of_the_page_fits_the_post_once(example: Callable[[str], Any]) -> None:
    notebook = example("notebook")
    cells = notebook.cells()
    assert len(cells) == 7
    for cell in cells:
        compile(cell, "cell", "exec")
    stock = notebook.SAMPLE.read_text("utf-8")
    changes = notebook.changes(notebook.PAGE.read_text("utf-8"))
    removed = [line for change in changes for line in change if line.startswith("-")]
    assert len(removed) == 6  # so many lines of the post are not as they were; all else is added below them
    with pytest.raises(notebook.ChangeMisfit, match="0 times"):
        notebook.changed(stock, ["-no such line"])
    with pytest.raises(notebook.ChangeMisfit, match="times, not once"):
        notebook.changed(stock, ["-"])


@pytest.mark.parametrize("copy", ["tests/training_lib/sagemaker/the_blog.txt", "tests/smdebug/the_training_script.txt"])
def test_the_post_is_the_one_that_the_other_tests_have(example: Callable[[str], Any], copy: str) -> None:
    sample = example("notebook").SAMPLE.read_text("utf-8")
    blocks = (ROOT / copy).read_text("utf-8").split("```python\n")[1:]
    for block in blocks:
        assert f"```python\n{block.partition('```')[0]}```" in sample


# Its own classes ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def estimators(sdk: Path, account: LocalAccount) -> dict[str, Any]:
    """What real Estimators ask for, by case."""
    return under(sdk, account, Path(__file__).with_name("real_estimator.py"))


@account_group
@pytest.mark.parametrize("case", ["theirs", "ours"])
def test_an_estimator_of_either_kind_of_rules(estimators: dict[str, Any], account: LocalAccount, case: str) -> None:
    found, run = estimators[case], f"s3://runs/{case}/@job"
    assert found["environment"]["NCCL_DEBUG"] == "WARN"
    assert found["environment"]["TRACKSIDE_RUN"] == run
    assert found["tags"]["team"] == "vision"
    assert found["tags"]["trackside:run"] == run
    assert (found["debugger"], found["profiler"]) == ([], {"DisableProfiler": True})
    assert any("LowGPUUtilization" in note for note in found["notes"])
    body = account.client("s3").get_object(Bucket="runs", Key=f"{case}/rule-request.json")["Body"].read()
    rule, of_speed = RuleRequest.from_json(body).rules
    assert (rule.rule_id, rule.parameters["threshold"]) == ("vanishing-gradient", "1e-9")
    assert of_speed.rule_id == "low-gpu-utilization"


@account_group
def test_the_sdk_itself_takes_no_rules_but_its_own(estimators: dict[str, Any]) -> None:
    """Why `watch_estimator` takes them away."""
    assert "can only contain sagemaker.debugger.Rule" in estimators["refused"]


@account_group
def test_attaching_alone_leaves_sagemaker_debugger_in_place(estimators: dict[str, Any]) -> None:
    found, run = estimators["attached"], "s3://runs/attached/@job"
    assert found["debugger"] == ["debugger_hook_config", "debugger_rule_configs", "profiler_rule_configs"]
    assert found["environment"]["TRACKSIDE_RUN"] == found["tags"]["trackside:run"] == run


@account_group
def test_a_model_trainer_of_version_3(example: Callable[[str], Any], account: LocalAccount) -> None:
    environment = example("sdk_environment")
    if not environment.is_built("sagemaker-sdk-3", environment.V3):
        pytest.skip("`make sdk` builds the environment of the SDK's version 3: about 70 s, 940 MB")
    python = environment.sdk_python("sagemaker-sdk-3", environment.V3)
    found = under(python, account, EXAMPLE / "model_trainer.py", SHARED, ROLE_ARN)
    assert found["environment"]["NCCL_DEBUG"] == "WARN"
    assert found["environment"]["TRACKSIDE_RUN"] == SHARED
    assert found["tags"] == {
        "team": "vision",
        "trackside:run": SHARED,
        "trackside:rules": "vanishing-gradient overfit:patience_evaluations=5",
    }


# The notebook ---------------------------------------------------------------------------------------------------------


@account_group
def test_the_posts_notebook_runs_to_its_end(
    sdk: Path, example: Callable[[str], Any], account: LocalAccount, tmp_path: Path
) -> None:
    """The Estimator, `fit` with its logs, the status loop, the tensors; a real training, judged by the real stacks."""
    played = example("play").play(account, tmp_path, python=sdk, pace=30)
    left, printed = played.left, played.printed
    assert left["role"] == ROLE_ARN
    assert left["bucket"] == "sagemaker-us-east-1-123456789012"
    # fit: the training's own output came through CloudWatch Logs. On a slow machine its fifty epochs may be over before
    # the rules have begun: that an issue is told while a job trains is for trainings that run until they are stopped.
    assert "Epoch 50: train_loss=" in printed
    _, _, after = printed.partition("Completed - Training job completed")
    assert after
    # The loop.
    statuses = {each["RuleConfigurationName"]: each for each in left["statuses"]}
    assert set(statuses) == RULES
    for name, status in statuses.items():
        assert status["RuleEvaluationStatus"] in {"IssuesFound", "NoIssuesFound"}, status
        assert f"Rule: {name}\n  Status: {status['RuleEvaluationStatus']}\n  Details: " in after
        assert set(status) == {
            "RuleConfigurationName",
            "RuleEvaluationJobArn",
            "RuleEvaluationStatus",
            "StatusDetails",
            "LastModifiedTime",
        }
    assert statuses["Overfit"]["RuleEvaluationStatus"] == "IssuesFound"  # 640 digits and 50 epochs without a brake
    assert statuses["VanishingGradient"]["RuleEvaluationStatus"] == "NoIssuesFound"
    assert left["rule_job_summary"] == left["statuses"]
    assert left["debugger_fields"] == ["DebugRuleEvaluationStatuses", "ProfilerConfig"]  # nothing asked of Debugger
    # What was saved.
    assert {"BCELoss_output_0", "gradient/Sequential_0.weight", "Sequential_6.weight"} <= set(left["tensors"])
    assert len(left["loss_steps"]) > 50
    # The command line tells the same.
    told = CliRunner().invoke(main, ["aws", "rules", left["job"]], env=account.environment(), catch_exceptions=False)
    rules = {each["RuleConfigurationName"]: each for each in json.loads(told.stdout)["DebugRuleEvaluationStatuses"]}
    assert {name: each["StatusDetails"] for name, each in rules.items()} == {
        name: each["StatusDetails"] for name, each in statuses.items()
    }
