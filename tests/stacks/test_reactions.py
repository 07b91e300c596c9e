"""What holds for every reaction: its function, its queue, its dead letters, its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.lambda_settings import settings_class
from tests.stacks.registered import (
    ISSUES_FOUND,
    OFFICIAL_ISSUES_FOUND,
    OFFICIAL_ISSUES_FOUND_WITH_ACTION,
    REACTIONS,
    place_of,
)


def of_type(resources: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {name: body["Properties"] for name, body in resources.items() if body["Type"] == kind}


@pytest.fixture(scope="session")
def functions(resources: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Reaction -> (resource, properties)."""
    found = of_type(resources, "AWS::Lambda::Function")
    return {body["Handler"].split(".")[1]: (name, body) for name, body in found.items()}


def test_every_folder_in_lambdas_is_deployed_once(functions: dict[str, Any], resources: Mapping[str, Any]) -> None:
    assert sorted(functions) == REACTIONS
    assert len(of_type(resources, "AWS::Lambda::Function")) == len(REACTIONS)


@pytest.mark.parametrize("reaction", REACTIONS)
def test_the_function_can_read_its_settings_back(functions: dict[str, Any], reaction: str) -> None:
    kind = settings_class(reaction)
    variables = functions[reaction][1]["Environment"]["Variables"]
    # What the deployment fills in is a reference here; any text stands for it.
    filled = {name: value if isinstance(value, str) else "filled-in" for name, value in variables.items()}
    settings = kind.from_environment(filled)
    assert set(settings.to_environment()) == set(filled) - {"POWERTOOLS_SERVICE_NAME"}
    assert variables["POWERTOOLS_SERVICE_NAME"] == reaction


@pytest.mark.parametrize("reaction", REACTIONS)
def test_the_function_is_traced_logs_for_a_month_and_runs_on_arm(
    functions: dict[str, Any], resources: Mapping[str, Any], reaction: str
) -> None:
    name, function = functions[reaction]
    assert function["TracingConfig"] == {"Mode": "Active"}
    assert function["Architectures"] == ["arm64"]
    assert function["Runtime"] == "python3.12"
    log_group = resources[f"{name.split('/')[0]}/{function['LoggingConfig']['LogGroup']['Ref']}"]
    assert log_group["Properties"]["RetentionInDays"] == 30


@pytest.mark.parametrize("reaction", REACTIONS)
def test_a_message_waits_is_tried_three_times_and_then_kept(
    functions: dict[str, Any], resources: Mapping[str, Any], reaction: str
) -> None:
    name, function = functions[reaction]
    stack, logical_id = name.split("/")
    (mapping,) = [
        body
        for source, body in of_type(resources, "AWS::Lambda::EventSourceMapping").items()
        if source.startswith(stack) and body["FunctionName"] == {"Ref": logical_id}
    ]
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    queue = resources[f"{stack}/{mapping['EventSourceArn']['Fn::GetAtt'][0]}"]["Properties"]
    assert queue["VisibilityTimeout"] == 6 * function["Timeout"]
    assert queue["RedrivePolicy"]["maxReceiveCount"] >= 5
    dead_letters = resources[f"{stack}/{queue['RedrivePolicy']['deadLetterTargetArn']['Fn::GetAtt'][0]}"]["Properties"]
    assert dead_letters["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert queue["SqsManagedSseEnabled"] is dead_letters["SqsManagedSseEnabled"] is True


def test_the_launcher_does_not_outrun_sagemaker(functions: dict[str, Any], resources: Mapping[str, Any]) -> None:
    logical_id = functions["start_evaluation"][0].split("/")[1]
    mappings = of_type(resources, "AWS::Lambda::EventSourceMapping").values()
    (mapping,) = [body for body in mappings if body["FunctionName"] == {"Ref": logical_id}]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}


@pytest.mark.parametrize("reaction", REACTIONS)
def test_who_sends_to_its_own_queue_is_not_ended_as_a_loop(functions: dict[str, Any], reaction: str) -> None:
    """Lambda ends what comes to the same function for the 16th time, and its message is a dead letter: of a veto of
    four hours, looked at every 15 minutes, no stop would follow."""
    _, function = functions[reaction]
    calls_itself = "TRACKSIDE_QUEUE_URL" in function["Environment"]["Variables"]
    assert function.get("RecursiveLoop") == ("Allow" if calls_itself else None)


