"""Which rules from files have jobs of their own; what such a job is told, and how its last sentence is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.action import Action
from trackside.contracts.deployment.custom_rule_job import (
    MOST_JOBS,
    CustomRuleJob,
    issue_sentence,
    judged_separately,
    lies_below,
    read_ending,
)
from trackside.contracts.event import RuleEvaluationStatus, TrainingJob
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Severity

PLACE = "s3://rules/approved"
TEXT = st.text(min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("source", "place", "lies"),
    [
        pytest.param("s3://rules/approved/mine.py", PLACE, True, id="there"),
        pytest.param("s3://rules/approved/a/b/mine.py", PLACE, True, id="deeper"),
        pytest.param("s3://rules/approved/mine.py", PLACE + "/", True, id="a slash at the end"),
        pytest.param("s3://rules/mine.py", "s3://rules", True, id="a whole bucket"),
        pytest.param("s3://rules/approved/..mine.py", PLACE, True, id="dots in a name"),
        pytest.param("s3://rules/approved/a%2Fmine.py", PLACE, True, id="a percent sign is a letter of a key"),
        pytest.param("s3://rules/approved", PLACE, False, id="the place itself"),
        pytest.param("s3://rules/approved/", PLACE, False, id="no file"),
        pytest.param("s3://rules/approvedmine.py", PLACE, False, id="begins alike"),
        pytest.param("s3://rules2/approved/mine.py", PLACE, False, id="another bucket"),
        pytest.param("s3://rules/approved/../mine.py", PLACE, False, id="up"),
        pytest.param("s3://rules/approved/./mine.py", PLACE, False, id="dot"),
        pytest.param("s3://rules/approved//mine.py", PLACE, False, id="two slashes"),
        pytest.param("mine.py", "", False, id="no place"),
        pytest.param("s3://rules/mine.py", "", False, id="below nothing lies nothing"),
    ],
)
def test_what_lies_below(source: str, place: str, lies: bool) -> None:
    assert lies_below(source, place) is lies


def test_rules_from_files_there_are_judged_apart() -> None:
    ours = RuleConfiguration("Mine", name="ours", source=f"{PLACE}/mine.py")
    old = RuleConfiguration("s", "s", {"source_s3_uri": f"{PLACE}/mine.py", "rule_to_invoke": "Mine"})
    others = (
        RuleConfiguration("overfit"),
        RuleConfiguration("Mine", name="elsewhere", source="s3://runs/mine.py"),
        RuleConfiguration("Mine", name="n" * 257, source=f"{PLACE}/mine.py"),
    )
    assert judged_separately(RuleRequest((ours, *others, old)), place=PLACE) == (ours, old)
    assert judged_separately(RuleRequest((ours, *others, old)), place="") == ()


def test_not_more_than_so_many() -> None:
    many = tuple(RuleConfiguration("Mine", name=str(k), source=f"{PLACE}/mine.py") for k in range(MOST_JOBS + 5))
    assert judged_separately(RuleRequest(many), place=PLACE) == many[:MOST_JOBS]


@given(TEXT, TEXT, st.lists(st.sampled_from(Action), unique=True))
def test_a_job_comes_back_from_its_environment(configuration: str, rule: str, actions: list[Action]) -> None:
    job = CustomRuleJob(TrainingJob("j", "arn:j"), "s3://runs/j", configuration, rule, tuple(actions), PLACE)
    assert CustomRuleJob.from_environment(job.to_environment()) == job


@pytest.mark.parametrize("missing", ["TRACKSIDE_RUN", "TRACKSIDE_RULE_CONFIGURATION", "TRAINING_JOB_ARN"])
def test_the_environment_of_another_job_is_none(missing: str) -> None:
    whole = CustomRuleJob(TrainingJob("j", "arn:j"), "s3://runs/j", "c", "r").to_environment()
    assert CustomRuleJob.from_environment({**whole, missing: ""}) is None
    assert CustomRuleJob.from_environment({}) is None


@given(TEXT, st.integers(0, 10**12), st.text(max_size=200), st.sampled_from(Severity))
def test_an_issue_comes_back_from_the_exit_message(name: str, step: int, said: str, severity: Severity) -> None:
    sentence = issue_sentence(configuration=name, step=step, message=said, severity=severity)
    ending = read_ending(job_status="Completed", exit_message=sentence, failure_reason="", configuration=name)
    assert ending is not None
    assert (ending.status, ending.step, ending.severity) == (RuleEvaluationStatus.ISSUES_FOUND, step, severity)
    assert said.strip() in ending.details


@given(st.sampled_from(["Completed", "Failed", "Stopped"]), st.text(max_size=80), st.text(max_size=80))
def test_no_word_is_no_issue_unless_it_says_so(status: str, said: str, reason: str) -> None:
    ending = read_ending(job_status=status, exit_message=said, failure_reason=reason, configuration="c")
    assert ending is not None
    assert ending.details
    assert (ending.status is RuleEvaluationStatus.NO_ISSUES_FOUND) == (
        status == "Completed" and said.startswith("No issue found")
    )
