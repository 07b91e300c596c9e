"""The table of leases: the worker of the fleet that judges each training job."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from trackside.contracts.deployment.lease import OPEN_INDEX


class LeaseTable(dynamodb.Table):
    """The table of `trackside.contracts.deployment.lease`.

    It goes with its stack: a sweep finds each training job that runs without an evaluator, and opens its lease again.
    """

    def __init__(self, scope: Construct, construct_id: str, *, key: kms.IKey) -> None:
        super().__init__(
            scope,
            construct_id,
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute="expires_at",
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.add_global_secondary_index(
            index_name=OPEN_INDEX,
            partition_key=dynamodb.Attribute(name="shelf", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="free_at", type=dynamodb.AttributeType.NUMBER),
        )
