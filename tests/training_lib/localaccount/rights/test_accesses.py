"""What requests ask of IAM: each action is in AWS's reference, each resource is of a kind that the action knows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from trackside_localaccount.rights.accesses import Place, UnknownAccessError, _reference, accesses_of

HERE = Place("123456789012", "us-east-1")
AT = "us-east-1:123456789012"
ROLE = "arn:aws:iam::123456789012:role/r"
QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/q"
TAGS = [{"Key": "team", "Value": "vision"}]
OBJECT = {"Bucket": "b", "Key": "k/1"}


@pytest.mark.parametrize(
    ("service", "operation", "given", "accesses"),
    [
        ("s3", "HeadObject", OBJECT, ["s3:GetObject arn:aws:s3:::b/k/1"]),
        ("s3", "GetObject", {**OBJECT, "VersionId": "1"}, ["s3:GetObjectVersion arn:aws:s3:::b/k/1"]),
        ("s3", "ListObjectsV2", {"Bucket": "b"}, ["s3:ListBucket arn:aws:s3:::b"]),
        (
            "s3",
            "CopyObject",
            {**OBJECT, "CopySource": "a/x"},
            ["s3:GetObject arn:aws:s3:::a/x", "s3:PutObject arn:aws:s3:::b/k/1"],
        ),
        (
            "s3",
            "DeleteObjects",
            {"Bucket": "b", "Delete": {"Objects": [{"Key": "1"}, {"Key": "2"}]}},
            ["s3:DeleteObject arn:aws:s3:::b/1", "s3:DeleteObject arn:aws:s3:::b/2"],
        ),
        ("s3", "UploadPart", OBJECT, ["s3:PutObject arn:aws:s3:::b/k/1"]),
        ("sqs", "SendMessageBatch", {"QueueUrl": QUEUE}, [f"sqs:SendMessage arn:aws:sqs:{AT}:q"]),
        ("sqs", "GetQueueUrl", {"QueueName": "q"}, [f"sqs:GetQueueUrl arn:aws:sqs:{AT}:q"]),
        ("sns", "Publish", {"TopicArn": f"arn:aws:sns:{AT}:t"}, [f"sns:Publish arn:aws:sns:{AT}:t"]),
        (
            "sns",
            "Unsubscribe",
            {"SubscriptionArn": f"arn:aws:sns:{AT}:t:1-2"},
            [f"sns:Unsubscribe arn:aws:sns:{AT}:t"],
        ),
        (
            "events",
            "PutEvents",
            {"Entries": [{"Source": "x", "EventBusName": "bus"}, {"Source": "y"}]},
            [f"events:PutEvents arn:aws:events:{AT}:event-bus/{name}" for name in ("bus", "default")],
        ),
        (
            "events",
            "PutRule",
            {"Name": "r", "EventBusName": "bus"},
            [f"events:PutRule arn:aws:events:{AT}:rule/bus/r"],
        ),
        (
            "dynamodb",
            "Query",
            {"TableName": "t", "IndexName": "i"},
            [f"dynamodb:Query arn:aws:dynamodb:{AT}:table/t/index/i"],
        ),
        (
            "dynamodb",
            "TransactWriteItems",
            {"TransactItems": [{"Put": {"TableName": "t"}}, {"ConditionCheck": {"TableName": "u"}}]},
            [
                f"dynamodb:PutItem arn:aws:dynamodb:{AT}:table/t",
                f"dynamodb:ConditionCheckItem arn:aws:dynamodb:{AT}:table/u",
            ],
        ),
        (
            "sagemaker",
            "CreateProcessingJob",
            {"ProcessingJobName": "p", "RoleArn": ROLE, "Tags": TAGS},
            [
                f"sagemaker:CreateProcessingJob arn:aws:sagemaker:{AT}:processing-job/p",
                f"sagemaker:AddTags arn:aws:sagemaker:{AT}:processing-job/p",
                f"iam:PassRole {ROLE}",
            ],
        ),
        (
            "sagemaker",
            "StopTrainingJob",
            {"TrainingJobName": "j"},
            [f"sagemaker:StopTrainingJob arn:aws:sagemaker:{AT}:training-job/j"],
        ),
        (
            "sagemaker",
            "AddTags",
            {"ResourceArn": f"arn:aws:sagemaker:{AT}:training-job/j", "Tags": TAGS},
            [f"sagemaker:AddTags arn:aws:sagemaker:{AT}:training-job/j"],
        ),
        ("sagemaker", "ListTrainingJobs", {}, ["sagemaker:ListTrainingJobs *"]),
        ("lambda", "Invoke", {"FunctionName": "f"}, [f"lambda:InvokeFunction arn:aws:lambda:{AT}:function:f"]),
        ("lambda", "GetFunction", {"FunctionName": "f"}, [f"lambda:GetFunction arn:aws:lambda:{AT}:function:f"]),
        ("ssm", "GetParameter", {"Name": "/a/b"}, [f"ssm:GetParameter arn:aws:ssm:{AT}:parameter/a/b"]),
        ("ecr", "GetAuthorizationToken", {}, ["ecr:GetAuthorizationToken *"]),
        ("iam", "GetRole", {"RoleName": "r"}, [f"iam:GetRole {ROLE}"]),
        (
            "iam",
            "SimulatePrincipalPolicy",
            {"PolicySourceArn": ROLE, "ActionNames": ["s3:GetObject"]},
            [f"iam:SimulatePrincipalPolicy {ROLE}"],
        ),
        ("kms", "Decrypt", {"KeyId": f"arn:aws:kms:{AT}:key/1"}, [f"kms:Decrypt arn:aws:kms:{AT}:key/1"]),
        (
            "logs",
            "PutLogEvents",
            {"logGroupName": "g", "logStreamName": "s"},
            [f"logs:PutLogEvents arn:aws:logs:{AT}:log-group:g:log-stream:s"],
        ),
        ("cloudwatch", "PutMetricData", {"Namespace": "n"}, ["cloudwatch:PutMetricData *"]),
        ("sts", "AssumeRole", {"RoleArn": ROLE, "RoleSessionName": "s"}, [f"sts:AssumeRole {ROLE}"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_accesses(service: str, operation: str, given: dict[str, Any], accesses: list[str]) -> None:
    found = accesses_of(service, operation, given, HERE)
    assert [f"{each.action} {each.resource}" for each in found] == accesses
    for each in found:
        assert _is_of_a_kind(each.action, each.resource)


@pytest.mark.parametrize(
    ("operation", "given", "key"),
    [
        pytest.param(
            "CreateTrainingJob",
            {"TrainingJobName": "j", "RoleArn": ROLE, "Tags": TAGS},
            ("CreateTrainingJob",),
            id="a training job",
        ),
        pytest.param(
            "CreateProcessingJob",
            {"ProcessingJobName": "p", "RoleArn": ROLE, "Tags": TAGS},
            ("CreateProcessingJob",),
            id="a processing job",
        ),
        pytest.param(
            "AddTags", {"ResourceArn": f"arn:aws:sagemaker:{AT}:training-job/j", "Tags": TAGS}, None, id="later"
        ),
    ],
)
def test_tags_at_a_creation_name_it(operation: str, given: dict[str, Any], key: tuple[str, ...] | None) -> None:
    """`sagemaker:TaggingAction`, by which a policy tells tags of a new job from those of one that exists."""
    (tagging,) = [one for one in accesses_of("sagemaker", operation, given, HERE) if one.action == "sagemaker:AddTags"]
    assert tagging.keys.get("sagemaker:taggingaction") == key


def _is_of_a_kind(action: str, resource: str) -> bool:
    """By AWS's reference; the logs' streams and PutMetricData's `dataset` are not in every policy."""
    service, _, name = action.partition(":")
    known = _reference()[service]
    kinds = known["Actions"][name.lower()].get("Resources", [])
    forms = [form for kind in kinds for form in known["Resources"][kind]["ARNFormats"]]
    patterns = [re.sub(r"\$\{\w+\}", "[^:]*", form) for form in forms]
    return resource == "*" or any(re.fullmatch(pattern, resource) for pattern in patterns)


