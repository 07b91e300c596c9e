"""Resource types that stock moto's CloudFormation skips with no more than a warning.

Importing this module registers them: moto looks for direct subclasses of `CloudFormationModel`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.common_models import CloudFormationModel
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
