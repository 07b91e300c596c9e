"""A cloud assembly, deployed in process."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from trackside_localaccount import moto_cloudformation
from trackside_localaccount.deploy import DeploymentError, deploy

BUCKET = "cdk-hnb659fds-assets-123456789012-eu-west-1"


class InProcessAccount:
    """moto in this process stands for the account; a region other than the default shows that none is assumed."""

    def client(self, service: str) -> Any:
        return boto3.client(
            service, region_name="eu-west-1", aws_access_key_id="testing", aws_secret_access_key="testing"
        )


@pytest.fixture
def account() -> Iterator[InProcessAccount]:
    moto_cloudformation.apply()
    with mock_aws():
        yield InProcessAccount()


def write_assembly(folder: Path, **stacks: dict[str, Any]) -> Path:
    """A small assembly as CDK lays it out; each stack depends on the one before, but stands before it in the file."""
    artifacts: dict[str, Any] = {}
    (folder / "asset.code").mkdir()
    (folder / "asset.code" / "handler.py").write_text("def handle(event, context): ...")
    before: list[str] = []
    for name, template in stacks.items():
        (folder / f"{name}.template.json").write_text(json.dumps(template))
        file = {
            "source": {"path": "asset.code", "packaging": "zip"},
            "destinations": {
                "current": {
                    "bucketName": "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}",
                    "objectKey": "code.zip",
                }
            },
        }
        (folder / f"{name}.assets.json").write_text(json.dumps({"files": {"code": file}}))
        entry = {
            f"{name}.assets": {"type": "cdk:asset-manifest", "properties": {"file": f"{name}.assets.json"}},
            name: {
                "type": "aws:cloudformation:stack",
                "dependencies": [*before, f"{name}.assets"],
                "properties": {"templateFile": f"{name}.template.json"},
            },
        }
        artifacts = {**entry, **artifacts}
        before = [name]
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return folder


def stack(**resources: Any) -> dict[str, Any]:
    version = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/hnb659fds/version"}
    return {"Parameters": {"BootstrapVersion": version}, "Resources": resources}


def test_deploys_in_the_order_of_dependencies_and_returns_the_outputs(
    account: InProcessAccount, tmp_path: Path
) -> None:
    first = stack(Queue={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "one"}})
    first["Outputs"] = {"Name": {"Value": {"Fn::GetAtt": ["Queue", "QueueName"]}, "Export": {"Name": "shared"}}}
    second = stack(Topic={"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": {"Fn::ImportValue": "shared"}}})
    second["Outputs"] = {"Arn": {"Value": {"Ref": "Topic"}}}
    outputs = deploy(write_assembly(tmp_path, First=first, Second=second), account)
    assert list(outputs) == ["First", "Second"]
    assert outputs["First"] == {"Name": "one"}
    attributes = account.client("sns").get_topic_attributes(TopicArn=outputs["Second"]["Arn"])["Attributes"]
    assert attributes["DisplayName"] == "one"


def test_uploads_folders_as_archives(account: InProcessAccount, tmp_path: Path) -> None:
    deploy(write_assembly(tmp_path, Only=stack(Queue={"Type": "AWS::SQS::Queue"})), account)
    body = account.client("s3").get_object(Bucket=BUCKET, Key="code.zip")["Body"].read()
    assert zipfile.ZipFile(io.BytesIO(body)).namelist() == ["handler.py"]


def test_a_stack_that_does_not_come_up_is_named_with_the_reason(account: InProcessAccount, tmp_path: Path) -> None:
    bad = stack(Topic={"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "no spaces allowed"}})
    with pytest.raises(DeploymentError, match=r"The stack Bad is ROLLBACK_COMPLETE: .*Topic names"):
        deploy(write_assembly(tmp_path, Bad=bad), account)
    assert account.client("sns").list_topics()["Topics"] == []


def test_a_second_deployment_into_the_same_account_says_that_the_stack_exists(
    account: InProcessAccount, tmp_path: Path
) -> None:
    folder = write_assembly(tmp_path, Only=stack(Queue={"Type": "AWS::SQS::Queue"}))
    deploy(folder, account)
    with pytest.raises(account.client("cloudformation").exceptions.AlreadyExistsException):
        deploy(folder, account)
