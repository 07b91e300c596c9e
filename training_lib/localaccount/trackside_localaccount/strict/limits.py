"""Limits of services that no model holds, each with the page or the published answer that states it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

from trackside_localaccount.strict.templates import RefusedTemplateError, check_template, parsed_template

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """Where and when a request was made: `response` is moto's object for it, `now` in UTC."""

    response: Any
    now: datetime


Limit = Callable[[Parameters, Request], None]

_VARIABLES_BYTES = 4096
_ZIP_BYTES = 70_167_211
_PAYLOAD_BYTES = {"RequestResponse": 6_291_456, "Event": 1_048_576}
_MOST_FUNCTION = {"Timeout": 900, "MemorySize": 10_240}
_MOST_TARGETS = 5
_MOST_METRICS = 1000
_OLDEST_METRIC, _YOUNGEST_METRIC = timedelta(weeks=2), timedelta(hours=2)
_MOST_SUBJECT = 100
_MESSAGE_BYTES = 262_144
_PLACEHOLDER = re.compile(r"[:#][A-Za-z0-9_.\-]+")
_STACK_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,127}|arn:[-a-zA-Z0-9:/._+]*")
_RESERVED_VARIABLES = frozenset(
    {
        "_HANDLER",
        "_X_AMZN_TRACE_ID",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
        "AWS_EXECUTION_ENV",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_INITIALIZATION_TYPE",
        "AWS_LAMBDA_LOG_GROUP_NAME",
        "AWS_LAMBDA_LOG_STREAM_NAME",
        "AWS_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_LAMBDA_RUNTIME_API",
        "LAMBDA_TASK_ROOT",
        "LAMBDA_RUNTIME_DIR",
    }
)


