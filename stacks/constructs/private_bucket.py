"""A bucket without access from outside the account, encrypted, over TLS only, with its accesses logged."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

INCOMPLETE_UPLOAD_DAYS = 7


class PrivateBucket(s3.Bucket):
    """The bucket. Without `key` it is encrypted with S3's own key, the only one possible for access logs.

    `sends_object_events`: each object that is stored is an event on the account's default bus.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        keep: bool,
        expire_after_days: int,
        key: kms.IKey | None = None,
        access_log_bucket: s3.IBucket | None = None,
        sends_object_events: bool = False,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=True if key else None,
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            server_access_logs_bucket=access_log_bucket,
            server_access_logs_prefix="runs/" if access_log_bucket else None,
            lifecycle_rules=_lifecycle(expire_after_days),
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        if sends_object_events:
            # CDK's own way deploys a function that sets it; CloudFormation can do so itself.
            bucket = self.node.default_child
            assert isinstance(bucket, s3.CfnBucket)  # noqa: S101  for the type checker; CDK makes one
            event_configuration = {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
            bucket.add_property_override("NotificationConfiguration", event_configuration)


def _lifecycle(expire_after_days: int) -> list[s3.LifecycleRule]:
    abort = s3.LifecycleRule(
        id="AbortIncompleteUploads", abort_incomplete_multipart_upload_after=Duration.days(INCOMPLETE_UPLOAD_DAYS)
    )
    if not expire_after_days:
        return [abort]
    return [abort, s3.LifecycleRule(id="Expire", expiration=Duration.days(expire_after_days))]
