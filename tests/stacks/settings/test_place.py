"""What the settings take that say where a deployment stands; how an environment is named."""

from __future__ import annotations

from typing import Any

import pytest

from stacks.deployment_settings import DeploymentSettings
from tests.stacks.variants import HUB_OF_STAGING, KEY, SPOKE_OF_STAGING
from trackside.contracts.errors import ConfigurationError


def read(**given: Any) -> DeploymentSettings:
    return DeploymentSettings.from_context({f"trackside:{name}": value for name, value in given.items()})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        pytest.param("environment", "staging", id="an environment"),
        pytest.param("environment", "", id="no environment"),
        pytest.param("key_arn", KEY, id="a key"),
        pytest.param("key_arn", KEY.replace("arn:aws:", "arn:aws-us-gov:"), id="a key of GovCloud"),
        pytest.param("alarm_topic_arn", "arn:aws-cn:sns:cn-north-1:123456789012:ops", id="a topic of China"),
        pytest.param("permissions_boundary", "arn:aws:iam::123456789012:policy/team/b", id="a boundary in a path"),
        pytest.param("spoke_accounts", "123456789012,210987654321", id="spokes"),
        pytest.param("organization", "o-exampleorgid", id="an organization"),
    ],
)
def test_takes(name: str, given: str) -> None:
    assert read(**{name: given})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        pytest.param("environment", "Staging", id="capitals, which a repository's name may not have"),
        pytest.param("environment", "staging-", id="a dash at the end"),
        pytest.param("environment", "a" * 21, id="too long"),
        pytest.param("key_arn", "alias/trackside", id="an alias"),
        pytest.param("key_arn", "arn:aws:kms:us-east-1:123456789012:key/*", id="any key"),
        pytest.param("run_bucket", "s3://our-runs", id="an address for a bucket's name"),
        pytest.param("run_bucket", "our-runs/prefix", id="a prefix"),
        pytest.param("alarm_topic_arn", "ops", id="a topic's name"),
        pytest.param("permissions_boundary", "boundary", id="a boundary's name"),
        pytest.param("vpc_subnets", "vpc-0123456789abcdef0", id="a VPC for a subnet"),
        pytest.param("vpc_security_groups", ["sg-0123456789abcdef0"] * 2, id="a group twice"),
        pytest.param("spoke_accounts", "12345", id="no account"),
        pytest.param("hub_account", "arn:aws:iam::123456789012:root", id="an ARN for an account"),
        pytest.param("organization", "*", id="any organization"),
    ],
)
def test_refuses(name: str, given: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(**{name: given})
    assert raised.value.problems[0].where == f"trackside:{name}"


@pytest.mark.parametrize(
    ("given", "where"),
    [
        pytest.param({"vpc_subnets": "subnet-01234567"}, "vpc_security_groups", id="subnets alone"),
        pytest.param({"vpc_security_groups": "sg-01234567"}, "vpc_subnets", id="groups alone"),
        pytest.param({"functions_in_vpc": "true"}, "functions_in_vpc", id="functions in no VPC"),
        pytest.param({"run_bucket": "our-runs"}, "run_bucket", id="a bucket without its key"),
        pytest.param(
            {"hub_account": "123456789012", "spoke_accounts": "210987654321"}, "hub_account", id="hub and spoke"
        ),
        pytest.param(
            {"spoke_accounts": "210987654321", "event_bus_name": "b" * 41}, "event_bus_name", id="a bus for a role"
        ),
    ],
)
def test_refuses_what_does_not_go_together(given: dict[str, str], where: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(**given)
    assert [problem.where for problem in raised.value.problems] == [f"trackside:{where}"]


def test_an_environment_is_part_of_every_name() -> None:
    plain, staging = read(), read(environment="staging")
    assert (plain.event_bus_name, plain.stack_name("TracksideStorage")) == ("trackside", "TracksideStorage")
    assert staging.event_bus_name == "trackside-staging"
    assert staging.evaluator.repository == "trackside-evaluator-staging"
    assert staging.custom_rules.repository == "trackside-custom-rule-staging"
    assert staging.stack_name("TracksideStorage") == "Trackside-staging-Storage"


def test_the_variants_of_other_tests_are_right() -> None:
    assert DeploymentSettings.from_context(HUB_OF_STAGING).accounts.spoke_accounts
    assert DeploymentSettings.from_context(SPOKE_OF_STAGING).accounts.hub_account
