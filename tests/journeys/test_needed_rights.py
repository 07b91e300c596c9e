"""Each statement of the deployment's policies is needed: without it IAM would refuse something that a drill does.

The drill runs once. What IAM was asked meanwhile is decided again without each statement in turn; a few are then really
taken away, and the drill must fail where they are missing.
"""

from __future__ import annotations

import json
import sys
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
from trackside_localaccount.provision import create_role
from trackside_localaccount.rights import holdings
from trackside_localaccount.rights.conditions import UnknownConditionError
from trackside_localaccount.rights.policy import Policies, Question, decide, parse_policy
from trackside_localaccount.rights.rights import Caller, policies_for
from trackside_localaccount.start_time import MOST_STARTS, limit_seconds, seconds_to_start

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("drill")
QUICK = DrillSettings(pace_seconds=0.05, poll_seconds=0.1, timeout_seconds=3600)

# Why a drill in this account does not need a statement -> those statements. That the code of a function makes the calls
# for which they stand: tests/stacks/test_calls_of_roles.py.
NOT_IN_A_DRILL: Mapping[str, frozenset[str]] = {
    "EventBridge delivers all events of a drill": frozenset(
        f"{function}/DeadLetters for {rule}"
        for function, rules in {
            "Action/Notify": (
                *("Action/Notify/CustomRuleFailed", "Action/Notify/IssueFound", "Action/Notify/NothingJudged"),
                *("Action/Notify/OfficialIssueFound", "Action/Notify/WrongChoice"),
            ),
            "Action/StopTraining": (
                *("Action/StopTraining/IssueFound", "Action/StopTraining/OfficialIssueFoundAndAsked"),
            ),
            "Evaluation/StartEvaluation": (
                *("Evaluation/EvaluationFailed", "Evaluation/StartEvaluation/EvaluatorEnded"),
                *("Evaluation/StartEvaluation/TrainingStartedOrEnded",),
            ),
            "Record/Reconcile": ("Record/Reconcile/Schedule",),
            "Record/RecordVerdict": (
                *("Record/RecordVerdict/OfficialRuleStatusChanged", "Record/RecordVerdict/RuleStatusChanged"),
                *("Record/RecordVerdict/TrainingChanged",),
            ),
        }.items()
        for rule in rules
    ),
    "only a real account keeps traces": frozenset(
        f"{function}/FunctionRole xray:PutTelemetryRecords"
        for function in (
            *("Action/Notify", "Action/StopTraining", "Evaluation/StartEvaluation"),
            *("Record/Reconcile", "Record/RecordVerdict"),
        )
    ),
    "only a real account counts a job's memory and processor": frozenset({"Evaluation/EvaluatorRole PutMetrics"}),
    "schedules do not fire in this account": frozenset({"Record/Reconcile/Queue for Record/Reconcile/Schedule"}),
    "no evaluator fails": frozenset(
        {
            "Action/Notify/Queue for Action/Notify/CustomRuleFailed",
            "Action/Notify/Queue for Action/Notify/NothingJudged",
            "Evaluation/FailedEvaluationsQueue for Evaluation/EvaluationFailed",
            "Evaluation/StartEvaluation/FunctionRole ReadNotesOfEnds",
            "Evaluation/StartEvaluation/FunctionRole TellWhatFailed",
        }
    ),
    "no rule is quiet, no stop can be vetoed": frozenset(
        {
            "Action/Notify/FunctionRole TellLater",
            "Action/StopTraining/FunctionRole EncryptForTheTopic",
            "Action/StopTraining/FunctionRole LookAgainLater",
            "Action/StopTraining/FunctionRole TellOwners",
        }
    ),
    "no request of a stop is without an answer": frozenset({"Action/StopTraining/FunctionRole SeeWhenAJobStopped"}),
    "no job is silent for minutes, of which a sweep asks": frozenset(
        {
            "Record/Reconcile/FunctionRole AskAboutEvaluators",
            "Record/Reconcile/FunctionRole AskAboutJobs",
            "Record/Reconcile/FunctionRole ListEvaluators",
            "Record/Reconcile/FunctionRole ListenToEvaluators",
        }
    ),
    "no alarm need ring": frozenset({"Monitoring/Alarms AlarmsPublish"}),
    "no event is lost": frozenset({"Record/Reconcile/FunctionRole TellWhatWasMissed"}),
    "rules are chosen in the run": frozenset({"Evaluation/StartEvaluation/FunctionRole ReadRulesOfParameters"}),
}
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
        go_the_other_ways(account, outputs["RunBucketName"])
        tick = json.dumps({"id": "a tick of the schedule"})
        account.client("sqs").send_message(QueueUrl=outputs["ReconcileQueueUrl"], MessageBody=tick)
        eventually(account, lambda: _has_swept(account), "the sweep is done")
        yield Stage(account, outputs, folder, asked)


