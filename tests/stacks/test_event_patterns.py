"""Which golden events reach which reaction, by the patterns of the synthesized templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stacks.event_patterns import in_rules, untagged_training_started
from tests.stacks.registered import (
    ISSUES_FOUND,
    OFFICIAL_ISSUES_FOUND,
    OFFICIAL_ISSUES_FOUND_WITH_ACTION,
    OWN_REACTION,
)
from trackside.contracts.action import Action
from trackside_localaccount.event_pattern import check_pattern, matches

EVENTS = Path(__file__).parents[1] / "lambdas" / "events"


def golden(name: str, **detail: Any) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    event["detail"].update(detail)
    return event


CUSTOM, EVALUATOR = "the role of custom rules", "the role of evaluators"  # which the deployment fills in
ROLES = {"CustomRuleRole": CUSTOM, "EvaluatorRole": EVALUATOR}
BUCKET = "runs-bucket"


def processing_ended(
    status: str,
    name: str = "trackside-digits-0a1b2c3d4e",
    *,
    role: str = EVALUATOR,
    says: str = "",
    bucket: str = BUCKET,
    **environment: str,
) -> dict[str, Any]:
    detail = {
        "ProcessingJobName": name,
        "ProcessingJobStatus": status,
        "RoleArn": role,
        "ExitMessage": says,
        "Environment": {"TRACKSIDE_RUN": f"s3://{bucket}/digits", **environment},
    }
    return {"source": "aws.sagemaker", "detail-type": "SageMaker Processing Job State Change", "detail": detail}


def stored(key: str, bucket: str = BUCKET) -> dict[str, Any]:
    detail = {"bucket": {"name": bucket}, "object": {"key": key, "size": 1}}
    return {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}


@pytest.fixture(scope="session")
def rules(resources: Mapping[str, Any]) -> dict[str, tuple[bool, Any]]:
    """Rule, as `<construct>/<rule>` -> (on our own bus, pattern)."""
    return {
        body["Metadata"]["aws:cdk:path"].split("/", 1)[1].removesuffix("/Resource"): (
            "EventBusName" in body["Properties"],
            filled_in(body["Properties"]["EventPattern"]),
        )
        for body in resources.values()
        if body["Type"] == "AWS::Events::Rule" and "EventPattern" in body["Properties"]
    }


def filled_in(pattern: Any) -> Any:
    """As deployed: references to roles and to the bucket stand for names."""
    detail = dict(pattern.get("detail", {}))
    if "RoleArn" in detail:
        (wanted,) = detail["RoleArn"]
        is_refusal = "anything-but" in wanted
        role = name_of_role(wanted["anything-but"][0] if is_refusal else wanted)
        detail["RoleArn"] = [{"anything-but": [role]}] if is_refusal else [role]
    if "bucket" in detail:
        assert "Runs" in str(detail["bucket"]["name"])
        detail["bucket"] = {"name": [BUCKET]}
    if run := detail.get("Environment", {}).get("TRACKSIDE_RUN"):
        (wanted,) = run
        parts = wanted["prefix"]["Fn::Join"][1]
        assert "Runs" in str(parts[1])
        filled = [{"prefix": f"{parts[0]}{BUCKET}{parts[2]}"}]
        detail["Environment"] = {**detail["Environment"], "TRACKSIDE_RUN": filled}
    return {**pattern, "detail": detail} if detail else pattern


def name_of_role(reference: Any) -> str:
    logical_id = reference["Fn::GetAtt"][0]
    (name,) = [name for part, name in ROLES.items() if part in logical_id]
    return name


STATUS_CHANGED = {"RecordVerdict/RuleStatusChanged"}
CHANGED = {"RecordVerdict/TrainingChanged"}
REPEATED = {"RecordVerdict/OfficialRuleStatusChanged"}
OURS = ISSUES_FOUND | STATUS_CHANGED
NOTIFIED = {"Webhook/Told"}
ACTION_TAGS = {"TRACKSIDE_ACTIONS": "StopTraining"}
UNWATCHED = {"EvaluationFailed"}
OFFICIAL = OFFICIAL_ISSUES_FOUND | REPEATED
STARTED = ENDED = {"StartEvaluation/TrainingStartedOrEnded"} | CHANGED
UNTAGGED = {"StartEvaluation/UntaggedTrainingStarted"}  # this deployment watches by environment
WITH_ACTION = {"StopTraining/OfficialIssueFoundAndAsked"}


@pytest.mark.parametrize(
    ("event", "reached"),
    [
        pytest.param(golden("ours_issues_found"), OURS, id="all three actions"),
        pytest.param(
            golden("ours_issues_found", Actions=["Notify"]), {"Notify/IssueFound"} | STATUS_CHANGED, id="one action"
        ),
        pytest.param(
            golden("ours_issues_found", Actions=["PublishMetric"]),
            {"Notify/IssueFound"} | STATUS_CHANGED,
            id="one that another's function carries out",
        ),
        pytest.param(golden("training_stopped", TrainingJobStatus="Stopping"), CHANGED, id="stopping"),
        pytest.param(
            golden("official_issues_found"), OFFICIAL | UNTAGGED, id="official, one rule of two found something"
        ),
        pytest.param(golden("training_started"), STARTED, id="started"),
        pytest.param(golden("training_stopped"), ENDED, id="stopped"),
        pytest.param(golden("training_stopped", TrainingJobStatus="Failed"), ENDED, id="failed"),
        pytest.param(
            golden("official_issues_found", Tags={"trackside:run": "s3://b/r"}),
            OFFICIAL | STARTED,
            id="official and opted in",
        ),
        pytest.param(
            processing_ended("Completed", role=CUSTOM), {"ReportCustomRule/CustomRuleEnded"}, id="a custom rule is done"
        ),
        pytest.param(
            processing_ended("Failed", role=CUSTOM),
            {"ReportCustomRule/CustomRuleEnded"} | UNWATCHED,
            id="a custom rule failed",
        ),
        pytest.param(
            processing_ended("Failed", role=CUSTOM, **ACTION_TAGS),
            {"ReportCustomRule/CustomRuleEnded", "Notify/CustomRuleFailed"} | UNWATCHED,
            id="a custom rule that was told its actions failed",
        ),
        pytest.param(processing_ended("InProgress", role=CUSTOM), set(), id="a custom rule is at work"),
        *[
            pytest.param(processing_ended(status), {"StartEvaluation/EvaluatorEnded"}, id=f"an evaluator is {status}")
            for status in ("Failed", "Completed", "Stopped")
        ],
        pytest.param(
            processing_ended("Completed", says="No rule could judge this run. Not evaluated: a."),
            {"StartEvaluation/EvaluatorEnded", "Notify/NothingJudged"},
            id="an evaluation judged nothing",
        ),
        pytest.param(
            {"source": "trackside", "detail-type": "Owner Notification", "detail": {"text": "a"}},
            NOTIFIED,
            id="an owner was told",
        ),
        pytest.param(processing_ended("InProgress"), set(), id="an evaluator is at work"),
        pytest.param(processing_ended("Failed", role="x"), {"EvaluationFailed"}, id="a failure under our name"),
        *[
            pytest.param(
                processing_ended(*of_another, role="x", bucket=f"{BUCKET}-staging", **ACTION_TAGS), set(), id=what
            )
            for of_another, what in (
                (["Failed"], "a failure of another deployment in this account"),
                (["Completed"], "an end of another deployment"),
            )
        ],
        pytest.param(
            processing_ended("Completed", role="x", bucket=f"{BUCKET}-staging", says="No rule could judge this run."),
            set(),
            id="a run of another deployment that nothing judged",
        ),
        pytest.param(
            processing_ended("Failed", "nightly-features", role="x"), set(), id="someone else's processing job failed"
        ),
        pytest.param(stored("a/b/watermarks/worker_0.json"), {"NoteNews/RunWritten"}, id="a watermark"),
        pytest.param(
            stored("a/debug-output/index/000000000/1_w.json"), set(), id="an index file, before its watermark"
        ),
        pytest.param(stored("a/b/statistics/w/1-2-3.tss"), set(), id="statistics, before their watermark"),
        pytest.param(stored("a/debug-output/training_job_end.ts"), {"NoteNews/RunWritten"}, id="the end of a run"),
        pytest.param(stored("a/debug-output/events/1/1_w.tfevents"), set(), id="events, before their index"),
        pytest.param(stored("a/rule-output/progress.json"), set(), id="what evaluators themselves write"),
        pytest.param(stored("a/watermarks/x", bucket="another"), set(), id="another bucket"),
        pytest.param(golden("ours_issues_found", RuleEvaluationStatus="NoIssuesFound"), STATUS_CHANGED, id="clean"),
        pytest.param(
            golden("ours_issues_found", RuleEvaluationStatus="Error"), STATUS_CHANGED, id="could not be judged"
        ),
        pytest.param(golden("ours_issues_found", Actions=[]), STATUS_CHANGED, id="no action asked for"),
        pytest.param({**golden("ours_issues_found"), "source": "someone"}, set(), id="someone else's event"),
        pytest.param({**golden("ours_issues_found"), "detail-type": "Other"}, set(), id="another kind of ours"),
        pytest.param(
            golden("ours_issues_found", RuleEvaluationStatus="Error", RuleConfigurationName="choice-of-rules"),
            STATUS_CHANGED | {"Notify/WrongChoice"},
            id="a wrong choice of rules",
        ),
        pytest.param(
            golden("ours_issues_found", RuleEvaluationStatus="NoIssuesFound", RuleConfigurationName="choice-of-rules"),
            STATUS_CHANGED,
            id="a right choice of rules",
        ),
        pytest.param(
            golden("official_issues_found", Tags={"trackside:actions": "Notify StopTraining"}),
            OFFICIAL | WITH_ACTION | UNTAGGED,
            id="official, and the job's tag asks for a stop",
        ),
        pytest.param(
            golden("official_issues_found", Tags={"trackside:actions": "Notify"}),
            OFFICIAL | UNTAGGED,
            id="official, and the job's tag asks for no stop",
        ),
        pytest.param(
            golden("official_issues_found", Tags={"team": "StopTraining"}),
            OFFICIAL | UNTAGGED,
            id="official, another tag",
        ),
        pytest.param(golden("training_started", Tags={}), UNTAGGED, id="started without a tag"),
        pytest.param(
            golden("training_started", Tags={}, SecondaryStatus="Downloading"), set(), id="between two such states"
        ),
        pytest.param(golden("training_stopped", Tags={}), set(), id="stopped without a tag"),
        pytest.param(golden("official_stopped"), REPEATED, id="official, stopped: the statuses are old"),
        pytest.param(golden("training_started", Tags={"team": "vision"}), UNTAGGED, id="not opted in by tag"),
        pytest.param(golden("training_started", TrainingJobStatus="Stopping"), CHANGED, id="stopping"),
        pytest.param({**golden("training_started"), "source": "trackside"}, set(), id="a forged start"),
    ],
)
def test_reaches_these_rules_and_no_others(
    rules: dict[str, tuple[bool, Any]], event: dict[str, Any], reached: set[str]
) -> None:
    assert {name for name, (_, pattern) in rules.items() if matches(pattern, event)} == reached


def test_our_events_are_awaited_on_our_bus_and_amazons_on_the_default_one(
    rules: dict[str, tuple[bool, Any]],
) -> None:
    ours = {name for name, (on_our_bus, _) in rules.items() if on_our_bus}
    assert ours == ISSUES_FOUND | STATUS_CHANGED | NOTIFIED | {"Notify/WrongChoice"}
    assert set(rules) - ours >= OFFICIAL_ISSUES_FOUND | OFFICIAL_ISSUES_FOUND_WITH_ACTION


@pytest.mark.parametrize("action", Action)
def test_an_action_hears_of_what_asks_for_it_and_of_nothing_else(
    rules: dict[str, tuple[bool, Any]], action: Action
) -> None:
    """Of those that nobody needs to ask for, the pattern of official events has no word to look for."""
    others = [each.value for each in Action if each.unit.reaction != action.unit.reaction]
    (function,) = [each for each in OWN_REACTION if each.unit.name == action.unit.reaction]
    _, ours = rules[f"{function.value}/IssueFound"]
    assert matches(ours, golden("ours_issues_found", Actions=[action.value]))
    assert not matches(ours, golden("ours_issues_found", Actions=others))
    if (asked := f"{function.value}/OfficialIssueFoundAndAsked") in rules:
        for words, is_reached in ((action.value, True), (" ".join(others), False)):
            event = golden("official_issues_found", Tags={"trackside:actions": words})
            assert matches(rules[asked][1], event) is is_reached


@pytest.mark.parametrize(
    ("job", "is_reached"),
    [
        pytest.param("nightly-7", True, id="a pattern"),
        pytest.param("digits-01", True, id="a name"),
        pytest.param("nightly", False, id="less than the pattern"),
        pytest.param("my-nightly-7", False, id="more than the pattern"),
        pytest.param("digits-011", False, id="more than the name"),
    ],
)
def test_by_name_only_jobs_of_these_names_are_looked_at(job: str, is_reached: bool) -> None:
    found = untagged_training_started(["nightly-*", "digits-01"])
    pattern = {"source": found.source, "detail-type": found.detail_type, "detail": found.detail}
    assert matches(pattern, golden("training_started", Tags={}, TrainingJobName=job)) is is_reached
    tagged = golden("training_started", Tags={"trackside:run": "s3://b/r"}, TrainingJobName=job)
    assert not matches(pattern, tagged)


@pytest.mark.parametrize(
    ("names", "rules"),
    [
        pytest.param((), 1, id="any name"),
        pytest.param(("nightly-*",), 1, id="one"),
        pytest.param([f"{letter}-job-*" for letter in "abcdefghijklmnopqrst"], 1, id="twenty with other beginnings"),
        pytest.param([f"team-{letter}-*" for letter in "abcdefghijklmnopqrst"], 4, id="twenty with one beginning"),
        pytest.param([f"*-{letter}-*" for letter in "abcdefghij"], 10, id="ten with an asterisk first"),
        pytest.param([f"job-{number}" for number in range(20)], 1, id="names without asterisks"),
    ],
)
def test_names_are_spread_over_rules_that_eventbridge_takes(names: Sequence[str], rules: int) -> None:
    groups = list(in_rules(names))
    assert [name for group in groups for name in group] == list(names), "each once, in their order"
    assert len(groups) == rules
    for group in groups:
        check_pattern(json.loads(json.dumps(untagged_training_started(group)._values["detail"])))
