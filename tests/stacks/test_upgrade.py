"""From the last landed version to this one: nothing that holds data is made anew, given another name, or let go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stacks.assembly import assembly
from tests.stacks.previous_version import read_templates

# What holds something that cannot be made again, or that others know by its name; and the properties whose change makes
# CloudFormation replace it ("Update requires: Replacement" of
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-template-resource-type-ref.html).
STATEFUL: Mapping[str, tuple[str, ...]] = {
    "AWS::DynamoDB::Table": ("TableName", "KeySchema", "ImportSourceSpecification"),
    "AWS::ECR::Repository": ("RepositoryName", "EncryptionConfiguration"),
    "AWS::Events::Archive": ("ArchiveName", "SourceArn", "KmsKeyIdentifier"),
    "AWS::Events::EventBus": ("Name",),
    "AWS::KMS::Key": ("KeySpec", "KeyUsage", "MultiRegion", "Origin"),
    "AWS::Logs::LogGroup": ("LogGroupName",),
    "AWS::S3::Bucket": ("BucketName", "ObjectLockEnabled"),
    "AWS::SNS::Topic": ("FifoTopic", "TopicName"),
    "AWS::SQS::Queue": ("FifoQueue", "QueueName"),
    "AWS::SSM::Parameter": ("Name", "Type", "DataType"),
}
HOLDS_RUNS = ("AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::S3::Bucket")
# Functions that were dropped on purpose, with queues of messages on their way (docs/decisions/0061-fewer-resources.md).
# Their work goes on in another function of the same stack, which takes it over before they are deleted.
DROPPED = {
    f"{stack}/{name}{part}"
    for stack, name in (("TracksideAction", "PublishMetric"), ("TracksideEvaluation", "FinishRun"))
    for part in ("Queue", "DeadLetters", "FunctionLog")
}


@pytest.fixture(scope="module")
def before() -> Mapping[str, Mapping[str, Any]]:
    return {f"{s}/{n}": body for s, t in read_templates().items() for n, body in t["Resources"].items()}


@pytest.fixture(scope="module")
def folder() -> Path:
    return assembly()


@pytest.fixture(scope="module")
def now(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    return {f"{s}/{n}": body for s, t in read_templates(folder).items() for n, body in t["Resources"].items()}


def test_nothing_that_holds_data_is_let_go_or_replaced(
    before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> None:
    stateful = {name: body for name, body in before.items() if body["Type"] in STATEFUL}
    assert {body["Type"] for body in stateful.values()} == set(STATEFUL)
    gone = {name for name in stateful if name not in now}
    assert {name[:-8] for name in gone} <= DROPPED, "logical ids are names: to rename a construct is to delete it"
    replaced = [
        f"{name}: {what}"
        for name, body in stateful.items()
        if name in now
        for what in ("Type", *STATEFUL[body["Type"]])
        if _get(body, what) != _get(now[name], what)
    ]
    assert replaced == []


def test_what_holds_runs_is_still_kept(now: Mapping[str, Mapping[str, Any]]) -> None:
    held = {n: body for n, body in now.items() if n.startswith("TracksideStorage/") and body["Type"] in HOLDS_RUNS}
    assert len(held) >= 4
    for name, body in held.items():
        assert body["DeletionPolicy"] == body["UpdateReplacePolicy"] == "Retain", name


def test_a_table_gets_at_most_one_index_at_a_time(
    before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> None:
    """DynamoDB refuses an update that makes or drops more (API_UpdateTable)."""
    for name, body in before.items():
        if body["Type"] == "AWS::DynamoDB::Table":
            old, new = ({i["IndexName"] for i in _get(b, "GlobalSecondaryIndexes") or ()} for b in (body, now[name]))
            assert len(old ^ new) <= 1, name


def test_no_stack_imports_an_export(folder: Path) -> None:
    """CloudFormation takes away no export that is imported; stacks are deployed one after the other."""
    for templates in (read_templates(), read_templates(folder)):
        assert len(templates) == 5
        assert "Fn::ImportValue" not in json.dumps(templates)


def test_the_storage_stack_cannot_be_deleted_by_mistake(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())["artifacts"]
    assert manifest["TracksideStorage"]["properties"]["terminationProtection"] is True


def _get(body: Mapping[str, Any], name: str) -> Any:
    return body["Type"] if name == "Type" else body["Properties"].get(name)
