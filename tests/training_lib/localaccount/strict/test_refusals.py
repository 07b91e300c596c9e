"""Requests to the account as a client without checks of its own sends them: what AWS refuses, and what it takes."""

from __future__ import annotations

import json
import time
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

ROLE = "arn:aws:iam::123456789012:role/bench"
JOB = {
    "AlgorithmSpecification": {"TrainingInputMode": "File", "TrainingImage": "image"},
    "RoleArn": ROLE,
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
}
FUNCTION = {"Runtime": "python3.12", "Role": ROLE, "Handler": "code_.handle"}
TOPIC = "arn:aws:sns:us-east-1:123456789012:topic"
QUEUE = "arn:aws:sqs:us-east-1:123456789012:queue"


def ask(bench: Any, service: str, operation: str, asked: dict[str, Any]) -> Any:
    account = bench.account
    client = boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=account.endpoint_url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(parameter_validation=False, retries={"total_max_attempts": 1}, proxies={}),
    )
    return getattr(client, operation)(**asked)


def metric(**more: Any) -> dict[str, Any]:
    return {"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": 1, **more}]}


@pytest.fixture(scope="module")
def stocked(bench: Any) -> Any:
    """The bench with the table, topic, rule and function that the rows name."""
    client = bench.account.client
    client("sns").create_topic(Name="topic")
    bench.queue("queue")
    bench.rule("full", {"source": ["x"]}, *({"Arn": QUEUE} for _ in range(5)))
    bench.function("function", "def handle(event, context): return 1")
    client("dynamodb").create_table(
        TableName="table",
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return bench


REFUSED = [
    # The models, one protocol after another.
    ("sagemaker", "create_training_job", {**JOB, "TrainingJobName": "a_b"}, "ValidationException", "pattern"),
    ("sagemaker", "list_training_jobs", {"MaxResults": "many"}, "SerializationException", "STRING_VALUE"),
    ("dynamodb", "put_item", {"TableName": "table", "Item": {"key": {"S": 1}}}, "SerializationException", "NUMBER_"),
    ("lambda", "create_function", {**FUNCTION, "Code": {}, "FunctionName": "a b"}, "ValidationException", "functionN"),
    ("iam", "create_role", {"RoleName": "a b", "AssumeRolePolicyDocument": "{}"}, "ValidationError", "roleName"),
    ("sns", "publish", {"TopicArn": TOPIC}, "ValidationError", "Value null at 'message'"),
    ("cloudwatch", "put_metric_data", metric(Unit="Stones"), "ValidationError", "metricData.1.member.unit"),
    ("sqs", "create_queue", {"QueueName": "q", "Attributes": {"Colour": "1"}}, "InvalidParameterValue", "attributes"),
    ("s3", "create_bucket", {"Bucket": "bucket", "ACL": "everybody"}, "InvalidArgument", "enum"),
    ("s3", "list_objects_v2", {"Bucket": "bucket", "MaxKeys": "many"}, "InvalidArgument", "many"),
    ("logs", "create_log_group", {"logGroupName": "a b"}, "InvalidParameterException", "logGroupName"),
    # What no model holds.
    ("sagemaker", "create_training_job", {**JOB, "RoleArn": "arn:aws:iam::210987654321:role/r"}, "", "Cross-account"),
    (
        "sagemaker",
        "create_training_job",
        {**JOB, "AlgorithmSpecification": {"TrainingInputMode": "File"}},
        "",
        "either",
    ),
    ("sagemaker", "create_training_job", {**JOB, "Tags": [{"Key": "aws:a", "Value": ""}]}, "", "aws:"),
    ("sagemaker", "create_training_job", {**JOB, "Tags": [{"Key": "a", "Value": ""}] * 2}, "", "Duplicate"),
    ("sagemaker", "list_training_jobs", {"NextToken": "x"}, "ValidationException", "NextToken"),
    (
        "sagemaker",
        "add_tags",
        {"ResourceArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/none", "Tags": []},
        "ValidationException",
        "not found",
    ),
    ("lambda", "update_function_configuration", {"FunctionName": "function", "Timeout": 901}, "", "equal to 900"),
    ("lambda", "update_function_configuration", {"FunctionName": "function", "MemorySize": 10241}, "", "to 10240"),
    (
        "lambda",
        "update_function_configuration",
        {"FunctionName": "function", "Environment": {"Variables": {"AB": "x" * 4096}}},
        "InvalidParameterValueException",
        "4KB",
    ),
    (
        "lambda",
        "update_function_configuration",
        {"FunctionName": "function", "Environment": {"Variables": {"AWS_REGION": "x"}}},
        "InvalidParameterValueException",
        "reserved keys",
    ),
    (
        "lambda",
        "create_function",
        {**FUNCTION, "FunctionName": "old", "Runtime": "python3.7", "Code": {"ZipFile": b"zip"}},
        "InvalidParameterValueException",
        "no longer supported",
    ),
    (
        "lambda",
        "invoke",
        {"FunctionName": "function", "Payload": b'"' + b"x" * 6_291_456 + b'"'},
        "RequestTooLargeException",
        "6291456",
    ),
    (
        "events",
        "put_targets",
        {"Rule": "full", "Targets": [{"Id": "sixth", "Arn": QUEUE}]},
        "LimitExceededException",
        "maximum",
    ),
    ("cloudwatch", "put_metric_data", {**metric(), "Namespace": "AWS/x"}, "InvalidParameterValue", "Namespace"),
    ("cloudwatch", "put_metric_data", metric(Timestamp=time.time() - 15 * 86400), "InvalidParameterValue", "two weeks"),
    ("cloudwatch", "put_metric_data", metric(Timestamp=time.time() + 3 * 3600), "InvalidParameterValue", "two hours"),
    (
        "cloudwatch",
        "put_metric_data",
        {"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": 1}] * 1001},
        "InvalidParameterValue",
        "1000",
    ),
    ("sns", "publish", {"TopicArn": TOPIC, "Message": ""}, "InvalidParameter", "Empty message"),
    ("sns", "publish", {"TopicArn": TOPIC, "Message": "m", "Subject": "a\nb"}, "InvalidParameter", "Subject"),
    ("sns", "publish", {"TopicArn": TOPIC, "Message": "m", "Subject": "größer"}, "InvalidParameter", "Subject"),
    (
        "dynamodb",
        "put_item",
        {
            "TableName": "table",
            "Item": {"key": {"S": "k"}},
            "ConditionExpression": "attribute_not_exists(#k)",
            "ExpressionAttributeNames": {"#k": "key"},
            "ExpressionAttributeValues": {":v": {"S": "v"}},
        },
        "ValidationException",
        "unused in expressions: keys: {:v}",
    ),
    ("cloudformation", "create_stack", {"StackName": "1st", "TemplateBody": "{}"}, "ValidationError", "stackName"),
]


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row[0]}.{row[1]}: {row[4]}") for row in REFUSED])
def test_what_is_refused(stocked: Any, row: tuple[str, str, dict[str, Any], str, str]) -> None:
    service, operation, asked, code, says = row
    if operation == "create_training_job":
        asked = {"TrainingJobName": "refused", **asked}

    with pytest.raises(ClientError) as caught:
        ask(stocked, service, operation, asked)

    error, answer = caught.value.response["Error"], caught.value.response["ResponseMetadata"]
    assert error["Code"] == (code or "ValidationException")
    assert says in error["Message"]
    assert answer["HTTPStatusCode"] == (413 if code == "RequestTooLargeException" else 400)