# Every rule of EventBridge but those that each action has: whoever adds one reads its pattern, and names it here.
OTHER_RULES = {
    "EvaluationFailed",
    "NoteNews/RunWritten",
    "Notify/CustomRuleFailed",
    "Notify/NothingJudged",
    "Notify/WrongChoice",
    "Reconcile/Schedule",
    "RecordVerdict/OfficialRuleStatusChanged",
    "RecordVerdict/RuleStatusChanged",
    "RecordVerdict/TrainingChanged",
    "ReportCustomRule/CustomRuleEnded",
    "StartEvaluation/EvaluatorEnded",
    "StartEvaluation/TrainingStartedOrEnded",
    "StartEvaluation/UntaggedTrainingStarted",
    "Webhook/Told",
}


def test_every_rule_is_of_an_action_or_named_here(resources: Mapping[str, Any]) -> None:
    rules = [place_of(body) for body in resources.values() if body["Type"] == "AWS::Events::Rule"]
    of_actions = ISSUES_FOUND | OFFICIAL_ISSUES_FOUND | OFFICIAL_ISSUES_FOUND_WITH_ACTION
    assert sorted(rules) == sorted(OTHER_RULES | of_actions)


def test_every_rule_sends_to_a_queue_and_keeps_what_it_cannot_deliver(resources: Mapping[str, Any]) -> None:
    rules = of_type(resources, "AWS::Events::Rule")
    assert rules
    for name, rule in rules.items():
        (target,) = rule["Targets"]
        reached = target["Arn"]["Fn::GetAtt"][0]
        assert "Queue" in reached or reached.startswith("Webhook"), name
        assert "DeadLetters" in target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0], name


def test_topics_are_encrypted_and_tables_forget(resources: Mapping[str, Any]) -> None:
    topics = of_type(resources, "AWS::SNS::Topic")
    assert len(topics) == 3
    assert all("KmsMasterKeyId" in topic for topic in topics.values())
    tables = of_type(resources, "AWS::DynamoDB::Table").values()
    forgetting = [table["TimeToLiveSpecification"] for table in tables]
    assert sorted(each["AttributeName"] for each in forgetting) == ["expiration", "expires_at", "expires_at"]
    assert all(each["Enabled"] for each in forgetting)


def test_verdicts_are_archived(resources: Mapping[str, Any]) -> None:
    (archive,) = of_type(resources, "AWS::Events::Archive").values()
    assert archive["RetentionDays"] == 30


def test_images_are_scanned_and_a_tag_never_moves(resources: Mapping[str, Any]) -> None:
    repositories = of_type(resources, "AWS::ECR::Repository").values()
    assert len(repositories) == 2
    for repository in repositories:
        assert repository["ImageScanningConfiguration"] == {"ScanOnPush": True}
        assert repository["ImageTagMutability"] == "IMMUTABLE"


def test_what_events_missed_is_looked_for_every_five_minutes(resources: Mapping[str, Any]) -> None:
    (rule,) = [rule for rule in of_type(resources, "AWS::Events::Rule").values() if "ScheduleExpression" in rule]
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    assert "Reconcile" in rule["Targets"][0]["Arn"]["Fn::GetAtt"][0]


def test_the_switch_says_at_first_what_the_setting_says(resources: Mapping[str, Any]) -> None:
    (switch,) = of_type(resources, "AWS::SSM::Parameter").values()
    assert (switch["Name"], switch["Value"]) == ("/trackside/trackside/dry-run", "false")
    assert switch["AllowedPattern"] == "^(true|false)$"


def test_every_log_ends_when_the_setting_says(resources: Mapping[str, Any]) -> None:
    groups = of_type(resources, "AWS::Logs::LogGroup")
    assert len(groups) > len(REACTIONS)
    assert {name: each.get("RetentionInDays") for name, each in groups.items()} == dict.fromkeys(groups, 30)
