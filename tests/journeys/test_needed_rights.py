"""Each statement of the deployment's policies is needed: without it IAM would refuse something that a drill does.

The drill runs once. What IAM was asked meanwhile is decided again without each statement in turn; a few are then really
taken away, and the drill must fail where they are missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stacks.assembly import assembly
from tests.journeys.waiting import eventually
from trackside.cli import main
from trackside.cloud.calls import Calls
from trackside.cloud.drill import Drill, DrillSettings
from trackside.cloud.drill_stage import register_evaluator
from trackside_localaccount import LocalAccount
from trackside_localaccount.deploy import deploy
from trackside_localaccount.rights import holdings
from trackside_localaccount.rights.conditions import UnknownConditionError
from trackside_localaccount.rights.policy import Policies, Question, decide, parse_policy
from trackside_localaccount.rights.rights import Caller, policies_for
from trackside_localaccount.start_time import MOST_STARTS, limit_seconds, seconds_to_start

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("drill")
QUICK = DrillSettings(pace_seconds=0.05, poll_seconds=0.1, timeout_seconds=3600)

# Statement -> what it is for, where a drill in this account does not do it.
NOT_IN_A_DRILL: Mapping[str, str] = {}
CLOCK = "aws:currenttime"


@dataclass(frozen=True)
class Held:
    """A statement that allows something, as it came to be in the account."""

    name: str
    owner: str  # ARN of the role, or of the resource
    statement: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Stage:
    account: LocalAccount
    outputs: Mapping[str, str]
    folder: Path
    asked: dict[Any, Question]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A deployment in which a drill has run, a sweep has begun, and all that IAM was asked was noted."""
    folder = assembly({"trackside:keep_data": "false", "trackside:drills": "true"})
    asked: dict[Any, Question] = {}
    with LocalAccount(stop_grace_seconds=3) as account:
        outputs = {name: value for each in deploy(folder, account).values() for name, value in each.items()}
        register_evaluator(account, ROOT)
        account.rights.listeners.append(lambda question: asked.setdefault(_key(question), question))
        result = CliRunner().invoke(main, ["drill", "--yes"], env=account.environment())
        assert result.exit_code == 0, result.stdout + result.stderr
        tick = json.dumps({"id": "a tick of the schedule"})
        account.client("sqs").send_message(QueueUrl=outputs["ReconcileQueueUrl"], MessageBody=tick)
        eventually(account, lambda: _has_swept(account), "the sweep is done")
        yield Stage(account, outputs, folder, asked)


def _has_swept(account: LocalAccount) -> bool:
    return any("Reconcile" in each.names["queue"] for each in account.hops if each.kind == "queue-batch")


def _key(question: Question) -> Any:
    context = {name: values for name, values in question.context.items() if name != CLOCK}
    return question.principal.arn, question.action, question.resource, frozenset(context.items())


def test_nothing_was_refused(stage: Stage) -> None:
    assert [str(each) for each in stage.account.hops if each.kind == "denied"] == []


def test_without_each_statement_something_is_refused(stage: Stage) -> None:
    held = list(held_statements(stage))
    assert len(held) > 60
    unneeded = {each.name for each in held if not _is_needed(each, stage.asked.values())}
    assert unneeded == set(NOT_IN_A_DRILL), "\n".join(sorted(unneeded ^ set(NOT_IN_A_DRILL)))


def _is_needed(held: Held, asked: Any) -> bool:
    return any(_is_refused_without(held, question) for question in asked)


def _is_refused_without(held: Held, question: Question) -> bool:
    of_principal = question.principal.role_arn == held.owner
    of_resource = held.owner in {question.resource, question.resource.partition("/")[0]}
    if not (of_principal or of_resource):
        return False
    whole = _policies(question)
    rest = replace(
        whole,
        identity=tuple(one for one in whole.identity if not (of_principal and one == held.statement)),
        resource=tuple(one for one in whole.resource or () if not (of_resource and one == held.statement)),
    )
    try:
        return decide(question, whole).is_allowed and not decide(question, rest).is_allowed
    except UnknownConditionError:
        return False


def _policies(question: Question) -> Policies:
    role = question.principal.role_arn
    identity, limits = holdings.identity_of(role) if role else ((), ())
    return policies_for(question, Caller(question.principal, identity, limits))


