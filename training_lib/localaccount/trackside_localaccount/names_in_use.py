"""Names that a template gives to resources and that the account has already: the resource, and so its stack, fails.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-console-create-stacks-name-conflicts.html. AWS also
checks names when a change set is created; here they are checked when the resource is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.cloudformation import parsing
from moto.cloudwatch.models import cloudwatch_backends
from moto.dynamodb.models import dynamodb_backends
from moto.ecr.models import ecr_backends
from moto.events.models import events_backends
from moto.iam.models import iam_backends
from moto.kms.models import kms_backends
from moto.logs.models import logs_backends
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends
from moto.ssm.models import ssm_backends

Properties = Mapping[str, Any]


class NameInUseError(Exception):
    """A refusal of CloudFormation, in its words."""


def refuse_names_in_use() -> None:
    """Let the creation of a resource fail if another one has its name."""
    names = vars(parsing)  # where moto's resource map looks for the function
    original = names["parse_and_create_resource"]

    def parse_and_create_resource(
        logical_id: str, resource_json: dict[str, Any], resources: Any, account_id: str, region_name: str
    ) -> Any:
        condition = resource_json.get("Condition")
        if not condition or resources.lazy_condition_map[condition]:
            _check(resource_json, resources, account_id, region_name)
        return original(logical_id, resource_json, resources, account_id, region_name)

    names["parse_and_create_resource"] = parse_and_create_resource


def _check(resource_json: Mapping[str, Any], resources: Any, account: str, region: str) -> None:
    kind = resource_json["Type"]
    if kind not in _KINDS:
        return
    property_name, known = _KINDS[kind]
    given = parsing.clean_json(dict(resource_json.get("Properties") or {}), resources)
    name = given.get(property_name)
    if name and name in known(account, region, given):
        raise NameInUseError(
            f"Resource handler returned message: \"Resource of type '{kind}' with identifier '{name}' already "
            'exists." (HandlerErrorCode: AlreadyExists)'
        )


def _rules(account: str, region: str, given: Properties) -> Container[str]:
    bus = events_backends[account][region].event_buses.get(str(given.get("EventBusName") or "default"))
    return bus.rules if bus else ()


def _topics(account: str, region: str, given: Properties) -> Container[str]:
    return {arn.rpartition(":")[2] for arn in sns_backends[account][region].topics}


def _aliases(account: str, region: str, given: Properties) -> Container[str]:
    return {alias for key in kms_backends[account][region].keys.values() for alias in key.aliases}


def _buckets(account: str, region: str, given: Properties) -> Container[str]:
    """Of every account: their names are everybody's."""
    return {name for regions in list(s3_backends.values()) for backend in regions.values() for name in backend.buckets}


# Type -> the property that names it, and the names of that type in the account.
_KINDS: Mapping[str, tuple[str, Callable[[str, str, Properties], Container[str]]]] = {
    "AWS::CloudWatch::Alarm": ("AlarmName", lambda a, r, _: cloudwatch_backends[a][r].alarms),
    "AWS::CloudWatch::Dashboard": ("DashboardName", lambda a, r, _: cloudwatch_backends[a][r].dashboards),
    "AWS::DynamoDB::Table": ("TableName", lambda a, r, _: dynamodb_backends[a][r].tables),
    "AWS::ECR::Repository": ("RepositoryName", lambda a, r, _: ecr_backends[a][r].repositories),
    "AWS::Events::Archive": ("ArchiveName", lambda a, r, _: events_backends[a][r].archives),
    "AWS::Events::EventBus": ("Name", lambda a, r, _: events_backends[a][r].event_buses),
    "AWS::Events::Rule": ("Name", _rules),
    "AWS::IAM::Role": ("RoleName", lambda a, r, _: {role.name for role in iam_backends[a]["aws"].get_roles()}),
    "AWS::KMS::Alias": ("AliasName", _aliases),
    "AWS::Lambda::Function": ("FunctionName", lambda a, r, _: lambda_backends[a][r]._lambdas._functions),
    "AWS::Logs::LogGroup": ("LogGroupName", lambda a, r, _: logs_backends[a][r].groups),
    "AWS::S3::Bucket": ("BucketName", _buckets),
    "AWS::SNS::Topic": ("TopicName", _topics),
    "AWS::SQS::Queue": ("QueueName", lambda a, r, _: sqs_backends[a][r].queues),
    "AWS::SSM::Parameter": ("Name", lambda a, r, _: ssm_backends[a][r]._parameters),
    "AWS::SecretsManager::Secret": ("Name", lambda a, r, _: secretsmanager_backends[a][r].secrets),
}
