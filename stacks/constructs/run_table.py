"""The table of runs, rules and verdicts: encrypted with our key, with restore to any second, paid by use."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.constructs.allow import allow
from trackside.contracts.deployment.run_table import SHELVES

# Actions of DynamoDB with the key on behalf of a reader or writer of items.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
KEY_ACTIONS = [
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
]


class RunTable(dynamodb.Table):
    """The table with items as in trackside.contracts.deployment.run_table. `keep`: it outlives its stack."""

    def __init__(self, scope: Construct, construct_id: str, *, key: kms.IKey, keep: bool) -> None:
        self._key = key
        super().__init__(
            scope,
            construct_id,
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute="expires_at",
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        self.add_global_secondary_index(
            index_name=SHELVES,
            partition_key=dynamodb.Attribute(name="shelf", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="created_at", type=dynamodb.AttributeType.NUMBER),
        )

    def let(self, function: lambda_.Function, *actions: str, why: str, and_shelves: bool = False) -> None:
        """Let the function do `actions` (`GetItem`, ...) with items; `and_shelves`: also read the index."""
        index = [f"{self.table_arn}/index/{SHELVES}"] if and_shelves else []
        named = [f"dynamodb:{action}" for action in actions]
        allow(function, "UseTheTableOfRuns", named, [self.table_arn, *index], why=why)
        through_dynamodb = f"dynamodb.{Stack.of(function).region}.amazonaws.com"
        allow(
            function,
            "OpenTheTableOfRuns",
            KEY_ACTIONS,
            [self._key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": through_dynamodb}},
            why="DynamoDB uses the key of the table in the name of whoever reads or writes it.",
        )