@pytest.mark.parametrize(
    ("operation", "given", "key", "values"),
    [
        ("PutEvents", {"Entries": [{"Source": "x"}]}, "events:source", ("x",)),
        ("ListObjectsV2", {"Bucket": "b", "Prefix": "p/"}, "s3:prefix", ("p/",)),
        ("ListObjectsV2", {"Bucket": "b"}, "s3:prefix", None),
        ("CreateTrainingJob", {"TrainingJobName": "j", "RoleArn": ROLE, "Tags": TAGS}, "aws:tagkeys", ("team",)),
        ("PutMetricData", {"Namespace": "n"}, "cloudwatch:namespace", ("n",)),
    ],
)
def test_keys_of_conditions(operation: str, given: dict[str, Any], key: str, values: tuple[str, ...] | None) -> None:
    services = {"PutEvents": "events", "CreateTrainingJob": "sagemaker", "PutMetricData": "cloudwatch"}
    assert accesses_of(services.get(operation, "s3"), operation, given, HERE)[0].keys.get(key) == values


@pytest.mark.parametrize(
    ("service", "operation", "given"),
    [
        pytest.param("lambda", "Conquer", {}, id="no such action"),
        pytest.param("ec2", "DeleteVolume", {}, id="a resource that the request does not name"),
        pytest.param("glue", "GetTable", {"Name": "t"}, id="a resource under another name"),
    ],
)
def test_what_is_not_known_is_no_answer(service: str, operation: str, given: dict[str, Any]) -> None:
    with pytest.raises(UnknownAccessError):
        accesses_of(service, operation, given, HERE)
