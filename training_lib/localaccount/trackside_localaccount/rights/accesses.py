"""The accesses of a request: actions, resources and condition keys that IAM decides about.

Actions and their kinds of resources are those of AWS's Service Authorization Reference, as cfn-lint has it.
https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

Parameters = Mapping[str, Any]
Keys = Mapping[str, tuple[str, ...]]


class UnknownAccessError(Exception):
    """A request of which nothing here knows the action or the resource."""


@dataclass(frozen=True)
class Place:
    """Where a request arrives."""

    account: str
    region: str

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in this place; an ARN stays itself."""
        return resource if resource.startswith("arn:") else f"arn:aws:{service}:{self.region}:{self.account}:{resource}"


@dataclass(frozen=True)
class Access:
    """One action on one resource. `keys`: condition keys that only this request has, in lower case."""

    action: str
    resource: str
    keys: Keys = field(default_factory=dict, hash=False)


Rule = Callable[[Parameters, Place], Iterator[Access]]


def accesses_of(service: str, operation: str, given: Parameters, place: Place) -> list[Access]:
    """Return all accesses that a request needs.

    Args:
        service: Name of the service, as boto3 has it.
        operation: Name of the operation.
        given: Parameters of the request.
        place: Account and region of the request.

    Raises:
        UnknownAccessError: No table knows the operation's action or resource.
    """
    rule = _RULES.get(service, {}).get(operation)
    found = list(rule(given, place)) if rule else [_by_name(service, operation, given, place)]
    for access in found:
        _check_action(access.action)
    return found


def _check_action(action: str) -> None:
    service, _, name = action.partition(":")
    if name.lower() not in _reference().get(service, {}).get("Actions", {}):
        raise UnknownAccessError(f"the action {action}")


@cache
def _reference() -> Mapping[str, Any]:
    text = (files("cfnlint.data.AdditionalSpecs") / "Policies.json").read_text(encoding="utf-8")
    reference: Mapping[str, Any] = json.loads(text)
    return reference


# By names: the action is called as the operation, a parameter as the kind of resource ---------------------------------

_PREFIXES = {"cognito-idp": "cognito-idp", "stepfunctions": "states"}


def _by_name(service: str, operation: str, given: Parameters, place: Place) -> Access:
    prefix = _PREFIXES.get(service, service)
    known = _reference().get(prefix, {})
    action = known.get("Actions", {}).get(operation.lower())
    if action is None:
        raise UnknownAccessError(f"the action of {service}:{operation}")
    keys = _tag_keys(given)
    if not action.get("Resources"):
        return Access(f"{prefix}:{operation}", "*", keys)
    for kind in action["Resources"]:
        for form in known["Resources"][kind]["ARNFormats"]:
            if (resource := _resource_of_kind(kind, form, given, place)) is not None:
                return Access(f"{prefix}:{operation}", resource, keys)
    raise UnknownAccessError(f"the resource of {service}:{operation}")


