"""What is added to an Estimator or a ModelTrainer, told by their shapes alone; `tests/examples` asks the real ones."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

import trackside.sagemaker as ours
from trackside.contracts.errors import ConfigurationError, StorageError
from trackside.contracts.rule_request import RuleRequest
from trackside.sagemaker import Rule, attach_to_estimator, attach_to_model_trainer, rule_configs
from trackside.sagemaker.attachment import Attachment
from trackside.sagemaker.estimators import take_over, watch_estimator

ATTACHMENT = Attachment("s3://runs/a", {"TRACKSIDE_RUN": "s3://runs/a"}, {"trackside:run": "s3://runs/a"})
BOTO3, SHAPES = {"Key": "team", "Value": "vision"}, SimpleNamespace(key="team", value="vision")


def estimator(**given: Any) -> Any:
    """With the attributes that the SDK's version 2 has."""
    attributes = {
        "environment": None,
        "tags": None,
        "rules": None,
        "debugger_hook_config": None,
        "profiler_config": None,
        "disable_profiler": False,
        "tensorboard_output_config": None,
    }
    return SimpleNamespace(**{**attributes, **given})


@pytest.mark.parametrize(
    ("tags", "first"),
    [
        pytest.param(None, [], id="none"),
        pytest.param([], [], id="empty"),
        pytest.param([BOTO3], [BOTO3], id="as-boto3-takes-them"),
        pytest.param({"team": "vision"}, [BOTO3], id="a-mapping"),
    ],
)
def test_an_estimator_carries_both(tags: Any, first: list[Any]) -> None:
    mine = estimator(environment={"A": "1"}, tags=tags)
    attach_to_estimator(mine, ATTACHMENT)
    assert mine.environment == {"A": "1", "TRACKSIDE_RUN": "s3://runs/a"}
    assert mine.tags == [*first, {"Key": "trackside:run", "Value": "s3://runs/a"}]
    attach_to_estimator(mine, ATTACHMENT)  # the same again changes nothing
    assert len(mine.tags) == len(first) + 1


@pytest.mark.parametrize("tags", [None, [SHAPES]], ids=["none", "of-its-own-kind"])
def test_a_model_trainer_carries_both(tags: Any) -> None:
    mine = SimpleNamespace(environment={}, tags=tags)
    attach_to_model_trainer(mine, ATTACHMENT)
    assert mine.environment == {"TRACKSIDE_RUN": "s3://runs/a"}
    assert mine.tags == [*(tags or ()), {"key": "trackside:run", "value": "s3://runs/a"}]


@pytest.mark.parametrize("attach", [attach_to_estimator, attach_to_model_trainer])
def test_says_all_conflicts_at_once_and_changes_nothing(attach: Any) -> None:
    mine = SimpleNamespace(
        environment={"TRACKSIDE_RUN": "s3://other/run"},
        tags=[{"Key": "trackside:run", "Value": "s3://other"}, *({"Key": f"t{k}", "Value": ""} for k in range(50))],
    )
    before = (dict(mine.environment), list(mine.tags))
    with pytest.raises(ConfigurationError) as caught:
        attach(mine, ATTACHMENT)
    said = str(caught.value)
    assert "environment['TRACKSIDE_RUN']: is 's3://other/run' already" in said
    assert "tags['trackside:run']: is 's3://other' already" in said
    assert "tags: would have 51 entries; a training job takes 50" in said
    assert (mine.environment, mine.tags) == before