def go_the_other_ways(account: LocalAccount, bucket: str) -> None:
    """A job that SageMaker Debugger finds fault with and that asks to be stopped, and one that chooses a rule that
    does not exist. The latter runs on."""
    rights = [{"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"}]
    role = create_role(account, "training", rights)
    account.register_image("training", [sys.executable, "-c", "import time; time.sleep(3600)"])
    for name, tags in {
        "official": {"trackside:actions": "StopTraining"},
        "wrong": {"trackside:run": f"s3://{bucket}/wrong", "trackside:rules": "no-such-rule"},
    }.items():
        account.client("sagemaker").create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={"TrainingImage": "training", "TrainingInputMode": "File"},
            RoleArn=role,
            OutputDataConfig={"S3OutputPath": "s3://anywhere"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
            Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
        )
    account.hops.wait_for("job-process", job="official")
    account.emit_official_rule_status("official", [("Overfit", "IssuesFound", "it overfits")])
    account.hops.wait_for("job-state", job="official", status="Stopped")
    eventually(account, lambda: _is_delivered(account, "NotifyWrongChoice"), "the owner hears of the wrong choice")


def _is_delivered(account: LocalAccount, rule: str) -> bool:
    return any(rule in each.names["rule"] for each in account.hops if each.kind == "event-delivered")


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
    excused = frozenset[str]().union(*NOT_IN_A_DRILL.values())
    unneeded |= NOT_IN_A_DRILL["no alarm need ring"]  # on a slow machine one may
    assert unneeded == excused, "\n".join(sorted(unneeded ^ excused))


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
    made = list(_made(stage))
    rules = {physical_id: path for kind, path, physical_id in made if kind == "AWS::Events::Rule"}
    for kind, path, physical_id in made:
        if find := OWNERS.get(kind):
            owner, document = find(physical_id, stage.account)
            for statement in parse_policy(json.dumps(document)):
                if statement["Effect"] == "Allow":
                    yield Held(f"{path} {_word(statement, rules)}", owner, statement)


def _made(stage: Stage) -> Iterator[tuple[str, str, str]]:
    """Yield the type, the construct and the physical id of each resource."""
    cloudformation = stage.account.client("cloudformation")
    for file in sorted(stage.folder.glob("*.template.json")):
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=file.name.split(".")[0])
        summaries = [one for page in pages for one in page["StackResourceSummaries"]]
        physical = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in summaries}
        for logical_id, body in json.loads(file.read_text(encoding="utf-8"))["Resources"].items():
            path = body.get("Metadata", {}).get("aws:cdk:path", "").removesuffix("/Resource")
            yield body["Type"], path.removeprefix("Trackside"), physical[logical_id]


def _word(statement: Mapping[str, Any], rules: Mapping[str, str]) -> str:
    """The rule of EventBridge for which a statement stands, else its name, else its first action."""
    source = str((statement.get("Condition") or {}).get("ArnEquals", {}).get("aws:SourceArn", ""))
    if source:
        return f"for {rules[source.rpartition('/')[2]]}"
    action = statement["Action"]
    return str(statement.get("Sid") or (action if isinstance(action, str) else action[0]))


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
