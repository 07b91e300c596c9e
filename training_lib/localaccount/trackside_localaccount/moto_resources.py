"""Resource types that stock moto's CloudFormation skips with no more than a warning.

Importing this module registers them: moto looks for direct subclasses of `CloudFormationModel`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from moto.athena.models import athena_backends
from moto.cloudwatch.models import cloudwatch_backends
from moto.cognitoidp.models import cognitoidp_backends
from moto.core.common_models import CloudFormationModel
from moto.glue.exceptions import EntityNotFoundException
from moto.glue.models import glue_backends
from moto.s3.exceptions import MissingBucket
from moto.s3.models import s3_backends
from moto.sns.models import sns_backends
from moto.sqs.exceptions import QueueDoesNotExist
from moto.sqs.models import sqs_backends


class Resource:
    """The shared part of the types below: made by `create`, undone by `delete`, replaced where they change."""

    TYPE: ClassVar[str]

    def __init__(self, physical_resource_id: str, properties: Mapping[str, Any]) -> None:
        self.physical_resource_id = physical_resource_id
        self.properties = properties

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        """Make the resource and return its physical id."""
        raise NotImplementedError

    def delete(self, account_id: str, region_name: str) -> None:
        """Undo it."""
        raise NotImplementedError

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> Any:
        properties = cloudformation_json["Properties"]
        return cls(cls.create(resource_name, properties, account_id, region_name), properties)

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Any,
        new_resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
    ) -> Any:
        original_resource.delete(account_id, region_name)
        return cls.create_from_cloudformation_json(new_resource_name, cloudformation_json, account_id, region_name)

    @classmethod
    def cloudformation_type(cls) -> str:
        return cls.TYPE

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr == "Arn" and "Alarm" in cls.TYPE

    def is_created(self) -> bool:
        return True


class BucketPolicy(Resource, CloudFormationModel):
    TYPE = "AWS::S3::BucketPolicy"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        document = json.dumps(properties["PolicyDocument"]).encode()
        s3_backends[account]["aws"].put_bucket_policy(properties["Bucket"], document)
        return str(properties["Bucket"])

    def delete(self, account_id: str, region_name: str) -> None:
        with suppress(MissingBucket):  # moto deletes in any order; the policy went with its bucket
            s3_backends[account_id]["aws"].delete_bucket_policy(self.properties["Bucket"])


class QueuePolicy(Resource, CloudFormationModel):
    TYPE = "AWS::SQS::QueuePolicy"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        for url in properties["Queues"]:
            _set_queue_policy(url, json.dumps(properties["PolicyDocument"]), account, region)
        return name

    def delete(self, account_id: str, region_name: str) -> None:
        for url in self.properties["Queues"]:
            with suppress(QueueDoesNotExist):  # see BucketPolicy
                _set_queue_policy(url, "", account_id, region_name)


def _set_queue_policy(queue_url: str, policy: str, account: str, region: str) -> None:
    sqs_backends[account][region].set_queue_attributes(queue_url.rsplit("/", 1)[-1], {"Policy": policy})


class TopicPolicy(Resource, CloudFormationModel):
    TYPE = "AWS::SNS::TopicPolicy"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        for arn in properties["Topics"]:
            document = json.dumps(properties["PolicyDocument"])
            sns_backends[account][region].set_topic_attribute(arn, "policy", document)
        return name

    def delete(self, account_id: str, region_name: str) -> None:
        """A topic always has a policy; it goes with the topic."""


class Subscription(Resource, CloudFormationModel):
    TYPE = "AWS::SNS::Subscription"
    ATTRIBUTES = ("FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy")

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        backend = sns_backends[account][region]
        subscription = backend.subscribe(properties["TopicArn"], properties["Endpoint"], properties["Protocol"])
        for attribute in cls.ATTRIBUTES:
            if attribute in properties:
                value = properties[attribute]
                text = value if isinstance(value, str) else json.dumps(value)
                backend.set_subscription_attributes(subscription.arn, attribute, text)
        return str(subscription.arn)

    def delete(self, account_id: str, region_name: str) -> None:
        sns_backends[account_id][region_name].unsubscribe(self.physical_resource_id)


class Alarm(Resource, CloudFormationModel):
    TYPE = "AWS::CloudWatch::Alarm"

    @staticmethod
    def cloudformation_name_type() -> str:
        return "AlarmName"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        cloudwatch_backends[account][region].put_metric_alarm(
            name=name,
            namespace=properties["Namespace"],
            metric_name=properties["MetricName"],
            comparison_operator=properties["ComparisonOperator"],
            evaluation_periods=int(properties["EvaluationPeriods"]),
            period=int(properties["Period"]),
            threshold=float(properties["Threshold"]),
            statistic=str(properties.get("Statistic", "")),
            extended_statistic=properties.get("ExtendedStatistic"),
            description=properties.get("AlarmDescription", ""),
            dimensions=list(properties.get("Dimensions", ())),
            alarm_actions=properties.get("AlarmActions", []),
            ok_actions=properties.get("OKActions", []),
            insufficient_data_actions=properties.get("InsufficientDataActions", []),
            datapoints_to_alarm=properties.get("DatapointsToAlarm"),
            treat_missing_data=properties.get("TreatMissingData"),
            actions_enabled=properties.get("ActionsEnabled", True),
            tags=properties.get("Tags", []),
        )
        return name

    def delete(self, account_id: str, region_name: str) -> None:
        cloudwatch_backends[account_id][region_name].delete_alarms([self.physical_resource_id])

    def get_cfn_attribute(self, attribute_name: str) -> Any:
        """The dashboard names the alarms by their ARNs."""
        if attribute_name != "Arn":
            raise NotImplementedError(f"'Fn::GetAtt' : [ '{{0}}' , '{attribute_name}' ]")
        found = (
            backend.alarms[self.physical_resource_id].alarm_arn
            for regions in cloudwatch_backends.values()
            for backend in regions.values()
            if self.physical_resource_id in backend.alarms
        )
        return next(found)


class UserPool(Resource, CloudFormationModel):
    TYPE = "AWS::Cognito::UserPool"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        pool = cognitoidp_backends[account][region].create_user_pool(
            properties.get("UserPoolName", name), dict(properties)
        )
        return str(pool.id)

    def delete(self, account_id: str, region_name: str) -> None:
        cognitoidp_backends[account_id][region_name].delete_user_pool(self.physical_resource_id)

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr in ("Arn", "ProviderName", "ProviderURL", "UserPoolId")

    def get_cfn_attribute(self, attribute_name: str) -> Any:
        """The dashboard checks tokens by the address of its pool."""
        pool_id = self.physical_resource_id
        found = (
            backend.user_pools[pool_id].arn
            for regions in cognitoidp_backends.values()
            for backend in regions.values()
            if pool_id in backend.user_pools
        )
        name = f"cognito-idp.{pool_id.partition('_')[0]}.amazonaws.com/{pool_id}"  # a pool's id begins with its region
        names = {"ProviderName": name, "ProviderURL": f"https://{name}", "UserPoolId": pool_id}
        return names.get(attribute_name) or next(found)


class UserPoolClient(Resource, CloudFormationModel):
    TYPE = "AWS::Cognito::UserPoolClient"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        rest = {key: value for key, value in properties.items() if key not in ("UserPoolId", "GenerateSecret")}
        client = cognitoidp_backends[account][region].create_user_pool_client(
            properties["UserPoolId"],
            generate_secret=str(properties.get("GenerateSecret", "false")).lower() == "true",
            extended_config={"ClientName": name, **rest},
        )
        return str(client.id)

    def delete(self, account_id: str, region_name: str) -> None:
        cognitoidp_backends[account_id][region_name].delete_user_pool_client(
            self.properties["UserPoolId"], self.physical_resource_id
        )


class UserPoolDomain(Resource, CloudFormationModel):
    TYPE = "AWS::Cognito::UserPoolDomain"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        cognitoidp_backends[account][region].create_user_pool_domain(properties["UserPoolId"], properties["Domain"])
        return str(properties["Domain"])

    def delete(self, account_id: str, region_name: str) -> None:
        cognitoidp_backends[account_id][region_name].delete_user_pool_domain(self.physical_resource_id)


class WorkGroup(Resource, CloudFormationModel):
    TYPE = "AWS::Athena::WorkGroup"

    @staticmethod
    def cloudformation_name_type() -> str:
        return "Name"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        configuration = dict(properties.get("WorkGroupConfiguration", {}))
        description = properties.get("Description", "")
        athena_backends[account][region].create_work_group(name, configuration, description, [])
        return name

    def delete(self, account_id: str, region_name: str) -> None:
        athena_backends[account_id][region_name].delete_work_group(self.physical_resource_id)


class NamedQuery(Resource, CloudFormationModel):
    TYPE = "AWS::Athena::NamedQuery"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        made = athena_backends[account][region].create_named_query(
            properties.get("Name", name),
            properties.get("Description", ""),
            properties["Database"],
            properties["QueryString"],
            properties.get("WorkGroup", "primary"),
        )
        return str(made)

    def delete(self, account_id: str, region_name: str) -> None:
        athena_backends[account_id][region_name].named_queries.pop(self.physical_resource_id, None)


class GlueDatabase(Resource, CloudFormationModel):
    TYPE = "AWS::Glue::Database"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        given = dict(properties["DatabaseInput"])
        glue_backends[account][region].create_database(given["Name"], given)
        return str(given["Name"])

    def delete(self, account_id: str, region_name: str) -> None:
        glue_backends[account_id][region_name].delete_database(self.physical_resource_id)


class GlueTable(Resource, CloudFormationModel):
    TYPE = "AWS::Glue::Table"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        given = dict(properties["TableInput"])
        glue_backends[account][region].create_table(properties["DatabaseName"], given["Name"], given)
        return str(given["Name"])

    def delete(self, account_id: str, region_name: str) -> None:
        with suppress(EntityNotFoundException):  # see BucketPolicy
            backend = glue_backends[account_id][region_name]
            backend.delete_table(self.properties["DatabaseName"], self.physical_resource_id)
