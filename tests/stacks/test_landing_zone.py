"""A deployment into what is there already, of a hub and of its spoke: walks over all that they would make."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from docs.permissions import LARGEST
from stacks.assembly import assembly
from stacks.deployment_settings import DeploymentSettings
from stacks.paths import ROOT
from stacks.settings.accounts import AccountSettings
from stacks.spoke_stack import SpokeStack
from stacks.storage_stack import Storage
from tests.stacks.variants import (
    ACCOUNT,
    ALARM_TOPIC,
    BOUNDARY,
    BOUNDARY_OF_SPOKE,
    GROUPS,
    HUB_OF_STAGING,
    NOTIFICATION_TOPIC,
    ORGANIZATION,
    SPOKE_ACCOUNT,
    SPOKE_OF_STAGING,
    SUBNETS,
    VOLUME_KEY,
)

Resources = Mapping[str, Mapping[str, Any]]
PLACE = {"AWS::Partition": "aws-cn", "AWS::Region": "cn-north-1", "AWS::URLSuffix": "amazonaws.com.cn"}
CERTIFICATE = LARGEST["trackside:team_dashboard_certificate_arn"]
GIVEN = [
    ALARM_TOPIC,
    NOTIFICATION_TOPIC,
    BOUNDARY,
    BOUNDARY_OF_SPOKE,
    HUB_OF_STAGING["trackside:key_arn"],
    LARGEST["trackside:resume_roles"],
    VOLUME_KEY,
    CERTIFICATE,
]


def read(folder: Path) -> Resources:
    return {
        f"{path.name.split('.')[0]}/{name}": body
        for path in sorted(folder.glob("*.template.json"))
        for name, body in json.loads(path.read_text())["Resources"].items()
    }


@pytest.fixture(scope="session")
def hub() -> Resources:
    return read(assembly(HUB_OF_STAGING))


@pytest.fixture(scope="session")
def spoke() -> Resources:
    return read(assembly(SPOKE_OF_STAGING))


def of_type(resources: Resources, kind: str) -> dict[str, Mapping[str, Any]]:
    return {name: body["Properties"] for name, body in resources.items() if body["Type"] == kind}


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


def test_what_is_there_is_not_made_again(hub: Resources) -> None:
    made = {body["Type"] for body in hub.values()}
    assert not {"AWS::KMS::Key", "AWS::S3::Bucket", "AWS::S3::BucketPolicy"} & made
    (topic,) = of_type(hub, "AWS::SNS::Topic")
    assert "IssueAlarms" in topic  # incident workflows: nothing that is there stands for it


def test_alarms_and_owners_are_told_on_the_topics_that_are_there(hub: Resources) -> None:
    alarms = of_type(hub, "AWS::CloudWatch::Alarm")
    others = {name for name, body in alarms.items() if body["AlarmActions"] != [ALARM_TOPIC]}
    assert {name.split("/")[1][:11] for name in others} == {"IssuesFound"}
    told = {v for body in of_type(hub, "AWS::Lambda::Function").values() for v in texts(body["Environment"])}
    assert NOTIFICATION_TOPIC in told


@pytest.mark.parametrize("which", ["hub", "spoke"])
def test_every_role_is_bounded(which: str, request: pytest.FixtureRequest) -> None:
    roles = of_type(request.getfixturevalue(which), "AWS::IAM::Role")
    assert len(roles) >= (8 if which == "hub" else 2)
    boundary = BOUNDARY if which == "hub" else BOUNDARY_OF_SPOKE
    assert {name for name, body in roles.items() if body.get("PermissionsBoundary") != boundary} == set()


def test_every_function_is_in_the_vpc_and_may_join_it(hub: Resources) -> None:
    functions = of_type(hub, "AWS::Lambda::Function")
    wanted = {"SubnetIds": list(SUBNETS), "SecurityGroupIds": list(GROUPS)}
    assert {name for name, body in functions.items() if body.get("VpcConfig") != wanted} == set()
    joining = [s for p in of_type(hub, "AWS::IAM::Policy").values() for s in p["PolicyDocument"]["Statement"]]
    assert sum(s.get("Sid") == "JoinTheVpc" for s in joining) == len(functions) + 2  # and the roles of both images


def test_without_a_vpc_no_function_has_needless_network(resources: Mapping[str, Any]) -> None:
    functions = [body for body in resources.values() if body["Type"] == "AWS::Lambda::Function"]
    assert len(functions) > 5
    assert not any("VpcConfig" in body["Properties"] for body in functions)
    assert "ec2:" not in json.dumps(list(resources.values()))
    assert not any(body["Type"] in ("AWS::Lambda::Url", "AWS::Lambda::Permission") for body in resources.values())


def test_the_key_of_the_disks_is_granted_to_sagemaker_only(hub: Resources) -> None:
    found = [
        s
        for p in of_type(hub, "AWS::IAM::Policy").values()
        for s in p["PolicyDocument"]["Statement"]
        if VOLUME_KEY in texts(s["Resource"])
    ]
    assert len(found) == 2
    for statement in found:
        assert statement["Action"] == "kms:CreateGrant"
        assert statement["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


@pytest.mark.parametrize("which", ["resources", "hub", "spoke"])
def test_no_arn_names_a_partition_a_region_or_an_account_that_nobody_gave(
    which: str, request: pytest.FixtureRequest
) -> None:
    """So the same code stands in aws, aws-cn and aws-us-gov, and in any region."""
    for name, body in request.getfixturevalue(which).items():
        for text in texts(body["Properties"]):
            rest = text
            for given in (*GIVEN, SPOKE_ACCOUNT, ACCOUNT):
                rest = rest.replace(given, "")
            for word in ("arn:aws", "us-east-1", "123456789012"):
                assert word not in rest, f"{name}: {text}"


@pytest.mark.parametrize("which", ["resources", "hub", "spoke"])
def test_every_arn_is_of_the_partition_and_region_that_it_is_deployed_to(
    which: str, request: pytest.FixtureRequest
) -> None:
    arns = [
        filled
        for body in request.getfixturevalue(which).values()
        for value in joined(body["Properties"])
        if (filled := fill_in(value)).startswith("arn:")
    ]
    assert len(arns) > 5
    for arn in arns:
        assert arn.startswith("arn:aws-cn:"), arn
        region = arn.split(":")[3]
        assert region in ("cn-north-1", ""), arn


def joined(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, Mapping):
        if "Fn::Join" in value:
            yield value["Fn::Join"][1]
        for inner in value.values():
            yield from joined(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from joined(inner)


def fill_in(parts: list[Any]) -> str:
    return "".join(p if isinstance(p, str) else PLACE.get(p.get("Ref", ""), "<later>") for p in parts)


def test_a_spoke_that_is_given_a_topic_says_what_its_hub_did_not_take() -> None:
    app = cdk.App()
    given = {**SPOKE_OF_STAGING, "trackside:alarm_topic_arn": ALARM_TOPIC}
    stack = SpokeStack(app, "TracksideSpoke", settings=DeploymentSettings.from_context(given))
    (alarm,) = Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm").values()
    assert alarm["Properties"]["AlarmActions"] == [ALARM_TOPIC]
    assert "DeadLetters" in str(alarm["Properties"]["Dimensions"])


def test_a_spoke_lets_the_hub_do_one_thing(spoke: Resources) -> None:
    roles = of_type(spoke, "AWS::IAM::Role")
    (stop,) = [body for name, body in roles.items() if "Stop" in name]
    (trust,) = stop["AssumeRolePolicyDocument"]["Statement"]
    assert ACCOUNT in str(trust["Principal"])
    assert trust["Condition"]["StringEquals"] == {
        "sts:ExternalId": "trackside-staging",
        "aws:PrincipalOrgID": ORGANIZATION,
    }
    assert "role/trackside-staging-hub-stop-" in str(trust["Condition"]["ArnEquals"])
    allowed = [
        (s["Action"], s.get("Condition"))
        for name, p in of_type(spoke, "AWS::IAM::Policy").items()
        if "Stop" in name
        for s in p["PolicyDocument"]["Statement"]
    ]
    both = ["*StopTraining*", "*ResumeTraining*"]  # each of them stops
    asks = {"StringLike": {"aws:ResourceTag/trackside:actions": both}}  # of SageMaker Debugger's rules
    assert allowed == [
        ("sagemaker:StopTrainingJob", {"Null": {"aws:ResourceTag/trackside:run": "false"}}),
        ("sagemaker:StopTrainingJob", asks),
        ("sagemaker:DescribeTrainingJob", None),  # when a job stopped, for a request without an answer
    ]


def test_the_hub_enters_no_other_role_and_no_other_account(hub: Resources) -> None:
    entering = [
        (name, s)
        for name, p in of_type(hub, "AWS::IAM::Policy").items()
        for s in p["PolicyDocument"]["Statement"]
        if s["Action"] == "sts:AssumeRole"
    ]
    ((name, statement),) = entering
    assert "StopTraining" in name
    where = fill_in(next(joined(statement["Resource"])))
    assert where == f"arn:aws-cn:iam::{SPOKE_ACCOUNT}:role/trackside-staging-spoke-cn-north-1"
    (role,) = [b["RoleName"] for b in of_type(hub, "AWS::IAM::Role").values() if "RoleName" in b]
    assert fill_in(role["Fn::Join"][1]) == "trackside-staging-hub-stop-cn-north-1"


def test_spokes_send_events_of_sagemaker_and_nothing_else(hub: Resources) -> None:
    policies = [body["Statement"] for body in of_type(hub, "AWS::Events::EventBusPolicy").values()]
    (statement,) = [each for each in policies if each["Effect"] == "Allow"]
    assert SPOKE_ACCOUNT in str(statement["Principal"])
    assert statement["Action"] == "events:PutEvents"
    assert statement["Condition"] == {
        "StringEquals": {
            "events:source": "aws.sagemaker",
            "events:detail-type": "SageMaker Training Job State Change",
            "aws:PrincipalOrgID": ORGANIZATION,
        }
    }


def test_a_spoke_writes_runs_below_its_own_number_only() -> None:
    settings = DeploymentSettings(accounts=AccountSettings(spoke_accounts=(SPOKE_ACCOUNT,), organization=ORGANIZATION))
    app = cdk.App(context=json.loads((ROOT / "cdk.json").read_text())["context"])
    stack = cdk.Stack(app, "TracksideStorage")
    Storage(stack, settings=settings)
    template = Template.from_stack(stack).to_json()

    def theirs(kind: str, document: str) -> dict[str, Any]:
        return {
            s["Sid"]: s
            for body in template["Resources"].values()
            if body["Type"] == kind
            for s in body["Properties"][document]["Statement"]
            if SPOKE_ACCOUNT in str(s.get("Principal"))
        }

    of_bucket = theirs("AWS::S3::BucketPolicy", "PolicyDocument")
    write, see = of_bucket[f"RunsOf{SPOKE_ACCOUNT}"], of_bucket[f"ListRunsOf{SPOKE_ACCOUNT}"]
    assert len(of_bucket) == 2
    assert write["Action"] == ["s3:GetObject", "s3:PutObject"]
    assert fill_in(write["Resource"]["Fn::Join"][1]).endswith(f"/{SPOKE_ACCOUNT}/*")
    assert see["Condition"]["StringLike"] == {"s3:prefix": f"{SPOKE_ACCOUNT}/*"}
    (use,) = theirs("AWS::KMS::Key", "KeyPolicy").values()
    assert use["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    for statement in (write, see, use):
        assert statement["Condition"]["StringEquals"]["aws:PrincipalOrgID"] == ORGANIZATION