class BrokenLimit(Exception):
    """A request that a service refuses. `code` empty: that of the service's other validation errors."""

    def __init__(self, message: str, code: str = "", *, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


# Lambda ---------------------------------------------------------------------------------------------------------------


def _function_sizes(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html. The model's are those of other kinds."""
    for name, most in _MOST_FUNCTION.items():
        if (given.get(name) or 0) > most and not given.get("CapacityProviderConfig"):
            member = name[0].lower() + name[1:]
            raise BrokenLimit(
                f"1 validation error detected: Value '{given[name]}' at '{member}' failed to satisfy constraint: "
                f"Member must have value less than or equal to {most}"
            )


def _function_variables(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html: 4 KB in all, reserved names."""
    variables = (given.get("Environment") or {}).get("Variables") or {}
    text = json.dumps(variables, separators=(",", ":"), ensure_ascii=False)
    begin = "Lambda was unable to configure your environment variables because the environment variables you have"
    if len(text.encode()) > _VARIABLES_BYTES:
        raise BrokenLimit(
            f"{begin} provided exceeded the 4KB limit. String measured: {text}", "InvalidParameterValueException"
        )
    if reserved := sorted(_RESERVED_VARIABLES & variables.keys()):
        raise BrokenLimit(
            f"{begin} provided contains reserved keys that are currently not supported for modification. Reserved keys "
            f"used in this request: {', '.join(reserved)}",
            "InvalidParameterValueException",
        )


def _function_code(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html: 50 MB, zipped."""
    if len(request.response.normalized_request.data) > _ZIP_BYTES:
        raise BrokenLimit(
            f"Request must be smaller than {_ZIP_BYTES} bytes for the CreateFunction operation",
            "RequestEntityTooLargeException",
            status=413,
        )


def _blocks(day: str) -> Limit:
    """https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html, as cfn-lint keeps its dates."""

    def check(given: Parameters, request: Request) -> None:
        blocked = _runtimes().get(str(given.get("Runtime")), {}).get(day)
        if blocked and request.now.date().isoformat() >= blocked:
            raise BrokenLimit(
                f"The runtime parameter of {given['Runtime']} is no longer supported for creating or updating AWS "
                "Lambda functions. We recommend you use a supported runtime while creating or updating functions.",
                "InvalidParameterValueException",
            )

    return check


def _runtimes() -> dict[str, dict[str, str]]:
    if not _read_runtimes:
        text = (files("cfnlint.data.AdditionalSpecs") / "LmbdRuntimeLifecycle.json").read_text(encoding="utf-8")
        _read_runtimes.update(json.loads(text))
    return _read_runtimes


_read_runtimes: dict[str, dict[str, str]] = {}


def _payload(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html: 6 MB, and 1 MB if nobody waits."""
    most = _PAYLOAD_BYTES.get(given.get("InvocationType") or "RequestResponse")
    if most and len(given.get("Payload") or b"") > most:
        raise BrokenLimit(
            f"Request must be smaller than {most} bytes for the InvokeFunction operation",
            "RequestTooLargeException",
            status=413,
        )


# EventBridge ----------------------------------------------------------------------------------------------------------


def _targets(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html: five targets a rule."""
    bus = request.response.events_backend.event_buses.get(
        str(given.get("EventBusName") or "default").rpartition("/")[2]
    )
    rule = bus.rules.get(given["Rule"]) if bus else None
    ids = {target["Id"] for target in [*(rule.targets if rule else ()), *given["Targets"]]}
    if len(ids) > _MOST_TARGETS:
        raise BrokenLimit("The requested resource exceeds the maximum number allowed.", "LimitExceededException")


# CloudWatch -----------------------------------------------------------------------------------------------------------


def _metrics(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html, and the answers in
    cloud-custodian#2559 and papertrail-services#66."""
    code = "InvalidParameterValue"
    if str(given.get("Namespace", "")).startswith("AWS/"):
        raise BrokenLimit("The value AWS/ for parameter Namespace is invalid.", code)
    data = given.get("MetricData") or []
    if len(data) > _MOST_METRICS:
        raise BrokenLimit(f"The collection MetricData must not have a size greater than {_MOST_METRICS}.", code)
    now = request.now.replace(tzinfo=None)
    for number, metric in enumerate(data, 1):
        place, at = f"MetricData.member.{number}", metric.get("Timestamp")
        if at is not None and at < now - _OLDEST_METRIC:
            raise BrokenLimit(f"The parameter {place}.Timestamp must specify a time within the past two weeks.", code)
        if at is not None and at > now + _YOUNGEST_METRIC:
            raise BrokenLimit(
                f"The parameter {place}.Timestamp must specify a time no more than two hours in the future.", code
            )
        for value in (metric.get("Value"), *(metric.get("Values") or ())):
            if value is not None and not abs(value) <= 2.0**360:
                raise BrokenLimit(f"The value {value} for parameter {place}.Value is invalid.", code)


# SNS ------------------------------------------------------------------------------------------------------------------


def _message(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/sns/latest/api/API_Publish.html: a subject is ASCII, begins with a letter, a digit or
    punctuation, has no line break and fewer than 100 characters; a message has 256 KB."""
    subject = given.get("Subject")
    if subject is not None and not (
        0 < len(subject) <= _MOST_SUBJECT and subject.isascii() and subject.isprintable() and subject[0] != " "
    ):
        raise BrokenLimit("Invalid parameter: Subject", "InvalidParameter")
    if not given.get("Message"):
        raise BrokenLimit("Invalid parameter: Empty message", "InvalidParameter")
    if len(given["Message"].encode()) > _MESSAGE_BYTES:
        raise BrokenLimit("Invalid parameter: Message too long", "InvalidParameter")


# DynamoDB -------------------------------------------------------------------------------------------------------------


def _placeholders(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ExpressionAttributeNames.html: what
    is given is used."""
    for part in _with_expressions(given):
        texts = [value for name, value in part.items() if name.endswith("Expression") and isinstance(value, str)]
        used = {found for text in texts for found in _PLACEHOLDER.findall(text)}
        for name in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            if unused := sorted(set(part.get(name) or ()) - used):
                raise BrokenLimit(f"Value provided in {name} unused in expressions: keys: {{{', '.join(unused)}}}")


def _with_expressions(value: Any) -> Iterator[Parameters]:
    if isinstance(value, Mapping):
        yield value
        for inner in value.get("TransactItems") or ():
            yield from (each for each in inner.values() if isinstance(each, Mapping))


# SageMaker ------------------------------------------------------------------------------------------------------------


def _role_is_own(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html: no role of another account is passed."""
    if str(given.get("RoleArn", "")).split(":")[4:5] != [request.response.current_account]:
        raise BrokenLimit("Cross-account pass role is not allowed.")


def _has_algorithm(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AlgorithmSpecification.html: one of the two."""
    named = given["AlgorithmSpecification"]
    if bool(named.get("TrainingImage")) == bool(named.get("AlgorithmName")):
        raise BrokenLimit(
            "You must provide either a TrainingImage or an AlgorithmName in the AlgorithmSpecification, and not both."
        )


# CloudFormation -------------------------------------------------------------------------------------------------------


def _stack_name(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html"""
    name = str(given["StackName"])
    if not _STACK_NAME.fullmatch(name):
        raise BrokenLimit(
            f"1 validation error detected: Value '{name}' at 'stackName' failed to satisfy constraint: Member must "
            f"satisfy regular expression pattern: {_STACK_NAME.pattern}"
        )


def _template(given: Parameters, request: Request) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/resource-type-schemas.html"""
    text = given.get("TemplateBody")
    if url := given.get("TemplateURL"):
        text = request.response._get_stack_from_s3_url(url)
    if not text:
        return  # the previous one
    try:
        template = parsed_template(text)
        check_template(template, capabilities=list(given.get("Capabilities") or ()), region=request.response.region)
    except RefusedTemplateError as error:
        raise BrokenLimit(str(error), error.code) from error


# All services ---------------------------------------------------------------------------------------------------------


def check_tags(given: Parameters) -> None:
    """https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html: `aws:` is AWS's own,
    a key stands once.

    Args:
        given: Parameters of any operation.

    Raises:
        BrokenLimit: A tag that no service takes.
    """
    tags = given.get("Tags")
    keys = (
        [str(tag["Key"]) for tag in tags if isinstance(tag, Mapping) and "Key" in tag] if isinstance(tags, list) else []
    )
    if reserved := [key for key in keys if key.lower().startswith("aws:")]:
        raise BrokenLimit(f"aws: prefixed tag key names are not allowed for external use: {reserved[0]}")
    if len(set(keys)) < len(keys):
        raise BrokenLimit("Duplicate tag keys found. Each tag key must be unique.")


_ROWS: tuple[tuple[str, tuple[str, ...], tuple[Limit, ...]], ...] = (
    ("lambda", ("CreateFunction",), (_function_sizes, _function_variables, _function_code, _blocks("create-block"))),
    ("lambda", ("UpdateFunctionConfiguration",), (_function_sizes, _function_variables, _blocks("update-block"))),
    ("lambda", ("Invoke",), (_payload,)),
    ("events", ("PutTargets",), (_targets,)),
    ("cloudwatch", ("PutMetricData",), (_metrics,)),
    ("sns", ("Publish",), (_message,)),
    (
        "dynamodb",
        ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan", "TransactWriteItems", "TransactGetItems"),
        (_placeholders,),
    ),
    ("cloudformation", ("CreateStack", "CreateChangeSet", "UpdateStack"), (_stack_name, _template)),
    ("sagemaker", ("CreateTrainingJob",), (_role_is_own, _has_algorithm)),
    ("sagemaker", ("CreateProcessingJob",), (_role_is_own,)),
)
LIMITS: Mapping[tuple[str, str], tuple[Limit, ...]] = {
    (service, operation): tuple(
        limit for one, operations, limits in _ROWS if one == service and operation in operations for limit in limits
    )
    for service, named, _ in _ROWS
    for operation in named
}
