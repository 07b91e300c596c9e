"""Which processing job judges which training job."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambdas.shared.decisions import Nothing
from lambdas.shared.processing_jobs import processing_job_name
from lambdas.start_evaluation.logic import StartEvaluation, decide, decide_custom
from lambdas.start_evaluation.settings import StartEvaluationSettings
from tests.lambda_settings import made
from trackside.contracts.action import Action
from trackside.contracts.deployment.custom_rule_job import MOST_JOBS, CustomRuleJob
from trackside.contracts.event import TrainingJob, TrainingJobStateChange
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"
STARTED = TrainingJobStateChange(
    job=TrainingJob("digits-01", ARN),
    status="InProgress",
    secondary_status="Training",
    tags={"trackside:run": "s3://runs-bucket/team/digits-01"},
)
SETTINGS = made(
    StartEvaluationSettings,
    image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/trackside-evaluator:0.1.0",
    role_arn="arn:aws:iam::123456789012:role/evaluator",
    run_bucket="runs-bucket",
    event_bus="trackside",
)
JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")  # API_CreateProcessingJob


def tagged(uri: str) -> TrainingJobStateChange:
    return replace(STARTED, tags={"trackside:run": uri})


def test_the_request_says_what_to_run_and_for_whom() -> None:
    decision = decide(
        STARTED, replace(SETTINGS, instance_type="ml.m5.large", volume_gb=5, max_runtime_seconds=60, poll_seconds=5)
    )
    assert isinstance(decision, StartEvaluation)
    request = decision.request
    assert request["ProcessingJobName"] == decision.name
    assert request["AppSpecification"] == {"ImageUri": SETTINGS.image_uri}
    assert request["RoleArn"] == SETTINGS.role_arn
    assert request["Environment"] == {
        "TRACKSIDE_RUN": "s3://runs-bucket/team/digits-01",
        "TRACKSIDE_EVENT_BUS": "trackside",
        "TRAINING_JOB_NAME": "digits-01",
        "TRAINING_JOB_ARN": ARN,
        "TRACKSIDE_POLL_SECONDS": "5",
    }
    assert request["ProcessingResources"]["ClusterConfig"] == {
        "InstanceCount": 1,
        "InstanceType": "ml.m5.large",
        "VolumeSizeInGB": 5,
    }
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 60}
    assert {"Key": "trackside:training-job", "Value": ARN} in request["Tags"]


@pytest.mark.parametrize(
    ("cost_tags", "carried"),
    [
        pytest.param(("project=trackside",), {"project": "trackside"}, id="as always"),
        pytest.param(
            ("project=vision", "cost-center=a=b"), {"project": "vision", "cost-center": "a=b"}, id="as chosen"
        ),
        pytest.param((), {}, id="none"),
    ],
)
def test_a_processing_job_is_paid_by_whom_the_tags_say(cost_tags: tuple[str, ...], carried: dict[str, str]) -> None:
    decision = decide(STARTED, replace(SETTINGS, cost_tags=cost_tags))
    assert isinstance(decision, StartEvaluation)
    tags = {tag["Key"]: tag["Value"] for tag in decision.request["Tags"]}
    assert {name: value for name, value in tags.items() if not name.startswith("trackside:")} == carried


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(STARTED, id="training"),
        pytest.param(replace(STARTED, secondary_status="Starting"), id="not yet training"),
        pytest.param(tagged("s3://runs-bucket/team/digits-01/"), id="slash at the end"),
        pytest.param(tagged("s3://runs-bucket/x"), id="short prefix"),
        pytest.param(tagged(f"s3://runs-bucket/{'x' * 239}"), id="256 characters"),
    ],
)
def test_starts(change: TrainingJobStateChange) -> None:
    decision = decide(change, SETTINGS)
    assert isinstance(decision, StartEvaluation)
    assert all(len(value) <= 256 for value in decision.request["Environment"].values())


@pytest.mark.parametrize(
    ("change", "surprising", "word"),
    [
        pytest.param(replace(STARTED, status="Stopping"), False, "Stopping", id="stopping"),
        pytest.param(replace(STARTED, status="Completed"), False, "Completed", id="completed"),
        pytest.param(replace(STARTED, tags={"team": "vision"}), False, "trackside:run", id="not opted in"),
        pytest.param(tagged(""), False, "trackside:run", id="empty tag"),
        pytest.param(tagged("/local/folder"), True, "s3://runs-bucket/<prefix>", id="no S3 location"),
        pytest.param(tagged("s3://runs-bucket"), True, "s3://runs-bucket/<prefix>", id="a bucket alone"),
        pytest.param(tagged("s3://runs-bucket/a b"), True, "s3://runs-bucket/<prefix>", id="a space"),
        pytest.param(tagged("s3://others-bucket/run"), True, "s3://runs-bucket", id="another bucket"),
        pytest.param(tagged(f"s3://runs-bucket/{'x' * 240}"), True, "TRACKSIDE_RUN", id="257 characters"),
    ],
)
def test_starts_nothing_and_says_why(change: TrainingJobStateChange, surprising: bool, word: str) -> None:
    decision = decide(change, SETTINGS)
    assert isinstance(decision, Nothing)
    assert decision.surprising is surprising
    assert word in decision.reason


@given(name=st.text(min_size=1, max_size=80), number=st.integers(0, 10**6))
def test_every_name_is_one_that_sagemaker_accepts(name: str, number: int) -> None:
    job = TrainingJob(name, f"{ARN}-{number}")
    assert JOB_NAME.fullmatch(processing_job_name(job))
    assert processing_job_name(job) == processing_job_name(job)


@given(st.sets(st.from_regex(r"[a-z0-9]{60}[a-c-]{0,3}", fullmatch=True), min_size=2, max_size=20))
def test_no_two_jobs_share_a_name(names: set[str]) -> None:
    ours = {processing_job_name(TrainingJob(name, f"{ARN}/{name}")) for name in names}
    assert len(ours) == len(names)


def test_a_name_shows_the_training_job() -> None:
    assert processing_job_name(STARTED.job).startswith("trackside-digits-01-")


PLACE = "s3://rules-bucket/approved"
WITH_CUSTOM_RULES = replace(
    SETTINGS,
    custom_rules_from=PLACE,
    custom_rule_image_uri="custom-rule:0.1.0",
    custom_rule_role_arn="arn:aws:iam::123456789012:role/custom-rule",
)
RUN = RunLocation("s3://runs-bucket/team/digits-01")


def decided(*rules: RuleConfiguration) -> list[StartEvaluation | Nothing]:
    return list(decide_custom(STARTED.job, RUN, RuleRequest(rules), WITH_CUSTOM_RULES))


def test_a_rule_from_a_file_gets_a_job_with_a_role_of_its_own() -> None:
    mine = RuleConfiguration(
        "Mine", name="mine", parameters={"threshold": "5" * 1000}, source=f"{PLACE}/a/mine.py", actions=tuple(Action)
    )
    (start,) = decided(RuleConfiguration("exploding-tensor"), mine)
    assert isinstance(start, StartEvaluation)
    assert start.request["ProcessingJobName"] == start.name != processing_job_name(STARTED.job)
    assert start.request["RoleArn"] == WITH_CUSTOM_RULES.custom_rule_role_arn
    assert start.request["AppSpecification"] == {"ImageUri": "custom-rule:0.1.0"}
    environment = start.request["Environment"]
    assert all(len(value) <= 256 for value in environment.values())
    assert "TRACKSIDE_EVENT_BUS" not in environment
    assert CustomRuleJob.from_environment(environment) == CustomRuleJob(
        training_job=STARTED.job, run_uri=RUN.uri, configuration="mine", rule="Mine", actions=tuple(Action), place=PLACE
    )


def test_the_evaluator_is_told_what_is_left_to_others() -> None:
    decision = decide(STARTED, WITH_CUSTOM_RULES)
    assert isinstance(decision, StartEvaluation)
    assert decision.request["Environment"]["TRACKSIDE_CUSTOM_RULES_FROM"] == PLACE
    assert decision.request["RoleArn"] == SETTINGS.role_arn


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("s3://runs-bucket/team/digits-01/mine.py", id="beside the run, where its owner writes"),
        pytest.param("s3://rules-bucket/approved-not/mine.py", id="a prefix that begins alike"),
        pytest.param("s3://rules-bucket/approved/../mine.py", id="dots"),
        pytest.param("s3://rules-bucket/approved/", id="no file"),
        pytest.param("mine.py", id="a path"),
        pytest.param("https://example.com/approved/mine.py", id="elsewhere"),
    ],
)
def test_a_file_from_elsewhere_is_not_run(source: str) -> None:
    (nothing,) = decided(RuleConfiguration("Mine", source=source))
    assert isinstance(nothing, Nothing)
    assert nothing.surprising
    assert PLACE in nothing.reason


def test_a_request_starts_no_more_jobs_than_sagemaker_debugger_would() -> None:
    many = [RuleConfiguration("Mine", name=f"mine-{k}", source=f"{PLACE}/mine.py") for k in range(MOST_JOBS + 2)]
    starts = decided(*many)
    assert [isinstance(each, StartEvaluation) for each in starts] == [True] * MOST_JOBS + [False] * 2
    assert len({each.name for each in starts if isinstance(each, StartEvaluation)}) == MOST_JOBS


def test_a_name_that_fits_into_no_variable_starts_nothing() -> None:
    (nothing,) = decided(RuleConfiguration("Mine", name="m" * 257, source=f"{PLACE}/mine.py"))
    assert isinstance(nothing, Nothing)


@given(st.text(max_size=80), st.text(max_size=80))
def test_the_jobs_of_two_rules_have_two_names(one: str, other: str) -> None:
    names = {processing_job_name(STARTED.job, one), processing_job_name(STARTED.job, other)}
    assert len(names) == len({one, other})
    assert all(JOB_NAME.fullmatch(name) for name in names)