@pytest.mark.parametrize(
    ("service", "operation", "asked"),
    [
        pytest.param(
            "sagemaker", "create_training_job", {**JOB, "Tags": [{"Key": "a", "Value": "b"}]}, id="a job with a tag"
        ),
        pytest.param("sagemaker", "list_training_jobs", {"MaxResults": 100, "SortBy": "Name"}, id="a page"),
        pytest.param(
            "lambda", "update_function_configuration", {"FunctionName": "function", "Timeout": 900}, id="15 minutes"
        ),
        pytest.param(
            "lambda",
            "update_function_configuration",
            {
                "FunctionName": "function",
                "Environment": {"Variables": {"AB": "x" * 4000, "AWS_LAMBDA_EXEC_WRAPPER": "x"}},
            },
            id="variables just below 4 KB",
        ),
        pytest.param(
            "events", "put_targets", {"Rule": "full", "Targets": [{"Id": "0", "Arn": QUEUE}]}, id="a target again"
        ),
        pytest.param("cloudwatch", "put_metric_data", metric(Timestamp=time.time() - 13 * 86400), id="13 days ago"),
        pytest.param("sns", "publish", {"TopicArn": TOPIC, "Message": "größer", "Subject": "s" * 100}, id="a subject"),
        pytest.param(
            "dynamodb",
            "update_item",
            {
                "TableName": "table",
                "Key": {"key": {"S": "k"}},
                "UpdateExpression": "SET #a.#b=:v, c=if_not_exists(c,:w)",
                "ConditionExpression": "attribute_not_exists(#a)",
                "ExpressionAttributeNames": {"#a": "a", "#b": "b"},
                "ExpressionAttributeValues": {":v": {"S": "v"}, ":w": {"N": "1"}},
            },
            id="placeholders in two expressions",
        ),
        pytest.param("s3", "list_buckets", {}, id="no parameters"),
    ],
)
def test_what_is_taken(stocked: Any, service: str, operation: str, asked: dict[str, Any]) -> None:
    if operation == "create_training_job":
        asked = {"TrainingJobName": "taken", **asked}
    try:
        ask(stocked, service, operation, asked)
    except ClientError as error:  # of the state of the account, not of the request
        assert "document path" in str(error)  # noqa: PT017