def test_takes_over_what_debugger_was_asked_for() -> None:
    rules, hook = [Rule.sagemaker(rule_configs.vanishing_gradient())], ours.DebuggerHookConfig()
    tensorboard = ours.TensorBoardOutputConfig("s3://b/tb")
    mine = estimator(rules=rules, debugger_hook_config=hook, tensorboard_output_config=tensorboard, tags=[BOTO3])
    taken = take_over(mine)
    assert (taken.rules, taken.debugger_hook_config) == (tuple(rules), hook)
    assert (mine.rules, mine.debugger_hook_config, mine.disable_profiler) == ([], False, True)
    assert mine.tensorboard_output_config is tensorboard
    assert mine.tags == [BOTO3]
    take_over(other := estimator())
    other.rules.append("mine")
    assert take_over(estimator()).rules == ()  # no list is shared


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A bucket for runs, and a session as an Estimator has one."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("TRACKSIDE_TABLE", "runs")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="runs")
        yield SimpleNamespace(boto_session=boto3.Session(), sagemaker_client=boto3.client("sagemaker"))


def test_watches_with_the_estimators_rules(runs: Any, caplog: pytest.LogCaptureFixture) -> None:
    rules = [
        Rule.sagemaker(rule_configs.vanishing_gradient(), rule_parameters={"threshold": 1e-9}),
        Rule.sagemaker(rule_configs.cpu_bottleneck()),
    ]
    mine = estimator(rules=rules, sagemaker_session=runs)
    with caplog.at_level(logging.WARNING, logger="trackside"):
        attachment = watch_estimator(mine, "s3://runs/digits/@job")
    assert mine.environment["TRACKSIDE_RUN"] == "s3://runs/digits/@job"
    tags = {tag["Key"]: tag["Value"] for tag in mine.tags}
    assert tags["trackside:run"] == "s3://runs/digits/@job"
    stored = {
        each["Key"]: boto3.client("s3").get_object(Bucket="runs", Key=each["Key"])["Body"].read().decode()
        for each in boto3.client("s3").list_objects_v2(Bucket="runs").get("Contents", ())
    }
    assert {f"s3://runs/{key}" for key in stored} == set(attachment.objects)
    rule, of_speed = RuleRequest.from_json(stored["digits/rule-request.json"]).rules
    assert (rule.rule_id, rule.parameters["threshold"]) == ("vanishing-gradient", "1e-09")
    assert of_speed.rule_id == "cpu-bottleneck"
    assert any("CPUBottleneck" in note for note in attachment.notes)
    assert attachment.notes
    assert all(any(note in said for said in caplog.messages) for note in attachment.notes)


def test_without_rules_the_deployment_decides(runs: Any) -> None:
    mine = estimator(sagemaker_session=runs)
    attachment = watch_estimator(mine, "s3://runs/digits/@job")
    assert not attachment.objects
    assert {tag["Key"] for tag in mine.tags} == {"trackside:run"}


def test_who_may_not_look_for_the_table_has_the_job_watched_all_the_same(
    runs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statuses are a comfort; a data scientist's role often may not ask CloudFormation."""
    monkeypatch.delenv("TRACKSIDE_TABLE", raising=False)
    mine = estimator(sagemaker_session=runs)
    watch_estimator(mine, "s3://runs/digits/@job")
    assert {tag["Key"] for tag in mine.tags} == {"trackside:run"}


@pytest.mark.parametrize(
    ("place", "more"),
    [
        pytest.param("/not/in/s3", {}, id="place"),
        pytest.param("s3://runs/a", {"environment": {"TRACKSIDE_RUN": "another"}}, id="conflict"),
        pytest.param("s3://runs/a", {"rules": ["no rule"]}, id="rule"),
        pytest.param("s3://no-such-bucket/@job", {}, id="bucket"),
    ],
)
def test_what_fails_leaves_the_estimator_as_it_was(runs: Any, place: str, more: dict[str, Any]) -> None:
    rules = [Rule.sagemaker(rule_configs.vanishing_gradient(), rule_parameters={"threshold": "1e-9"})]
    mine = estimator(**{"rules": rules, "sagemaker_session": runs, **more})
    before = dict(vars(mine))
    with pytest.raises((ConfigurationError, StorageError)):
        watch_estimator(mine, place)
    assert vars(mine) == before
