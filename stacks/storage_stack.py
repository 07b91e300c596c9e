"""Storage of runs and of their record: one private bucket, one table, and the key that encrypts both."""

from __future__ import annotations

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.private_bucket import PrivateBucket
from stacks.constructs.run_table import RunTable
from stacks.deployment_settings import DeploymentSettings
from stacks.spokes import let_spokes_write_runs
from trackside.contracts.deployment.evaluators import FLEET

ACCESS_LOG_DAYS = 90


class StorageStack(Stack):
    """The stack of storage.

    - `runs`: the bucket
    - `table`: the table of runs, rules and verdicts
    - `key`: the key of both, and of the topics of the other stacks
    """

    def __init__(self, scope: Construct, construct_id: str, *, settings: DeploymentSettings) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=settings.stack_name(construct_id),
            description="Trackside: where runs lie",
            termination_protection=settings.keep_data,
        )
        self.key = self._create_key(settings)
        self.runs = self._create_runs(settings)
        let_spokes_write_runs(self.runs, self.key, settings)
        self.table = RunTable(self, "RunTable", key=self.key, keep=settings.keep_data)
        CfnOutput(self, "RunBucketName", value=self.runs.bucket_name, description="Runs lie at s3://<this>/<prefix>")
        CfnOutput(self, "KeyArn", value=self.key.key_arn, description="Training jobs' roles need it to write runs")
        CfnOutput(self, "RunTableName", value=self.table.table_name, description="What `trackside aws` reads")

    def _create_key(self, settings: DeploymentSettings) -> kms.IKey:
        if settings.place.key_arn:
            return kms.Key.from_key_arn(self, "Key", settings.place.key_arn)
        key = kms.Key(
            self,
            "Key",
            description="Trackside: runs and messages",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN if settings.keep_data else RemovalPolicy.DESTROY,
        )
        self._let_alarms_reach_encrypted_topics(key)
        return key

    def _create_runs(self, settings: DeploymentSettings) -> s3.IBucket:
        if settings.place.run_bucket:
            return s3.Bucket.from_bucket_name(self, "Runs", settings.place.run_bucket)
        access_logs = PrivateBucket(self, "AccessLogs", keep=settings.keep_data, expire_after_days=ACCESS_LOG_DAYS)
        return PrivateBucket(
            self,
            "Runs",
            key=self.key,
            access_log_bucket=access_logs,
            keep=settings.keep_data,
            expire_after_days=settings.retention.run_days,
            sends_object_events=settings.evaluator.mode == FLEET,
        )

    def _let_alarms_reach_encrypted_topics(self, key: kms.Key) -> None:
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsReachEncryptedTopics",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],  # in a key's own policy that is this key
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
