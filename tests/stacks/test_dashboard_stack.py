"""The dashboard of a team: who reaches what, and when its container starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from stacks.deployment_settings import DeploymentSettings
from tests.stacks.variants import GROUPS, SUBNETS
from trackside.contracts.errors import ConfigurationError

STACK = "TracksideDashboard"
HOST = {"trackside:team_dashboard_host": "runs.example.com"}
CERTIFICATE = {
    "trackside:team_dashboard_certificate_arn": "arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222"
}


@pytest.fixture(scope="module")
def parts(templates: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    return templates[STACK]


def of_type(parts: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {name: body["Properties"] for name, body in parts.items() if body["Type"] == kind}


def test_the_container_is_reached_by_its_balancer_alone(parts: Mapping[str, Any]) -> None:
    groups = of_type(parts, "AWS::EC2::SecurityGroup")
    (balancer,) = (name for name in groups if "Balancer" in name)
    (container,) = (name for name in groups if "Container" in name)
    (rule,) = groups[container]["SecurityGroupIngress"]
    assert rule["SourceSecurityGroupId"] == {"Fn::GetAtt": [balancer, "GroupId"]}
    assert "CidrIp" not in rule
    (service,) = of_type(parts, "AWS::ECS::Service").values()
    network = service["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["SecurityGroups"] == [{"Fn::GetAtt": [container, "GroupId"]}]


def test_only_tls_leads_in_and_only_after_a_sign_in(parts: Mapping[str, Any]) -> None:
    listeners = of_type(parts, "AWS::ElasticLoadBalancingV2::Listener").values()
    assert [(one["Protocol"], one["Port"]) for one in listeners] == [("HTTPS", 443)]
    assert "AWS::ElasticLoadBalancingV2::ListenerRule" not in {body["Type"] for body in parts.values()}
    (listener,) = listeners
    assert [action["Type"] for action in listener["DefaultActions"]] == ["authenticate-cognito", "forward"]
    assert listener["DefaultActions"][0]["AuthenticateCognitoConfig"]["OnUnauthenticatedRequest"] == "authenticate"


def test_the_container_checks_tokens_of_the_same_pool_and_client(parts: Mapping[str, Any]) -> None:
    (task,) = of_type(parts, "AWS::ECS::TaskDefinition").values()
    (pool,), (client,) = (of_type(parts, f"AWS::Cognito::{kind}") for kind in ("UserPool", "UserPoolClient"))
    (container,) = task["ContainerDefinitions"]
    words = container["Command"]
    assert words[words.index("--issuer") + 1] == {"Fn::GetAtt": [pool, "ProviderURL"]}
    assert words[words.index("--client") + 1] == {"Ref": client}
    assert "--keys" not in words


def test_its_role_reads_one_bucket_and_writes_nothing(parts: Mapping[str, Any]) -> None:
    (task,) = of_type(parts, "AWS::ECS::TaskDefinition").values()
    role = task["TaskRoleArn"]["Fn::GetAtt"][0]
    policies = [body for body in of_type(parts, "AWS::IAM::Policy").values() if body["Roles"] == [{"Ref": role}]]
    statements = [one for policy in policies for one in policy["PolicyDocument"]["Statement"]]
    assert sorted(one["Action"] for one in statements) == ["kms:Decrypt", "s3:GetObject", "s3:ListBucket"]
    for one in statements:
        assert one["Resource"] != "*"
        assert "TracksideStorage" in json.dumps(one["Resource"])


def test_the_container_starts_after_its_permissions_and_the_listener(parts: Mapping[str, Any]) -> None:
    (service,) = (body for body in parts.values() if body["Type"] == "AWS::ECS::Service")
    needed = {
        name
        for name, body in parts.items()
        if body["Type"] in ("AWS::ElasticLoadBalancingV2::Listener", "AWS::EC2::Route")
        or (body["Type"] == "AWS::IAM::Policy" and "FlowLog" not in name)
    }
    assert len(needed) >= 5
    assert needed <= set(service["DependsOn"])


WHOLE = {**HOST, **CERTIFICATE}
VPC = {"trackside:team_dashboard_vpc": "vpc-0123456789abcdef0"}
PLACES = {"trackside:vpc_subnets": ",".join(SUBNETS), "trackside:vpc_security_groups": ",".join(GROUPS)}
FROM = "trackside:team_dashboard_reached_from"


@pytest.mark.parametrize(
    ("context", "key"),
    [
        pytest.param(HOST, "team_dashboard_certificate_arn", id="without-a-certificate"),
        pytest.param(CERTIFICATE, "team_dashboard_host", id="without-a-name"),
        pytest.param({**WHOLE, **VPC}, "vpc_subnets", id="without-subnets"),
        pytest.param({**WHOLE, FROM: ""}, "team_dashboard_reached_from", id="for-nobody"),
        pytest.param({**WHOLE, FROM: "anywhere"}, "team_dashboard_reached_from", id="no-network"),
        pytest.param({**CERTIFICATE, "trackside:team_dashboard_host": "https://a.example"}, "host", id="an-address"),
        pytest.param({**CERTIFICATE, "trackside:team_dashboard_host": "runs"}, "host", id="half-a-name"),
    ],
)
def test_settings_that_cannot_work_are_refused(context: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigurationError, match=key):
        DeploymentSettings.from_context(context)


@pytest.mark.parametrize(
    "context",
    [
        pytest.param({}, id="none"),
        pytest.param(PLACES, id="a-vpc-and-no-dashboard"),
        pytest.param(WHOLE, id="with-a-network-of-its-own"),
        pytest.param({**WHOLE, **VPC, **PLACES}, id="in-a-vpc"),
        pytest.param({**WHOLE, **PLACES}, id="beside-a-vpc"),
        pytest.param({**WHOLE, FROM: "10.0.0.0/8,192.0.2.1/32"}, id="from-two-networks"),
        pytest.param({**WHOLE, "trackside:team_dashboard_prefix": "team/jobs"}, id="below-a-prefix"),
    ],
)
def test_settings_that_work_are_taken(context: dict[str, str]) -> None:
    assert bool(DeploymentSettings.from_context(context).team_dashboard.host) == (HOST.items() <= context.items())