def held_statements(stage: Stage) -> Iterator[Held]:
    """Yield each statement that allows something, of each policy of the deployment."""
    cloudformation = stage.account.client("cloudformation")
    for file in sorted(stage.folder.glob("*.template.json")):
        resources = json.loads(file.read_text(encoding="utf-8"))["Resources"]
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=file.name.split(".")[0])
        physical = {
            one["LogicalResourceId"]: one["PhysicalResourceId"]
            for page in pages
            for one in page["StackResourceSummaries"]
        }
        for logical_id, body in resources.items():
            find = OWNERS.get(body["Type"])
            if find is None:
                continue
            owner, document = find(physical[logical_id], stage.account)
            path = body["Metadata"]["aws:cdk:path"].removesuffix("/Resource").removeprefix("Trackside")
            for statement in parse_policy(json.dumps(document)):
                if statement["Effect"] == "Allow":
                    yield Held(f"{path} {_word(statement)}", owner, statement)


def _word(statement: Mapping[str, Any]) -> str:
    """The name of a statement, else its first action, and the rule of EventBridge for which it stands."""
    action = statement["Action"]
    word = statement.get("Sid") or (action if isinstance(action, str) else action[0])
    source = (statement.get("Condition") or {}).get("ArnEquals", {}).get("aws:SourceArn", "")
    rule = re.sub(r"[0-9A-F]{8}-\w+$", "", str(source).rpartition("-Trackside")[0] or str(source).rpartition("/")[2])
    return f"{word} {rule.rpartition('-')[2]}".strip()


def _role(name: str, account: LocalAccount) -> tuple[str, Any]:
    iam = account.client("iam")
    role = iam.get_role(RoleName=name)["Role"]
    statements: list[Any] = []
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        statements += parse_policy(json.dumps(document))
    return str(role["Arn"]), {"Statement": statements}


def _queue(url: str, account: LocalAccount) -> tuple[str, Any]:
    names = ["QueueArn", "Policy"]
    found = account.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return str(found["QueueArn"]), json.loads(found.get("Policy", "{}"))


def _topic(arn: str, account: LocalAccount) -> tuple[str, Any]:
    return arn, json.loads(account.client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]["Policy"])


def _encryption_key(key_id: str, account: LocalAccount) -> tuple[str, Any]:
    kms = account.client("kms")
    arn = kms.describe_key(KeyId=key_id)["KeyMetadata"]["Arn"]
    return str(arn), json.loads(kms.get_key_policy(KeyId=key_id, PolicyName="default")["Policy"])


OWNERS: Mapping[str, Any] = {
    "AWS::IAM::Role": _role,
    "AWS::SQS::Queue": _queue,
    "AWS::SNS::Topic": _topic,
    "AWS::KMS::Key": _encryption_key,
}


def test_a_drill_fails_where_statements_are_missing(stage: Stage) -> None:
    """Three that are taken away at once: each stands before another effect."""
    missing = {
        "sns:Publish": "Notify",
        "sagemaker:StopTrainingJob": "StopTraining",
        "dynamodb:PutItem": "RecordVerdict",
    }
    for action, function in missing.items():
        _take_away(stage.account, function, action)
    seconds = limit_seconds(MOST_STARTS, start_seconds=seconds_to_start()) / 2
    drill = Drill(Calls(stage.account.client), replace(QUICK, timeout_seconds=seconds))
    drill.begin()
    report = drill.follow(lambda arrival: None, lambda name: None)
    drill.clean_up()
    effects = {each.effect for each in report.missing}
    assert {"verdict is recorded", "owners are notified", "training is stopped"} <= effects
    assert "a rule finds it" not in effects


def _take_away(account: LocalAccount, function: str, action: str) -> None:
    """Without the statements of a function's role that have the action."""
    iam = account.client("iam")
    roles = [role["RoleName"] for page in iam.get_paginator("list_roles").paginate() for role in page["Roles"]]
    name = next(role for role in roles if f"-{function}FunctionRole" in role)
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        kept = [one for one in parse_policy(json.dumps(document)) if action not in one["Action"]]
        assert len(kept) < len(document["Statement"])
        rest = json.dumps({"Version": "2012-10-17", "Statement": kept})
        iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=rest)
