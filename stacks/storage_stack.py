"""Storage of runs and of their record: one private bucket, one table, and the key that encrypts both."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.private_bucket import PrivateBucket
from stacks.constructs.run_table import RunTable
from stacks.deployment_settings import DeploymentSettings
from stacks.existing_resources import NONE_EXISTS, ExistingResources
from stacks.outputs import output
from stacks.spokes import let_spokes_write_runs
from trackside.contracts.deployment.evaluators import FLEET

ACCESS_LOG_DAYS = 90


class Storage:
    """The parts of storage.

    - `runs`: the bucket
    - `table`: the table of runs, rules and verdicts
    - `key`: the key of both, and of the topics of the other stacks
    """

    def __init__(
        self, scope: Construct, *, settings: DeploymentSettings, existing: ExistingResources = NONE_EXISTS
    ) -> None:
        self._scope, self._existing = scope, existing
        self.key = self._create_key(settings)
        self.runs = self._create_runs(settings)
        let_spokes_write_runs(self.runs, self.key, settings)
        self.table = RunTable(self._scope, "RunTable", key=self.key, keep=settings.keep_data)
        output(
            self._scope, "RunBucketName", value=self.runs.bucket_name, description="Runs lie at s3://<this>/<prefix>"
        )
        output(self._scope, "KeyArn", value=self.key.key_arn, description="Training jobs' roles need it to write runs")
        output(self._scope, "RunTableName", value=self.table.table_name, description="What `trackside aws` reads")

    def _create_key(self, settings: DeploymentSettings) -> kms.IKey:
        if self._existing.key:
            return self._existing.key
        if settings.place.key_arn:
            return kms.Key.from_key_arn(self._scope, "Key", settings.place.key_arn)
        key = kms.Key(
            self._scope,
            "Key",
            description="Trackside: runs and messages",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN if settings.keep_data else RemovalPolicy.DESTROY,
        )
        self._let_alarms_reach_encrypted_topics(key)
        return key

    def _create_runs(self, settings: DeploymentSettings) -> s3.IBucket:
        if self._existing.bucket:
            return self._existing.bucket
        if settings.place.run_bucket:
            return s3.Bucket.from_bucket_name(self._scope, "Runs", settings.place.run_bucket)
        access_logs = PrivateBucket(
            self._scope, "AccessLogs", keep=settings.keep_data, expire_after_days=ACCESS_LOG_DAYS
        )
        return PrivateBucket(
            self._scope,
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
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self._scope).account}},
            )
        )