def _resource_of_kind(kind: str, form: str, given: Parameters, place: Place) -> str | None:
    name = _plain(kind)
    wanted = {name, f"{name}name", f"{name}arn", f"{name}id", f"{name}identifier", "resourcearn", "arn"}
    pattern = re.escape(form).replace(re.escape("${Partition}"), "aws").replace(re.escape(".*"), ".*")
    pattern = re.sub(r"\\\$\\\{\w+\\\}", "[^:]*", pattern)
    for parameter, value in given.items():
        if _plain(parameter) not in wanted or not isinstance(value, str):
            continue
        if value.startswith("arn:"):
            return value if re.fullmatch(pattern, value) else None
        filled = form.replace("${Partition}", "aws").replace("${Region}", place.region)
        return filled.replace("${Account}", place.account).replace(".*", value, 1)
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _tag_keys(given: Parameters) -> Keys:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html: tags of a request."""
    tags = given.get("Tags") or given.get("tags")
    if isinstance(tags, Mapping):
        pairs = {str(key): str(value) for key, value in tags.items()}
    elif isinstance(tags, list) and all(isinstance(tag, Mapping) and "Key" in tag for tag in tags):
        pairs = {str(tag["Key"]): str(tag.get("Value", "")) for tag in tags}
    else:
        pairs = dict.fromkeys(map(str, given.get("TagKeys") or ()), "")
    found = {f"aws:requesttag/{key.lower()}": (value,) for key, value in pairs.items()}
    return {**found, "aws:tagkeys": tuple(pairs)} if pairs else {}


# S3 -------------------------------------------------------------------------------------------------------------------


def _of_object(*actions: str, of_version: str = "") -> Rule:
    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        chosen = (of_version,) if of_version and given.get("VersionId") else actions
        for action in chosen:
            yield Access(f"s3:{action}", f"arn:aws:s3:::{given['Bucket']}/{given['Key']}")

    return rule


def _of_bucket(action: str) -> Rule:
    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        yield Access(f"s3:{action}", f"arn:aws:s3:::{given['Bucket']}", _keys_of_listing(given))

    return rule


def _keys_of_listing(given: Parameters) -> Keys:
    named = {"s3:prefix": "Prefix", "s3:delimiter": "Delimiter", "s3:max-keys": "MaxKeys"}
    return {key: (str(given[name]),) for key, name in named.items() if given.get(name) is not None}


def _put_object(given: Parameters, place: Place) -> Iterator[Access]:
    resource = f"arn:aws:s3:::{given['Bucket']}/{given['Key']}"
    yield Access("s3:PutObject", resource)
    if given.get("Tagging"):
        yield Access("s3:PutObjectTagging", resource)
    if given.get("ACL"):
        yield Access("s3:PutObjectAcl", resource, {"s3:x-amz-acl": (str(given["ACL"]),)})


def _copy_object(given: Parameters, place: Place) -> Iterator[Access]:
    source = given["CopySource"]
    path = source if isinstance(source, str) else f"{source['Bucket']}/{source['Key']}"
    yield Access("s3:GetObject", f"arn:aws:s3:::{path.lstrip('/').partition('?')[0]}")
    yield from _put_object(given, place)


def _delete_objects(given: Parameters, place: Place) -> Iterator[Access]:
    for entry in given["Delete"]["Objects"]:
        action = "s3:DeleteObjectVersion" if entry.get("VersionId") else "s3:DeleteObject"
        yield Access(action, f"arn:aws:s3:::{given['Bucket']}/{entry['Key']}")


_S3: dict[str, Rule] = {
    "GetObject": _of_object("GetObject", of_version="GetObjectVersion"),
    "HeadObject": _of_object("GetObject", of_version="GetObjectVersion"),
    "GetObjectAttributes": _of_object("GetObject", "GetObjectAttributes"),
    "GetObjectTagging": _of_object("GetObjectTagging"),
    "PutObject": _put_object,
    "PutObjectTagging": _of_object("PutObjectTagging"),
    "CopyObject": _copy_object,
    "CreateMultipartUpload": _put_object,
    "UploadPart": _of_object("PutObject"),
    "UploadPartCopy": _copy_object,
    "CompleteMultipartUpload": _of_object("PutObject"),
    "AbortMultipartUpload": _of_object("AbortMultipartUpload"),
    "ListParts": _of_object("ListMultipartUploadParts"),
    "DeleteObject": _of_object("DeleteObject", of_version="DeleteObjectVersion"),
    "DeleteObjects": _delete_objects,
    "ListObjects": _of_bucket("ListBucket"),
    "ListObjectsV2": _of_bucket("ListBucket"),
    "HeadBucket": _of_bucket("ListBucket"),
    "ListObjectVersions": _of_bucket("ListBucketVersions"),
    "ListMultipartUploads": _of_bucket("ListBucketMultipartUploads"),
    "CreateBucket": _of_bucket("CreateBucket"),
    "DeleteBucket": _of_bucket("DeleteBucket"),
    "GetBucketLocation": _of_bucket("GetBucketLocation"),
    "GetBucketPolicy": _of_bucket("GetBucketPolicy"),
    "PutBucketPolicy": _of_bucket("PutBucketPolicy"),
    "GetBucketTagging": _of_bucket("GetBucketTagging"),
    "PutBucketTagging": _of_bucket("PutBucketTagging"),
    "GetBucketVersioning": _of_bucket("GetBucketVersioning"),
    "GetBucketLifecycleConfiguration": _of_bucket("GetLifecycleConfiguration"),
    "PutBucketLifecycleConfiguration": _of_bucket("PutLifecycleConfiguration"),
    "GetBucketEncryption": _of_bucket("GetEncryptionConfiguration"),
    "ListBuckets": lambda given, place: iter((Access("s3:ListAllMyBuckets", "*"),)),
}


# Queues, topics, buses ------------------------------------------------------------------------------------------------


def _of_queue(action: str) -> Rule:
    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        url = str(given.get("QueueUrl") or "").rstrip("/").split("/")
        owner, name = (url[-2], url[-1]) if len(url) > 1 else (place.account, str(given.get("QueueName")))
        yield Access(f"sqs:{action}", f"arn:aws:sqs:{place.region}:{owner}:{name}", _tag_keys(given))

    return rule


_SQS: dict[str, Rule] = {
    **{
        name: _of_queue(name.removesuffix("Batch"))
        for name in (
            *("SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage", "DeleteMessageBatch"),
            *("ChangeMessageVisibility", "ChangeMessageVisibilityBatch", "GetQueueAttributes", "SetQueueAttributes"),
            *("PurgeQueue", "CreateQueue", "DeleteQueue", "GetQueueUrl", "TagQueue", "UntagQueue", "ListQueueTags"),
        )
    },
    "ListQueues": lambda given, place: iter(
        (Access("sqs:ListQueues", f"arn:aws:sqs:{place.region}:{place.account}:*"),)
    ),
}


def _publish(given: Parameters, place: Place) -> Iterator[Access]:
    yield Access("sns:Publish", str(given.get("TopicArn") or given.get("TargetArn") or given.get("PhoneNumber")))


def _subscribe(given: Parameters, place: Place) -> Iterator[Access]:
    keys = {"sns:protocol": (str(given["Protocol"]),), "sns:endpoint": (str(given.get("Endpoint", "")),)}
    yield Access("sns:Subscribe", str(given["TopicArn"]), keys)


def _unsubscribe(given: Parameters, place: Place) -> Iterator[Access]:
    yield Access("sns:Unsubscribe", str(given["SubscriptionArn"]).rpartition(":")[0])


_SNS: dict[str, Rule] = {
    "Publish": _publish,
    "PublishBatch": _publish,
    "Subscribe": _subscribe,
    "Unsubscribe": _unsubscribe,
}


def _put_events(given: Parameters, place: Place) -> Iterator[Access]:
    for entry in given["Entries"]:
        bus = str(entry.get("EventBusName") or "default")
        named = {"events:source": "Source", "events:detail-type": "DetailType"}
        keys = {key: (str(entry.get(name, "")),) for key, name in named.items()}
        path = bus if bus.startswith("arn:") else f"event-bus/{bus}"
        yield Access("events:PutEvents", place.arn("events", path), keys)


def _of_rule(operation: str) -> Rule:
    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        bus, name = str(given.get("EventBusName") or "default"), given.get("Name") or given.get("Rule")
        path = f"{name}" if bus == "default" else f"{bus.rpartition('/')[2]}/{name}"
        yield Access(f"events:{operation}", place.arn("events", f"rule/{path}"), _tag_keys(given))

    return rule


_EVENTS: dict[str, Rule] = {
    "PutEvents": _put_events,
    **{
        name: _of_rule(name)
        for name in (
            *("PutRule", "DescribeRule", "DeleteRule", "EnableRule", "DisableRule"),
            *("PutTargets", "RemoveTargets", "ListTargetsByRule"),
        )
    },
}


# DynamoDB -------------------------------------------------------------------------------------------------------------


def _of_table(operation: str) -> Rule:
    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        table = _table(given["TableName"], place)
        index = f"/index/{given['IndexName']}" if given.get("IndexName") else ""
        yield Access(f"dynamodb:{operation}", f"{table}{index}")

    return rule


def _of_tables(operation: str) -> Rule:
    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        for name in given["RequestItems"]:
            yield Access(f"dynamodb:{operation}", _table(name, place))

    return rule


_TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}


def _transact(given: Parameters, place: Place) -> Iterator[Access]:
    for entry in given["TransactItems"]:
        for kind, item in entry.items():
            yield Access(f"dynamodb:{_TRANSACTED.get(kind, 'GetItem')}", _table(item["TableName"], place))


def _table(name: str, place: Place) -> str:
    return place.arn("dynamodb", name if name.startswith("arn:") else f"table/{name}")


_DYNAMODB: dict[str, Rule] = {
    **{name: _of_table(name) for name in ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan")},
    "BatchGetItem": _of_tables("BatchGetItem"),
    "BatchWriteItem": _of_tables("BatchWriteItem"),
    "TransactWriteItems": _transact,
    "TransactGetItems": _transact,
}


# SageMaker ------------------------------------------------------------------------------------------------------------

_TAGGED = "sagemaker:AddTags"


def _create_job(kind: str, parameter: str) -> Rule:
    operation = f"Create{parameter.removesuffix('Name')}"

    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        job, keys = place.arn("sagemaker", f"{kind}/{given[parameter]}"), _tag_keys(given)
        yield Access(f"sagemaker:{operation}", job, keys)
        if given.get("Tags"):
            yield Access(_TAGGED, job, {**keys, "sagemaker:taggingaction": (operation,)})
        yield pass_role(str(given["RoleArn"]), "sagemaker")

    return rule


def pass_role(role_arn: str, service: str) -> Access:
    """Return the access of who hands a role to a service.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html
    """
    return Access("iam:PassRole", role_arn, {"iam:passedtoservice": (f"{service}.amazonaws.com",)})


_SAGEMAKER: dict[str, Rule] = {
    "CreateTrainingJob": _create_job("training-job", "TrainingJobName"),
    "CreateProcessingJob": _create_job("processing-job", "ProcessingJobName"),
}


# Others ---------------------------------------------------------------------------------------------------------------


def _create_function(given: Parameters, place: Place) -> Iterator[Access]:
    yield Access("lambda:CreateFunction", place.arn("lambda", f"function:{given['FunctionName']}"), _tag_keys(given))
    yield pass_role(str(given["Role"]), "lambda")


def _invoke(given: Parameters, place: Place) -> Iterator[Access]:
    yield Access("lambda:InvokeFunction", place.arn("lambda", _function(str(given["FunctionName"]))))


def _function(name: str) -> str:
    return name if name.startswith("arn:") else f"function:{name.rpartition(':')[2]}"


def _parameters(operation: str) -> Rule:
    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        for name in given.get("Names") or (given.get("Name") or given.get("Path"),):
            path = str(name)
            yield Access(
                f"ssm:{operation}",
                path if path.startswith("arn:") else place.arn("ssm", f"parameter/{path.removeprefix('/')}"),
            )

    return rule


def _logs(operation: str) -> Rule:
    def rule(given: Parameters, place: Place) -> Iterator[Access]:
        group = str(given.get("logGroupName") or given.get("logGroupNamePrefix") or "*")
        stream = f":log-stream:{given['logStreamName']}" if given.get("logStreamName") else ":log-stream:"
        yield Access(f"logs:{operation}", place.arn("logs", f"log-group:{group}{stream}"))

    return rule


def _metric_data(given: Parameters, place: Place) -> Iterator[Access]:
    yield Access("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": (str(given["Namespace"]),)})


def _unnamed(action: str) -> Rule:
    return lambda given, place: iter((Access(action, "*"),))


def _assume_role(given: Parameters, place: Place) -> Iterator[Access]:
    keys = {"sts:externalid": (str(given["ExternalId"]),)} if given.get("ExternalId") else {}
    keys["sts:rolesessionname"] = (str(given["RoleSessionName"]),)
    yield Access("sts:AssumeRole", str(given["RoleArn"]), {**keys, **_tag_keys(given)})


def _simulate(given: Parameters, place: Place) -> Iterator[Access]:
    yield Access("iam:SimulatePrincipalPolicy", str(given["PolicySourceArn"]))


_RULES: Mapping[str, Mapping[str, Rule]] = {
    "iam": {"SimulatePrincipalPolicy": _simulate},
    "s3": _S3,
    "sqs": _SQS,
    "sns": _SNS,
    "events": _EVENTS,
    "dynamodb": _DYNAMODB,
    "sagemaker": _SAGEMAKER,
    "lambda": {"CreateFunction": _create_function, "Invoke": _invoke},
    "ssm": {
        name: _parameters(name)
        for name in ("GetParameter", "GetParameters", "GetParametersByPath", "PutParameter", "DeleteParameter")
    },
    "logs": {
        name: _logs(name)
        for name in (
            *("CreateLogGroup", "DescribeLogGroups", "DeleteLogGroup", "CreateLogStream", "DescribeLogStreams"),
            *("PutLogEvents", "GetLogEvents", "FilterLogEvents", "PutRetentionPolicy"),
        )
    },
    "cloudwatch": {
        "PutMetricData": _metric_data,
        "GetMetricData": _unnamed("cloudwatch:GetMetricData"),
        "GetMetricStatistics": _unnamed("cloudwatch:GetMetricStatistics"),
        "ListMetrics": _unnamed("cloudwatch:ListMetrics"),
        "DescribeAlarms": _unnamed("cloudwatch:DescribeAlarms"),
    },
    "sts": {"AssumeRole": _assume_role},
}
