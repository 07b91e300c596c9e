from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trackside_localaccount.strict.templates import RefusedTemplateError, check_template, parsed_template

PREVIOUS = Path(__file__).parents[3] / "stacks" / "previous"
TRUST = {"Version": "2012-10-17", "Statement": []}
CODE = {"ZipFile": "x"}
ROLE = {"Fn::GetAtt": ["Role", "Arn"]}


def refusal(resources: dict[str, Any], *capabilities: str) -> str:
    try:
        check_template({"Resources": resources}, capabilities=list(capabilities), region="us-east-1")
    except RefusedTemplateError as error:
        return f"{error.code}: {error}"
    return ""


def one(kind: str, **properties: Any) -> dict[str, Any]:
    return {"One": {"Type": kind, "Properties": properties}}


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        pytest.param(one("AWS::Nix::Da"), "Unrecognized resource types: [AWS::Nix::Da]", id="type"),
        pytest.param(one("AWS::SQS::Queue", Colour="red"), "extraneous key [Colour] is not permitted", id="property"),
        pytest.param(
            one("AWS::S3::Bucket", VersioningConfiguration={"Colour": 1}),
            "#/VersioningConfiguration: extraneous key [Colour]",
            id="property, deeper",
        ),
        pytest.param(one("AWS::Logs::LogGroup", RetentionInDays=31), "#/RetentionInDays: 31 is not a valid", id="enum"),
        pytest.param(
            one("AWS::DynamoDB::Table", KeySchema=[], BillingMode="FREE"),
            "#/BillingMode: FREE is not a",
            id="enum, text",
        ),
        pytest.param(
            one("AWS::Lambda::Function", Code=CODE, Role=ROLE, MemorySize=64),
            "64 is not greater or equal to 128",
            id="min",
        ),
        pytest.param(
            one("AWS::Lambda::Function", Code=CODE, Role=ROLE, MemorySize="64"), "64 is not greater", id="min, as text"
        ),
        pytest.param(one("AWS::Lambda::Function", Role=ROLE), "'Code' is a required property", id="missing"),
        pytest.param(one("AWS::SQS::Queue", DelaySeconds="soon"), "expected type: integer", id="type of a value"),
        pytest.param(one("AWS::SQS::Queue", Tags={}), "expected type: array", id="an object for a list"),
        pytest.param(one("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST), "[CAPABILITY_IAM]", id="capability"),
        pytest.param(
            one("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST, RoleName="r"), "CAPABILITY_NAMED_IAM", id="of a name"
        ),
    ],
)
def test_what_is_refused(resources: dict[str, Any], says: str) -> None:
    assert says in refusal(resources)


@pytest.mark.parametrize(
    ("resources", "capabilities"),
    [
        pytest.param(one("AWS::SQS::Queue"), [], id="no properties"),
        pytest.param(one("AWS::SQS::Queue", DelaySeconds="5", QueueName={"Ref": "Name"}), [], id="texts and functions"),
        pytest.param(one("AWS::SQS::Queue", FifoQueue="true"), [], id="a boolean as text"),
        pytest.param(one("AWS::SQS::Queue", Tags={"Fn::If": ["C", [], []]}), [], id="a function for a list"),
        pytest.param(one("AWS::Logs::LogGroup", RetentionInDays="30"), [], id="a number of an enum, as text"),
        pytest.param(one("AWS::CDK::Metadata", Analytics="x"), [], id="CDK's own"),
        pytest.param(one("Custom::Anything", ServiceToken="x", More=1), [], id="a custom resource"),
        pytest.param(one("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST), ["CAPABILITY_IAM"], id="capability"),
        pytest.param(
            one("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST, RoleName="r"),
            ["CAPABILITY_NAMED_IAM"],
            id="of a name",
        ),
    ],
)
def test_what_is_taken(resources: dict[str, Any], capabilities: list[str]) -> None:
    assert refusal(resources, *capabilities) == ""


@pytest.mark.parametrize("path", sorted(PREVIOUS.glob("*.template.json")), ids=lambda path: path.name.split(".")[0])
def test_a_real_deployment_is_taken(path: Path) -> None:
    template = parsed_template(path.read_text(encoding="utf-8"))

    assert refusal(dict(template["Resources"]), "CAPABILITY_NAMED_IAM") == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("{]", "YAML not well-formed", id="neither JSON nor YAML"),
        pytest.param("{}", "At least one Resources member", id="no resources"),
        pytest.param(
            "Resources: !!python/object/apply:os.system ['true']", "every resource needs a Type", id="a tag of Python"
        ),
    ],
)
def test_texts_that_are_no_template(text: str, says: str) -> None:
    with pytest.raises(RefusedTemplateError, match=says):
        parsed_template(text)


def test_short_forms_of_yaml() -> None:
    template = parsed_template(
        "Resources:\n  Q:\n    Type: AWS::SQS::Queue\n    Properties:\n      QueueName: !Ref Name\n"
    )

    assert template["Resources"]["Q"]["Properties"] == {"QueueName": {"Ref": "Name"}}


def test_the_account_refuses_a_stack_and_a_change_set(bench: Any) -> None:
    cloudformation = bench.account.client("cloudformation")
    body = json.dumps({"Resources": one("AWS::SQS::Queue", Colour="red")})
    named = json.dumps({"Resources": one("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST)})

    with pytest.raises(cloudformation.exceptions.ClientError, match="extraneous key"):
        cloudformation.create_stack(StackName="wrong", TemplateBody=body)
    with pytest.raises(cloudformation.exceptions.ClientError, match="extraneous key"):
        cloudformation.create_change_set(
            StackName="wrong", TemplateBody=body, ChangeSetName="c", ChangeSetType="CREATE"
        )
    with pytest.raises(cloudformation.exceptions.InsufficientCapabilitiesException, match="CAPABILITY_IAM"):
        cloudformation.create_stack(StackName="wrong", TemplateBody=named)

    assert cloudformation.list_stacks()["StackSummaries"] == []