def test_an_event_of_a_service_is_refused_beside_one_that_is_taken(bench: Any) -> None:
    url, queue = bench.queue("sources")
    bench.rule("sources", {"detail-type": ["mixed"]}, {"Arn": queue})
    entries = [
        {"Source": source, "DetailType": "mixed", "Detail": json.dumps({"from": source})}
        for source in ("own", "aws.s3", "awsome")
    ]

    answer = bench.account.client("events").put_events(Entries=entries)

    assert answer["FailedEntryCount"] == 1
    assert [entry.get("ErrorCode") for entry in answer["Entries"]] == [None, "NotAuthorizedForSourceException", None]
    arrived = {json.loads(message["Body"])["detail"]["from"] for message in bench.receive(url, 2)}
    assert arrived == {"own", "awsome"}


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        pytest.param(KeyError("absent"), 400, "Requested resource not found", id="what the request names is missing"),
        pytest.param(KeyError("Sid"), 501, "KeyError: 'Sid'", id="something else is missing"),
        pytest.param(AttributeError("'NoneType' object has no attribute 'x'"), 501, "AttributeError", id="None"),
        pytest.param(ValueError("invalid literal"), 501, "ValueError: invalid literal", id="a value"),
        pytest.param(NotImplementedError("not yet"), 501, "NotImplementedError: not yet", id="not implemented"),
    ],
)
def test_where_moto_fails_the_gap_is_named(
    stocked: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, message: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("moto.ssm.models.SimpleSystemManagerBackend.get_parameter", fail)
    with pytest.raises(ClientError) as refused:
        ask(stocked, "ssm", "get_parameter", {"Name": "absent"})
    answer = refused.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == status
    assert message in answer["Error"]["Message"]
    if status == 501:
        assert "The local account cannot carry out ssm:GetParameter" in answer["Error"]["Message"]
