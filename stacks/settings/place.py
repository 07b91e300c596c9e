"""Settings of the place: the existing key, bucket, topics, policy and network that a deployment uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stacks.settings.setting import each_matching, empty_or, matching, setting

# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html: aws, aws-cn, aws-us-gov, and what may follow.
PARTITION = r"arn:aws(-[a-z]+)*"
MOST_SUBNETS, MOST_GROUPS = 16, 5  # API_VpcConfig of SageMaker

KEY = empty_or(
    matching(rf"{PARTITION}:kms:[a-z0-9-]+:\d{{12}}:key/[\w-]+", "'arn:aws:kms:eu-central-1:123456789012:key/…'")
)
_TOPIC = empty_or(
    matching(rf"{PARTITION}:sns:[a-z0-9-]+:\d{{12}}:[\w-]{{1,256}}", "'arn:aws:sns:eu-central-1:123456789012:ops'")
)
_POLICY = empty_or(
    matching(
        rf"{PARTITION}:iam::(\d{{12}}|aws):policy/[\w+=,.@/-]{{1,512}}", "'arn:aws:iam::123456789012:policy/boundary'"
    )
)


@dataclass(frozen=True)
class PlaceSettings:
    """Existing resources ("" or none: made by the deployment, or not used); docs/landing-zone.md.

    key_arn                 [an existing key](landing-zone.md#an-existing-key) for runs and messages
    run_bucket              [an existing bucket](landing-zone.md#an-existing-bucket) for runs
    alarm_topic_arn         [an existing topic](landing-zone.md#existing-topics) for alarms
    notification_topic_arn  an existing topic for the notices to owners
    permissions_boundary    [the policy](landing-zone.md#a-permissions-boundary) that bounds every role
    subnets                 of the processing jobs' [VPC](landing-zone.md#a-vpc)
    security_groups         of the processing jobs in it
    functions_in_vpc        `true`: the functions run in it, too
    """

    key_arn: str = setting("", KEY)
    run_bucket: str = setting("", empty_or(matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "'our-runs'")))
    alarm_topic_arn: str = setting("", _TOPIC)
    notification_topic_arn: str = setting("", _TOPIC)
    permissions_boundary: str = setting("", _POLICY)
    subnets: tuple[str, ...] = setting(
        (),
        each_matching(r"subnet-[0-9a-f]{8,17}", "a subnet", "subnet-0123456789abcdef0", MOST_SUBNETS),
        key="vpc_subnets",
    )
    security_groups: tuple[str, ...] = setting(
        (),
        each_matching(r"sg-[0-9a-f]{8,17}", "a security group", "sg-0123456789abcdef0", MOST_GROUPS),
        key="vpc_security_groups",
    )
    functions_in_vpc: bool = setting(False)


def vpc_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) of a VPC that is given in part. `values`: all, each of the right type."""
    subnets, groups = values["vpc_subnets"], values["vpc_security_groups"]
    if bool(subnets) != bool(groups):
        lacking = "vpc_security_groups" if subnets else "vpc_subnets"
        yield lacking, "must be set, too: a VPC is given by its subnets and security groups."
    if values["functions_in_vpc"] and not subnets:
        yield "functions_in_vpc", "needs vpc_subnets and vpc_security_groups."


def bucket_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) of a bucket without its key."""
    if values["run_bucket"] and not values["key_arn"]:
        yield "run_bucket", "needs key_arn: the key that the bucket encrypts with by default."
