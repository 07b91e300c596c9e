"""Deployments that differ from cdk.json's: what several test files synthesize, once each (`stacks.assembly`)."""

from __future__ import annotations

from collections.abc import Mapping

ACCOUNT, SPOKE_ACCOUNT, ORGANIZATION = "123456789012", "210987654321", "o-exampleorgid"
RUN_BUCKET = "our-runs"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
VOLUME_KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/66666666-7777-8888-9999-000000000000"
ALARM_TOPIC, NOTIFICATION_TOPIC = (f"arn:aws:sns:us-east-1:{ACCOUNT}:{name}" for name in ("ops", "owners"))
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
BOUNDARY_OF_SPOKE = f"arn:aws:iam::{SPOKE_ACCOUNT}:policy/boundary"
SUBNETS, GROUPS = ("subnet-0123456789abcdef0", "subnet-0123456789abcdef1"), ("sg-0123456789abcdef0",)

# Watches in every way, with rules of its own.
WATCHING: Mapping[str, str] = {
    "trackside:custom_rules_from": "s3://rules-bucket/approved",
    "trackside:watched_jobs": "nightly-*",
    "trackside:watch_by_environment": "true",
}
# Into what is there already: an environment `staging`, which is a hub, too.
HUB_OF_STAGING: Mapping[str, str] = {
    "trackside:environment": "staging",
    "trackside:key_arn": KEY,
    "trackside:run_bucket": RUN_BUCKET,
    "trackside:alarm_topic_arn": ALARM_TOPIC,
    "trackside:notification_topic_arn": NOTIFICATION_TOPIC,
    "trackside:permissions_boundary": BOUNDARY,
    "trackside:vpc_subnets": ",".join(SUBNETS),
    "trackside:vpc_security_groups": ",".join(GROUPS),
    "trackside:functions_in_vpc": "true",
    "trackside:evaluator_volume_key_arn": VOLUME_KEY,
    "trackside:evaluator_encrypts_traffic": "true",
    "trackside:custom_rules_from": "s3://rules-bucket/approved",
    "trackside:spoke_accounts": SPOKE_ACCOUNT,
    "trackside:organization": ORGANIZATION,
}
SPOKE_OF_STAGING: Mapping[str, str] = {
    "trackside:environment": "staging",
    "trackside:hub_account": ACCOUNT,
    "trackside:permissions_boundary": BOUNDARY_OF_SPOKE,
    "trackside:organization": ORGANIZATION,
}
