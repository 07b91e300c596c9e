"""Which values the settings take that say where a deployment stands, and what is there already."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stacks.setting_checks import matching

# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html: aws, aws-cn, aws-us-gov, and what may follow.
PARTITION = r"arn:aws(-[a-z]+)*"
MOST_SUBNETS, MOST_GROUPS = 16, 5  # API_VpcConfig of SageMaker
MOST_SPOKES = 50  # each is a principal of the bus's policy, which holds 10,240 characters
MOST_BUS_CHARACTERS_WITH_SPOKES = 40  # roles are named after it and the region, with at most 64 characters


def _or_none(pattern: str, example: str) -> Callable[[str], None]:
    check = matching(pattern, example)
    return lambda value: check(value) if value else None


def _each(name: str, pattern: str, example: str, most: int) -> Callable[[tuple[str, ...]], None]:
    def check(value: tuple[str, ...]) -> None:
        wrong = [item for item in value if not re.fullmatch(pattern, item)]
        if wrong:
            raise ValueError(f"not {name} like {example}: {', '.join(wrong)}")
        if len(set(value)) < len(value) or len(value) > most:
            raise ValueError(f"at most {most}, each once")

    return check


_KEY = _or_none(rf"{PARTITION}:kms:[a-z0-9-]+:\d{{12}}:key/[\w-]+", "'arn:aws:kms:eu-central-1:123456789012:key/…'")
_TOPIC = _or_none(rf"{PARTITION}:sns:[a-z0-9-]+:\d{{12}}:[\w-]{{1,256}}", "'arn:aws:sns:eu-central-1:123456789012:ops'")

PLACE_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "environment": _or_none(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?", "'staging', of at most 20 characters"),
    "key_arn": _KEY,
    "run_bucket": _or_none(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "'our-runs'"),
    "alarm_topic_arn": _TOPIC,
    "notification_topic_arn": _TOPIC,
    "permissions_boundary": _or_none(
        rf"{PARTITION}:iam::(\d{{12}}|aws):policy/[\w+=,.@/-]{{1,512}}", "'arn:aws:iam::123456789012:policy/boundary'"
    ),
    "vpc_subnets": _each("a subnet", r"subnet-[0-9a-f]{8,17}", "subnet-0123456789abcdef0", MOST_SUBNETS),
    "vpc_security_groups": _each("a security group", r"sg-[0-9a-f]{8,17}", "sg-0123456789abcdef0", MOST_GROUPS),
    "evaluator_volume_key_arn": _KEY,
    "spoke_accounts": _each("an account", r"\d{12}", "123456789012", MOST_SPOKES),
    "hub_account": _or_none(r"\d{12}", "'123456789012'"),
    "organization": _or_none(r"o-[a-z0-9]{10,32}", "'o-exampleorgid'"),
}


def combination_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(setting, what is wrong with it beside the others). `values`: those that are right by themselves."""
    subnets, groups = values.get("vpc_subnets"), values.get("vpc_security_groups")
    if bool(subnets) != bool(groups):
        lacking = "vpc_security_groups" if subnets else "vpc_subnets"
        yield lacking, "must be set, too: a VPC is given by its subnets and security groups."
    if values.get("functions_in_vpc") and not subnets:
        yield "functions_in_vpc", "needs vpc_subnets and vpc_security_groups."
    if values.get("hub_account") and values.get("spoke_accounts"):
        yield "hub_account", "makes this a spoke, which has no spoke_accounts of its own."
    bus = f"{values.get('event_bus_name', 'trackside')}-{values.get('environment', '')}"
    if (values.get("spoke_accounts") or values.get("hub_account")) and len(bus) > MOST_BUS_CHARACTERS_WITH_SPOKES:
        yield (
            "event_bus_name",
            f"must have at most {MOST_BUS_CHARACTERS_WITH_SPOKES - 1} characters, environment and all.",
        )
    if values.get("run_bucket") and not values.get("key_arn"):
        yield "run_bucket", "needs key_arn: the key that the bucket encrypts with by default."
