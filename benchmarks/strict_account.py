"""Ask the local account for what AWS refuses: each request breaks one constraint of a service.

    python -m benchmarks.strict_account --write docs/local-account.md

Requests that are right are taken first; then each is changed in one place: by botocore's model of the operation (a
member is missing, too long or short, out of range, of a wrong type or pattern, not of the enum, too many items), and by
the limits that stand in documents only. A client without checks of its own sends them. Refused rightly is what has
status 400 or 413 and a code that the API references name for a wrong value: HTTP 500 and another error are not.
"""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import regex
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.model import Shape

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from trackside_localaccount import LocalAccount
from trackside_localaccount.provision import create_role

BEGIN, END = "<!-- wrong requests: `python -m benchmarks.strict_account` -->", "<!-- end -->"
RIGHT_CODES = frozenset(
    {
        "ValidationException",
        "ValidationError",
        "SerializationException",
        "MalformedInput",
        "MalformedXML",
        "InvalidArgument",
        "InvalidParameter",
        "InvalidParameterException",
        "InvalidParameterValue",
        "InvalidParameterValueException",
        "InvalidRequestException",
        "InsufficientCapabilitiesException",
        "LimitExceededException",
        "RequestTooLargeException",
        "NotAuthorizedForSourceException",
    }
)
MOST_CHARACTERS, MOST_ITEMS = 200_000, 1_001
NOT_OF_A_PATTERN = ("*", "a b\n", "!", "é", "\x00", "-")
ROLE = "arn:aws:iam::123456789012:role/bench"
TOPIC = "arn:aws:sns:us-east-1:123456789012:topic"
QUEUE = "arn:aws:sqs:us-east-1:123456789012:queue"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "a.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)
CLUSTER = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10}
TAGS = [{"Key": "team", "Value": "vision"}]
TRAINING = {
    "TrainingJobName": "job",
    "AlgorithmSpecification": {
        "TrainingImage": "image",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["true"],
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=(.*)"}],
    },
    "RoleArn": ROLE,
    "HyperParameters": {"lr": "0.1"},
    "Environment": {"COLOUR": "green"},
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "ResourceConfig": CLUSTER,
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
    "Tags": TAGS,
}
PROCESSING = {
    "ProcessingJobName": "job",
    "AppSpecification": {"ImageUri": "image", "ContainerEntrypoint": ["true"]},
    "ProcessingResources": {"ClusterConfig": CLUSTER},
    "RoleArn": ROLE,
    "Environment": {"COLOUR": "green"},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    "Tags": TAGS,
}
FUNCTION = {
    "FunctionName": "made",
    "Runtime": "python3.12",
    "Role": ROLE,
    "Handler": "code.handle",
    "Code": {"S3Bucket": "bucket", "S3Key": "none"},
    "Timeout": 3,
    "MemorySize": 128,
    "Architectures": ["arm64"],
    "TracingConfig": {"Mode": "Active"},
    "EphemeralStorage": {"Size": 512},
}
TABLE = {
    "TableName": "made",
    "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}],
    "BillingMode": "PAY_PER_REQUEST",
}
ALARM = {
    "AlarmName": "alarm",
    "Namespace": "n",
    "MetricName": "m",
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 1,
    "Period": 60,
    "Threshold": 1.0,
    "Statistic": "Sum",
    "Unit": "Count",
}
EVENT = {"Source": "own", "DetailType": "test", "Detail": "{}"}
METRIC: dict[str, Any] = {"MetricName": "m", "Value": 1.0, "Unit": "Count", "Dimensions": [{"Name": "d", "Value": "v"}]}
# (service, operation) -> a request that is right, whatever the state of the account answers to it.
RIGHT: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("sagemaker", "CreateTrainingJob"): TRAINING,
    ("sagemaker", "CreateProcessingJob"): PROCESSING,
    ("sagemaker", "DescribeTrainingJob"): {"TrainingJobName": "job"},
    ("sagemaker", "StopTrainingJob"): {"TrainingJobName": "job"},
    ("sagemaker", "ListTrainingJobs"): {"MaxResults": 10, "SortBy": "Name", "SortOrder": "Ascending"},
    ("sagemaker", "AddTags"): {"ResourceArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/j", "Tags": TAGS},
    ("lambda", "CreateFunction"): FUNCTION,
    ("lambda", "Invoke"): {"FunctionName": "none", "InvocationType": "Event", "LogType": "Tail"},
    ("lambda", "CreateEventSourceMapping"): {
        "FunctionName": "none",
        "EventSourceArn": QUEUE,
        "BatchSize": 10,
        "MaximumBatchingWindowInSeconds": 1,
        "ScalingConfig": {"MaximumConcurrency": 2},
    },
    ("events", "PutEvents"): {"Entries": [EVENT]},
    ("events", "PutRule"): {
        "Name": "rule",
        "EventPattern": '{"source": ["x"]}',
        "State": "ENABLED",
        "Description": "d",
    },
    ("events", "PutTargets"): {"Rule": "rule", "Targets": [{"Id": "1", "Arn": QUEUE}]},
    ("sqs", "CreateQueue"): {"QueueName": "made", "Attributes": {"VisibilityTimeout": "30"}},
    ("sns", "Publish"): {"TopicArn": TOPIC, "Message": "m", "Subject": "s"},
    ("sns", "Subscribe"): {"TopicArn": TOPIC, "Protocol": "sqs", "Endpoint": QUEUE},
    ("dynamodb", "CreateTable"): TABLE,
    ("dynamodb", "PutItem"): {"TableName": "table", "Item": {"key": {"S": "k"}}, "ReturnValues": "ALL_OLD"},
    ("dynamodb", "Query"): {
        "TableName": "table",
        "KeyConditionExpression": "#k = :k",
        "ExpressionAttributeNames": {"#k": "key"},
        "ExpressionAttributeValues": {":k": {"S": "k"}},
        "Limit": 10,
        "Select": "ALL_ATTRIBUTES",
    },
    ("cloudwatch", "PutMetricData"): {"Namespace": "n", "MetricData": [METRIC]},
    ("cloudwatch", "PutMetricAlarm"): ALARM,
    ("logs", "CreateLogGroup"): {"logGroupName": "group"},
    ("logs", "PutRetentionPolicy"): {"logGroupName": "group", "retentionInDays": 30},
    ("logs", "FilterLogEvents"): {"logGroupName": "group", "limit": 10},
    ("iam", "CreateRole"): {
        "RoleName": "made",
        "AssumeRolePolicyDocument": TRUST,
        "Path": "/",
        "MaxSessionDuration": 3600,
    },
    ("iam", "PutRolePolicy"): {"RoleName": "bench", "PolicyName": "p", "PolicyDocument": TRUST},
    ("sts", "AssumeRole"): {"RoleArn": ROLE, "RoleSessionName": "session", "DurationSeconds": 900},
    ("ssm", "PutParameter"): {"Name": "/made", "Value": "v", "Type": "String", "Tier": "Standard"},
    ("s3", "CreateBucket"): {"Bucket": "made", "ACL": "private", "ObjectOwnership": "BucketOwnerEnforced"},
    ("s3", "PutObject"): {"Bucket": "bucket", "Key": "k", "Body": b"x", "StorageClass": "STANDARD"},
    ("s3", "ListObjectsV2"): {"Bucket": "bucket", "MaxKeys": 10},
    ("kms", "CreateKey"): {"Description": "d", "KeyUsage": "ENCRYPT_DECRYPT", "KeySpec": "SYMMETRIC_DEFAULT"},
    ("ecr", "CreateRepository"): {"repositoryName": "made", "imageTagMutability": "MUTABLE"},
    ("cloudformation", "CreateStack"): {
        "StackName": "made",
        "TemplateBody": json.dumps({"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}),
        "OnFailure": "DELETE",
        "TimeoutInMinutes": 5,
    },
}


def _stack(kind: str, **properties: Any) -> dict[str, Any]:
    body = json.dumps({"Resources": {"One": {"Type": kind, "Properties": properties}}})
    return {"StackName": "wrong", "TemplateBody": body}


def limits(now: float) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return requests that the models allow, and the services' documents do not.

    Args:
        now: Time, in seconds since 1970.
    """
    metric = {"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": 1.0}]}
    algorithm = {"TrainingInputMode": "File"}
    long = {"Variables": {"COLOUR": "x" * 4096}}
    return [
        ("sagemaker", "CreateTrainingJob", {**TRAINING, "RoleArn": ROLE.replace("123456789012", "210987654321")}),
        ("sagemaker", "CreateTrainingJob", {**TRAINING, "AlgorithmSpecification": algorithm}),
        ("sagemaker", "CreateTrainingJob", {**TRAINING, "Tags": [{"Key": "aws:a", "Value": ""}]}),
        ("sagemaker", "CreateTrainingJob", {**TRAINING, "Tags": [*TAGS, *TAGS]}),
        ("sagemaker", "ListTrainingJobs", {"NextToken": "nonsense"}),
        ("lambda", "CreateFunction", {**FUNCTION, "Timeout": 901}),
        ("lambda", "CreateFunction", {**FUNCTION, "MemorySize": 10_241}),
        ("lambda", "CreateFunction", {**FUNCTION, "Environment": long}),
        ("lambda", "CreateFunction", {**FUNCTION, "Environment": {"Variables": {"AWS_REGION": "x"}}}),
        ("lambda", "CreateFunction", {**FUNCTION, "Runtime": "python3.7"}),
        ("lambda", "Invoke", {"FunctionName": "none", "Payload": b"x" * 6_291_457}),
        ("lambda", "Invoke", {"FunctionName": "none", "InvocationType": "Event", "Payload": b"x" * 1_048_577}),
        ("events", "PutTargets", {"Rule": "rule", "Targets": [{"Id": str(n), "Arn": QUEUE} for n in range(6)]}),
        ("events", "PutEvents", {"Entries": [{**EVENT, "Source": "aws.sagemaker"}]}),
        ("cloudwatch", "PutMetricData", {**metric, "Namespace": "AWS/SQS"}),
        ("cloudwatch", "PutMetricData", {"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": 1.0}] * 1001}),
        ("cloudwatch", "PutMetricData", {"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": float("nan")}]}),
        *(
            (
                "cloudwatch",
                "PutMetricData",
                {"Namespace": "n", "MetricData": [{**METRIC, "Timestamp": now + days * 86400}]},
            )
            for days in (-15, 1)
        ),
        *(
            ("sns", "Publish", {"TopicArn": TOPIC, "Message": "m", "Subject": subject})
            for subject in ("", "a\nb", "größer", "s" * 101)
        ),
        ("sns", "Publish", {"TopicArn": TOPIC, "Message": ""}),
        ("sns", "Publish", {"TopicArn": TOPIC, "Message": "m" * 262_145}),
        ("dynamodb", "PutItem", {**RIGHT["dynamodb", "PutItem"], "ExpressionAttributeValues": {":v": {"S": "v"}}}),
        ("dynamodb", "PutItem", {**RIGHT["dynamodb", "PutItem"], "ExpressionAttributeNames": {"#v": "v"}}),
        ("cloudformation", "CreateStack", {**RIGHT["cloudformation", "CreateStack"], "StackName": "1st"}),
        ("cloudformation", "CreateStack", {"StackName": "wrong", "TemplateBody": "{}"}),
        ("cloudformation", "CreateStack", _stack("AWS::Nix::Da")),
        ("cloudformation", "CreateStack", _stack("AWS::SQS::Queue", Colour="red")),
        ("cloudformation", "CreateStack", _stack("AWS::SQS::Queue", DelaySeconds="soon")),
        ("cloudformation", "CreateStack", _stack("AWS::Logs::LogGroup", RetentionInDays=31)),
        ("cloudformation", "CreateStack", _stack("AWS::DynamoDB::Table", KeySchema=[], BillingMode="FREE")),
        ("cloudformation", "CreateStack", _stack("AWS::Lambda::Function", Code={}, Role=ROLE, MemorySize=64)),
        ("cloudformation", "CreateStack", _stack("AWS::Lambda::Function", Role=ROLE)),
        ("cloudformation", "CreateStack", _stack("AWS::IAM::Role", AssumeRolePolicyDocument=json.loads(TRUST))),
    ]


@dataclass(frozen=True)
class Broken:
    """A request with one constraint broken: where, and which."""

    place: str
    kind: str
    request: Mapping[str, Any]


def broken(shape: Shape, request: Mapping[str, Any], *, is_json: bool) -> Iterator[Broken]:
    """Yield the request with one constraint of its model broken at a time.

    Args:
        shape: The operation's input.
        request: A request that is right.
        is_json: Whether the protocol keeps types apart.
    """
    for path, kind, value in _breaches(shape, request, (), is_json):
        changed: Any = copy.deepcopy(dict(request))
        place = changed
        for step in path[:-1]:
            place = place[step]
        if value is _MISSING:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        yield Broken(".".join(map(str, path)), kind, changed)


_MISSING = object()
_Breach = tuple[tuple[Any, ...], str, Any]


def _breaches(shape: Any, value: Any, path: tuple[Any, ...], is_json: bool) -> Iterator[_Breach]:
    if shape.type_name == "structure":
        yield from _wrong_members(shape, value, path, is_json)
    elif shape.type_name == "list":
        yield from _wrong_lists(shape, value, path, is_json)
    elif shape.type_name == "map":
        yield from _wrong_maps(shape, value, path, is_json)
    elif shape.type_name in ("integer", "long", "float", "double"):
        for name, step in (("max", 1), ("min", -1)):
            if name in shape.metadata:
                yield path, "range", shape.metadata[name] + step
        yield path, "type", "many"
    elif shape.type_name == "string":
        yield from _wrong_texts(shape, value, path, is_json)


def _wrong_members(shape: Any, value: Any, path: tuple[Any, ...], is_json: bool) -> Iterator[_Breach]:
    for name, member in shape.members.items():
        if name not in value or member.serialization.get("location") == "uri":  # another path is another request
            continue
        if name in shape.required_members:
            yield (*path, name), "missing", _MISSING
        yield from _breaches(member, value[name], (*path, name), is_json)


def _wrong_lists(shape: Any, value: Any, path: tuple[Any, ...], is_json: bool) -> Iterator[_Breach]:
    asked = shape.metadata
    if asked.get("max", MOST_ITEMS) < MOST_ITEMS and value:
        yield path, "items", [value[0]] * (asked["max"] + 1)
    if asked.get("min") and value:
        yield path, "items", []
    for index, each in enumerate(value[:1]):
        yield from _breaches(shape.member, each, (*path, index), is_json)


def _wrong_maps(shape: Any, value: Any, path: tuple[Any, ...], is_json: bool) -> Iterator[_Breach]:
    key, first = next(iter(value.items()))
    if "max" in shape.metadata:
        yield path, "items", {f"{key}{n}": first for n in range(shape.metadata["max"] + 1)}
    for _, kind, wrong in _breaches(shape.key, key, (), is_json=False):
        if kind in ("length", "pattern", "enum"):
            yield path, kind, {wrong: first}
    yield from _breaches(shape.value, first, (*path, key), is_json)


def _wrong_texts(shape: Any, value: str, path: tuple[Any, ...], is_json: bool) -> Iterator[_Breach]:
    asked = shape.metadata
    if asked.get("enum"):
        yield path, "enum", "Nonsense"
        return
    if asked.get("max", MOST_CHARACTERS) < MOST_CHARACTERS:
        yield path, "length", (value or "a")[-1] * (asked["max"] + 1)
    if asked.get("min"):
        yield path, "length", ""
    if pattern := asked.get("pattern"):
        wrong = (text for text in NOT_OF_A_PATTERN if not _matches(pattern, text))
        if (text := next(wrong, None)) is not None:
            yield path, "pattern", text
    if is_json and "location" not in shape.serialization:
        yield path, "type", 1


def _matches(pattern: str, text: str) -> bool:
    try:
        return bool(regex.fullmatch(pattern, text))
    except regex.error:  # of Java's, not Python's
        return True


class Asker:
    """Sends requests as a client that checks nothing."""

    def __init__(self, account: LocalAccount) -> None:
        self._account = account
        self._clients: dict[str, Any] = {}
        self._models = botocore.session.get_session()

    def shape(self, service: str, operation: str) -> tuple[Shape | None, bool]:
        """Return the input of an operation, and whether its protocol is JSON."""
        model = self._models.get_service_model(service)
        return model.operation_model(operation).input_shape, "json" in str(model.resolved_protocol)

    def answer(self, service: str, operation: str, request: Mapping[str, Any]) -> str | None:
        """Return the error code; empty if the request was taken, None if the client itself could not send it."""
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                region_name="us-east-1",
                endpoint_url=self._account.endpoint_url,
                aws_access_key_id="testing",
                aws_secret_access_key="testing",  # noqa: S106 - of the local account
                config=Config(parameter_validation=False, retries={"total_max_attempts": 1}, proxies={}),
            )
        client = self._clients[service]
        try:
            answer = getattr(client, _method(operation))(**request)
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return str(error.response["Error"]["Code"]) if status in (400, 413) else f"HTTP {status}"
        except (BotoCoreError, ValueError, TypeError, AttributeError):
            return None
        return str(next((each["ErrorCode"] for each in answer.get("Entries", ()) if "ErrorCode" in each), ""))


def _method(operation: str) -> str:
    return str(botocore.xform_name(operation))


def measure(asker: Asker, only: tuple[str, ...] = ()) -> tuple[Counter[str], Counter[str], list[str]]:
    """Return wrong requests by kind, those refused rightly by kind, and a line for each of the others."""
    asked: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong: list[str] = []

    def note(service: str, operation: str, place: str, kind: str, code: str | None) -> None:
        if code is None:
            return
        asked[kind] += 1
        if code in RIGHT_CODES:
            refused[kind] += 1
        else:
            wrong.append(f"{service}.{operation} {place} ({kind}): {code or 'taken'}")

    for (service, operation), right in RIGHT.items():
        if only and service not in only:
            continue
        shape, is_json = asker.shape(service, operation)
        if shape is None:
            continue
        asker.answer(service, operation, right)  # what it asks for exists from here on
        for one in broken(shape, right, is_json=is_json):
            note(service, operation, one.place, one.kind, asker.answer(service, operation, one.request))
    for service, operation, request in limits(time.time()):
        if not only or service in only:
            note(service, operation, "", "limits in documents", asker.answer(service, operation, request))
    return asked, refused, wrong


def table(asked: Counter[str], refused: Counter[str]) -> str:
    """Return the table of a page."""
    rows = [f"| {kind} | {count} | {refused[kind]} |" for kind, count in sorted(asked.items())]
    total, held = sum(asked.values()), sum(refused.values())
    rows.append(f"| **all** | {total} | {held} ({100 * held / total:.0f} %) |")
    return "\n".join(["| what is wrong | requests | refused as AWS does |", "|---|---|---|", *rows])


def stock(account: LocalAccount) -> None:
    """Make what the requests name."""
    create_role(account, "bench", services=("sagemaker", "lambda"))
    account.client("s3").create_bucket(Bucket="bucket")
    account.client("sns").create_topic(Name="topic")
    account.client("sqs").create_queue(QueueName="queue")
    account.client("events").put_rule(Name="rule", EventPattern='{"source": ["x"]}')
    account.client("dynamodb").create_table(**{**TABLE, "TableName": "table"})


def main() -> None:
    """Ask, and print or write the table."""
    options = parser(__doc__)
    options.add_argument("--write", type=Path, help="the page whose table is replaced")
    options.add_argument("--verbose", action="store_true", help="print each request that was not refused rightly")
    arguments = options.parse_args()
    with LocalAccount(stop_grace_seconds=0.1) as account:
        account.register_image("image", ["true"])
        stock(account)
        asked, refused, wrong = measure(Asker(account))
    put(table(asked, refused), arguments.write, begin=BEGIN, end=END)
    if arguments.verbose:
        print("\n".join(wrong))


if __name__ == "__main__":
    main()
