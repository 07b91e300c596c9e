"""The real CDK command line deploys the last landed version, then this one, over data: all of it is still there.

Then settings that add and take away parts are changed, back and forth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stacks.assembly import assembly
from tests.stacks.previous_version import lay_out
from tests.stacks.variants import WATCHING
from trackside_localaccount import LocalAccount

pytestmark = pytest.mark.xdist_group("drill")
HOLDS_DATA = ("Bucket", "Table", "Key", "Queue", "Topic", "Repository", "EventBus", "Archive", "Parameter")
MADE_BY_CDK = re.compile("[0-9A-F]{8}$")  # outputs for other stacks
DROPPED = ("DashboardName", "FinishRun", "PublishMetric")  # docs/decisions/0061-fewer-resources.md
JOB = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits"


@pytest.fixture
def account() -> Iterator[LocalAccount]:
    with LocalAccount() as account:
        yield account


def test_an_upgrade_loses_nothing(drill: ModuleType, account: LocalAccount, tmp_path: Path) -> None:
    today = assembly()
    cdk = drill.CommandLine(account)
    previous = lay_out(tmp_path / "previous", today=today)
    cdk.run("bootstrap", f"aws://{drill.ACCOUNT}/{drill.REGION}", "--app", str(today))
    cdk.run("deploy", "--all", "--app", str(previous), "--require-approval", "never")
    before = _outputs(account)
    held = _physical(drill, account, previous)
    item = {"pk": {"S": JOB}, "sk": {"S": "job"}, "status": {"S": "Completed"}}
    account.client("dynamodb").put_item(TableName=before["RunTableName"], Item=item)
    account.client("s3").put_object(Bucket=before["RunBucketName"], Key="digits/rule-output/v.jsonl", Body=b"kept")
    account.client("sqs").send_message(QueueUrl=before["NotifyDeadLettersUrl"], MessageBody="a dead letter")
    account.client("ssm").put_parameter(Name=before["DryRunParameterName"], Value="true", Overwrite=True)

    cdk.run("deploy", "--all", "--app", str(today), "--require-approval", "never")

    after = _outputs(account)
    kept = {name: value for name, value in before.items() if not name.startswith(DROPPED)}
    assert {name: after.get(name) for name in kept} == kept
    still_held = _physical(drill, account, previous)
    assert {
        name: held[name] for name in held if name.split("/")[1].startswith(DROPPED)
    }.keys() == held.keys() - still_held
    assert {name: held[name] for name in still_held} == still_held
    found = account.client("dynamodb").get_item(TableName=after["RunTableName"], Key={n: item[n] for n in ("pk", "sk")})
    assert found["Item"] == item
    body = account.client("s3").get_object(Bucket=after["RunBucketName"], Key="digits/rule-output/v.jsonl")["Body"]
    assert body.read() == b"kept"
    (dead,) = account.client("sqs").receive_message(QueueUrl=after["NotifyDeadLettersUrl"])["Messages"]
    assert dead["Body"] == "a dead letter"
    switch = account.client("ssm").get_parameter(Name=after["DryRunParameterName"])["Parameter"]["Value"]
    assert switch == "true", "a person's switch is not turned back by a deployment"

    for folder, has_custom_rules in ((assembly(WATCHING), True), (today, False)):
        cdk.run("deploy", "--all", "--app", str(folder), "--require-approval", "never")
        changed = _outputs(account)
        assert ("ReportCustomRuleQueueUrl" in changed) is has_custom_rules
        assert {name: changed.get(name) for name in after} == after


def _outputs(account: LocalAccount) -> dict[str, str]:
    stacks = account.client("cloudformation").describe_stacks()["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for stack in stacks for output in stack.get("Outputs", ())}
    return {name: value for name, value in outputs.items() if not MADE_BY_CDK.search(name)}


def _physical(drill: Any, account: LocalAccount, folder: Path) -> dict[str, str]:
    """Logical id of what holds data, in the previous version -> its physical id."""
    templates = drill.read_templates(folder)
    wanted = {f"{stack}/{name}" for stack, found in templates.items() for name in found}
    held = {}
    for stack in templates:
        pages = account.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
        for summary in (one for page in pages for one in page["StackResourceSummaries"]):
            name = f"{stack}/{summary['LogicalResourceId']}"
            if name in wanted and summary["ResourceType"].rpartition("::")[2] in HOLDS_DATA:
                held[name] = summary["PhysicalResourceId"]
    assert len(held) > 20, json.dumps(held)
    return held
