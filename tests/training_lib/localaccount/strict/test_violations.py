from __future__ import annotations

from typing import Any

import pytest
from moto.core.utils import get_service_model

from trackside_localaccount.strict.violations import Violations, whole_match

RIGHT = {
    "TrainingJobName": "job",
    "AlgorithmSpecification": {"TrainingInputMode": "File", "TrainingImage": "image"},
    "RoleArn": "arn:aws:iam::123456789012:role/r",
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 1},
}


def violations(change: dict[str, Any]) -> list[str]:
    shape = get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    asked = {name: value for name, value in {**RIGHT, **change}.items() if value is not None}
    return Violations().of("sagemaker", shape, asked)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="as it is"),
        pytest.param({"TrainingJobName": "j" * 63}, id="the longest name"),
        pytest.param({"Environment": {f"A{n}": "x" * 512 for n in range(100)}}, id="the most variables"),
        pytest.param({"Environment": {"A": ""}}, id="an empty value"),
        pytest.param({"HyperParameters": {}}, id="an empty map"),
        pytest.param({"Tags": [{"Key": "Größe:1/2", "Value": ""}]}, id="letters of other languages"),
        pytest.param({"Tags": []}, id="no tags"),
        pytest.param({"Unknown": "x" * 9999}, id="a member that the model lacks"),
    ],
)
def test_what_the_model_allows(change: dict[str, Any]) -> None:
    assert violations(change) == []


@pytest.mark.parametrize(
    ("change", "at", "says"),
    [
        pytest.param({"RoleArn": None}, "Value null at 'roleArn'", "must not be null", id="missing"),
        pytest.param({"OutputDataConfig": {}}, "'outputDataConfig.s3OutputPath'", "not be null", id="missing, deeper"),
        pytest.param({"TrainingJobName": "a_b"}, "Value 'a_b' at 'trainingJobName'", "pattern", id="pattern"),
        pytest.param(
            {"StoppingCondition": {"MaxRuntimeInSeconds": 0}},
            "Value '0' at 'stoppingCondition.maxRuntimeInSeconds'",
            "value greater than or equal to 1",
            id="range",
        ),
        pytest.param(
            {"AlgorithmSpecification": {"TrainingInputMode": "Fil"}},
            "'algorithmSpecification.trainingInputMode'",
            "enum value set: [Pipe, File, FastFile]",
            id="enum",
        ),
        pytest.param(
            {"Tags": [{"Key": "k", "Value": "*"}]}, "Value '*' at 'tags.1.member.value'", "pattern", id="in a list"
        ),
        pytest.param(
            {"Tags": [{"Key": f"k{n}", "Value": ""} for n in range(51)]},
            "at 'tags'",
            "length less than or equal to 50",
            id="number of items",
        ),
        pytest.param({"Environment": {"A-B": "x"}}, "{A-B=x}", "Map keys must satisfy", id="key of a map"),
        pytest.param({"Environment": {"A": "x" * 513}}, "'environment'", "Map value must satisfy", id="value of a map"),
        pytest.param(
            {"VpcConfig": {"SecurityGroupIds": ["sg-1", "!"], "Subnets": ["subnet-1"]}},
            "Value '[sg-1, !]' at 'vpcConfig.securityGroupIds'",
            "Member must satisfy constraint: [Member must have length",
            id="a text in a list",
        ),
    ],
)
def test_each_kind_of_constraint(change: dict[str, Any], at: str, says: str) -> None:
    (found,) = violations(change)

    assert at in found
    assert says in found


def test_all_violations_are_told() -> None:
    assert len(violations({"TrainingJobName": "a_b", "RoleArn": None, "OutputDataConfig": {}})) == 3


def test_a_shape_that_holds_itself() -> None:
    shape = get_service_model("dynamodb").operation_model("PutItem").input_shape
    deep: dict[str, Any] = {"S": "leaf"}
    for _ in range(20):
        deep = {"L": [{"M": {"k": deep}}]}

    assert Violations().of("dynamodb", shape, {"TableName": "table", "Item": {"key": deep}}) == []


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        pytest.param(r"[\p{L}\p{Z}]*", "größer als", "1", id="classes of Unicode"),
        pytest.param(r"[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\t]*", "a\U0001f600", "\n", id="surrogates"),
        pytest.param(r"[\w-_]*", "a-b_c", "a b", id="a hyphen after a class"),
        pytest.param(r"arn:[\p{Alnum}\-]+:x", "arn:aws-cn:x", "arn:!:x", id="names of POSIX"),
        pytest.param("[a-z]+", "abc", "abc1", id="all of the text, anchored or not"),
    ],
)
def test_patterns_of_java(pattern: str, right: str, wrong: str) -> None:
    matches = whole_match(pattern)

    assert (matches(right), matches(wrong)) == (True, False)


def test_every_pattern_of_the_used_services_is_understood() -> None:
    used = "athena cloudformation cloudwatch cognito-idp dynamodb ecr ecs events glue iam kms lambda logs s3 sagemaker"
    for service in (*used.split(), "sns", "sqs", "ssm", "sts", "xray"):
        model = get_service_model(service)
        for name in model.shape_names:
            if pattern := model.shape_for(name).metadata.get("pattern"):
                whole_match(pattern)
