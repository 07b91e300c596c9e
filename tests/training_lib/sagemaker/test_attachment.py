"""What is added to a job's request: short words where they suffice, objects where not, and conflicts refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.job_choice import chosen_by_words, is_tag_value
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.environment import CaptureEnvironment
from trackside.sagemaker import Rule, rule_configs
from trackside.sagemaker.attachment import (
    Attachment,
    attach_to_request,
    plan_attachment,
    status_only_attachment,
)

RUN = "s3://runs-bucket/digits-01"
LONG = CaptureRequest(tuple(CollectionRequest(f"mine-{k}", include_regex=(f"layer{k}.*weight",)) for k in range(20)))
DIFFERENT = [RuleConfiguration("overfit", actions=(Action.STOP_TRAINING,)), RuleConfiguration("dead-relu")]


@pytest.mark.parametrize(
    ("arguments", "tags", "objects"),
    [
        pytest.param({}, {}, [], id="the deployment decides"),
        pytest.param(
            {"actions": [Action.STOP_TRAINING]}, {"trackside:actions": "StopTraining"}, [], id="actions alone"
        ),
        pytest.param({"actions": []}, {"trackside:actions": "none"}, [], id="no action"),
        pytest.param(
            {"rules": "overfit:patience_evaluations=3"},
            {"trackside:rules": "overfit:patience_evaluations=3"},
            [],
            id="words",
        ),
        pytest.param(
            {"rules": RuleRequest((RuleConfiguration("overfit"),)), "actions": [Action.STOP_TRAINING]},
            {"trackside:rules": "overfit", "trackside:actions": "StopTraining"},
            [],
            id="our own configurations",
        ),
        pytest.param({"rules": DIFFERENT}, {}, ["digits-01/rule-request.json"], id="too much for words"),
        pytest.param(
            {"rules": [Rule.sagemaker(rule_configs.vanishing_gradient())]},
            {},
            ["digits-01/rule-request.json"],
            id="the SDK's objects",
        ),
        pytest.param({"capture": LONG}, {}, ["digits-01/capture-request.json"], id="too much for a variable"),
    ],
)
def test_what_a_job_carries(arguments: dict[str, Any], tags: dict[str, str], objects: list[str]) -> None:
    attachment = plan_attachment(RUN, **arguments)
    assert dict(attachment.tags) == {"trackside:run": RUN, **tags}
    assert set(attachment.environment) == {"TRACKSIDE_RUN", "TRACKSIDE_CAPTURE_REQUEST"}
    assert list(attachment.objects) == [f"s3://runs-bucket/{key}" for key in objects]
    assert all(is_tag_value(value) for value in attachment.tags.values())
    assert all(len(value) <= 512 for value in attachment.environment.values())


def test_many_jobs_share_what_is_too_long() -> None:
    attachment = plan_attachment("s3://runs-bucket/tuning-7/@job", DIFFERENT, capture=LONG)
    assert attachment.environment == {
        "TRACKSIDE_RUN": "s3://runs-bucket/tuning-7/@job",
        "TRACKSIDE_CAPTURE_REQUEST": "s3://runs-bucket/tuning-7/capture-request.json",
    }
    assert attachment.tags["trackside:rules"] == "s3://runs-bucket/tuning-7/rule-request.json"
    assert set(attachment.objects) == {
        attachment.tags["trackside:rules"],
        attachment.environment["TRACKSIDE_CAPTURE_REQUEST"],
    }
    in_container = {**attachment.environment, "TRAINING_JOB_NAME": "tuning-7-001-abc"}
    assert CaptureEnvironment.read(in_container).run_uri == "s3://runs-bucket/tuning-7/tuning-7-001-abc"


def test_what_is_saved_is_what_the_rules_need() -> None:
    saved = json.loads(plan_attachment(RUN, "class-imbalance").environment["TRACKSIDE_CAPTURE_REQUEST"])
    assert "labels" in {collection["name"] for collection in saved["collections"]}


def test_the_words_mean_what_was_asked_for() -> None:
    attachment = plan_attachment(RUN, "overfit:patience_evaluations=3 dead-relu", actions=[Action.STOP_TRAINING])
    catalogue = built_in_catalogue()
    request = chosen_by_words(attachment.tags["trackside:rules"], "StopTraining", catalogue=catalogue)
    assert [(rule.rule_id, rule.actions) for rule in request.rules] == [
        ("overfit", (Action.STOP_TRAINING,)),
        ("dead-relu", (Action.STOP_TRAINING,)),
    ]


@pytest.mark.parametrize(
    ("run", "arguments", "said"),
    [
        pytest.param("runs/digits", {}, "no place in S3", id="a folder"),
        pytest.param("s3://runs-bucket", {}, "no place in S3", id="a bucket"),
        pytest.param("s3://runs-bucket/@job", {}, "no place in S3", id="a bucket, shared"),
        pytest.param(f"s3://runs-bucket/{'x' * 250}", {}, "fits into no tag", id="too long"),
        pytest.param("s3://runs-bucket/a,b", {}, "fits into no tag", id="a comma"),
        pytest.param("s3://runs-bucket/a b", {}, "fits into no tag", id="a blank"),
        pytest.param(RUN, {"rules": "overfitt"}, "Did you mean 'overfit'?", id="no such rule"),
        pytest.param(RUN, {"rules": [RuleConfiguration("overfitt")]}, "'overfit'", id="no such configuration"),
        pytest.param(RUN, {"rules": [*DIFFERENT, {"RuleConfigurationName": "x"}]}, "either", id="a mixture"),
    ],
)
def test_what_cannot_be_attached_is_refused(run: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        plan_attachment(run, **arguments)


ATTACHMENT = Attachment(RUN, {"TRACKSIDE_RUN": RUN}, {"trackside:run": RUN})
SHARED = Attachment(f"{RUN}/@job", {"TRACKSIDE_RUN": f"{RUN}/@job"}, {"trackside:run": f"{RUN}/@job"})
TRAINING = {"TrainingJobName": "digits-01"}
TUNING = {"HyperParameterTuningJobName": "tuning-7"}


def tagged(**tags: str) -> list[dict[str, str]]:
    return [{"Key": key.replace("__", ":"), "Value": value} for key, value in tags.items()]


@pytest.mark.parametrize(
    ("request_", "attachment", "expected"),
    [
        pytest.param(
            TRAINING,
            ATTACHMENT,
            {**TRAINING, "Tags": tagged(trackside__run=RUN), "Environment": {"TRACKSIDE_RUN": RUN}},
            id="nothing there yet",
        ),
        pytest.param(
            {**TRAINING, "Tags": tagged(team="vision"), "Environment": {"LR": "1"}, "HyperParameters": {"a": "1"}},
            ATTACHMENT,
            {
                **TRAINING,
                "Tags": tagged(team="vision", trackside__run=RUN),
                "Environment": {"LR": "1", "TRACKSIDE_RUN": RUN},
                "HyperParameters": {"a": "1"},
            },
            id="beside the user's own",
        ),
        pytest.param(
            {**TRAINING, "Tags": tagged(trackside__run=RUN), "Environment": {"TRACKSIDE_RUN": RUN}},
            ATTACHMENT,
            {**TRAINING, "Tags": tagged(trackside__run=RUN), "Environment": {"TRACKSIDE_RUN": RUN}},
            id="attached already",
        ),
        pytest.param(
            TRAINING,
            status_only_attachment(RUN),
            {**TRAINING, "Tags": tagged(trackside__run=RUN, trackside__watch="status")},
            id="its states only",
        ),
        pytest.param(
            {**TUNING, "TrainingJobDefinition": {"Environment": {"LR": "1"}}},
            SHARED,
            {
                **TUNING,
                "Tags": tagged(trackside__run=f"{RUN}/@job"),
                "TrainingJobDefinition": {"Environment": {"LR": "1", "TRACKSIDE_RUN": f"{RUN}/@job"}},
            },
            id="a tuning job",
        ),
        pytest.param(
            {**TUNING, "TrainingJobDefinitions": [{"DefinitionName": "a"}, {"DefinitionName": "b"}]},
            SHARED,
            {
                **TUNING,
                "Tags": tagged(trackside__run=f"{RUN}/@job"),
                "TrainingJobDefinitions": [
                    {"DefinitionName": name, "Environment": {"TRACKSIDE_RUN": f"{RUN}/@job"}} for name in "ab"
                ],
            },
            id="a tuning job of several algorithms",
        ),
    ],
)
def test_attached(request_: dict[str, Any], attachment: Attachment, expected: dict[str, Any]) -> None:
    before = copy.deepcopy(request_)
    assert attach_to_request(request_, attachment) == expected
    assert request_ == before


@pytest.mark.parametrize(
    ("request_", "attachment", "said"),
    [
        pytest.param({}, ATTACHMENT, ["TrainingJobName: is missing"], id="no request"),
        pytest.param(
            {
                **TRAINING,
                "Tags": tagged(trackside__run="s3://b/other"),
                "Environment": {"TRACKSIDE_RUN": "s3://b/other"},
            },
            ATTACHMENT,
            ["has 2 problems", "Tags.trackside:run", "Environment.TRACKSIDE_RUN", "s3://b/other", RUN],
            id="another run",
        ),
        pytest.param(
            {**TRAINING, "Tags": tagged(trackside__rules="overfit")},
            ATTACHMENT,
            ["Tags.trackside:rules: is 'overfit' already"],
            id="a tag of ours that is not added",
        ),
        pytest.param({**TRAINING, "Tags": ["trackside:run"]}, ATTACHMENT, ["Tags[0]"], id="no tag"),
        pytest.param({**TRAINING, "Environment": ["A=1"]}, ATTACHMENT, ["Environment: must be"], id="no environment"),
        pytest.param(
            {**TRAINING, "Tags": tagged(**{f"t{k}": "x" for k in range(50)})}, ATTACHMENT, ["would be 51"], id="50 tags"
        ),
        pytest.param(
            {**TRAINING, "Environment": {f"V{k}": "x" for k in range(100)}},
            ATTACHMENT,
            ["would have 101 variables; a job takes 100"],
            id="100 variables",
        ),
        pytest.param(TUNING, SHARED, ["TrainingJobDefinition: is missing"], id="a tuning job without a definition"),
        pytest.param(
            {**TUNING, "TrainingJobDefinition": {}}, ATTACHMENT, ["End it with /@job"], id="one run for a tuning job"
        ),
        pytest.param(
            {**TUNING, "TrainingJobDefinition": {"Environment": {f"V{k}": "x" for k in range(48)}}},
            SHARED,
            ["TrainingJobDefinition.Environment: would have 49 variables; a job takes 48"],
            id="48 variables of a tuning job",
        ),
    ],
)
def test_conflicts_are_all_told(request_: dict[str, Any], attachment: Attachment, said: list[str]) -> None:
    before = copy.deepcopy(request_)
    with pytest.raises(ConfigurationError) as refused:
        attach_to_request(request_, attachment)
    assert [part for part in said if part not in str(refused.value)] == []
    assert request_ == before


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"TrainingJobName": "x", "Environment": [{"Name": "TOKEN", "Value": "s3cr3t"}]}, id="environment"),
        pytest.param({"HyperParameterTuningJobName": "x", "TrainingJobDefinition": "TOKEN=s3cr3t"}, id="definition"),
        pytest.param({"TrainingJobName": "x", "Environment": {"TOKEN": "s3cr3t", "TRACKSIDE_RUN": "y"}}, id="conflict"),
    ],
)
def test_no_value_of_the_users_is_repeated_in_an_error(request_: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        attach_to_request(request_, SHARED)
    assert "s3cr3t" not in str(refused.value)
