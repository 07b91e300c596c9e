"""What of an event is kept, and what of it is news."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lambdas.record_verdict.logic import decide, read
from lambdas.shared.decisions import Nothing
from trackside.contracts.deployment.run_table import HistoryRecord, RuleRecord, merged
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob

JOB = TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01")
ISSUE = RuleEvaluation(
    JOB, "dead-relu", RuleEvaluationStatus.ISSUES_FOUND, "dead", actions=(), modified_at=100, evidence=Evidence(step=7)
)
CLEAN = replace(ISSUE, status=RuleEvaluationStatus.NO_ISSUES_FOUND, modified_at=200)
OFFICIAL = replace(ISSUE, actions=None)


def test_reads_our_event(golden: Any) -> None:
    told = read(golden("ours_issues_found"))
    assert told.job is None
    ((said),) = told.history
    assert said.event_id == "6a7e8feb-b491-4cf7-a9f1-bf3703467718"
    assert said.evaluation.finding_id == "vanishing-gradient@120"


def test_reads_the_state_of_a_job_and_all_that_it_runs_on(golden: Any) -> None:
    event = golden(
        "training_stopped",
        TrainingStartTime=1795226610000,
        TrainingEndTime="",
        ResourceConfig={"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
        StoppingCondition={"MaxRuntimeInSeconds": 86400},
    )
    job = read(event).job
    assert job is not None
    assert (job.status, job.run_uri) == ("Stopped", "s3://runs-bucket/digits-01")
    assert (job.created_at, job.started_at, job.ended_at) == (1795226600, 1795226610, 0)
    assert (job.instance_type, job.instance_count, job.max_runtime_seconds) == ("ml.p4d.24xlarge", 2, 86400)


@pytest.mark.parametrize(
    ("tags", "run_uri"),
    [
        pytest.param({"trackside:run": "s3://b/tuning-7/@job"}, "s3://b/tuning-7/digits-01", id="one run for each job"),
        pytest.param({"trackside:run": "s3://b/r", "trackside:watch": "yes"}, "s3://b/r", id="watched"),
        pytest.param({"trackside:run": "s3://b/r", "trackside:watch": "status"}, "", id="its states only"),
        pytest.param({"trackside:run": "s3://b/r", "trackside:watch": "no"}, "", id="not watched"),
    ],
)
def test_a_jobs_run_is_where_rules_judge_it(golden: Any, tags: dict[str, str], run_uri: str) -> None:
    job = read(golden("training_started", Tags=tags)).job
    assert job is not None
    assert job.run_uri == run_uri


@pytest.mark.parametrize("status", ["InProgress", "Stopping", "Completed", "Failed", "Stopped"])
def test_reads_official_statuses_in_every_state_of_the_job(golden: Any, status: str) -> None:
    told = read(golden("official_issues_found", TrainingJobStatus=status))
    assert [one.evaluation.configuration_name for one in told.history] == ["LossNotDecreasing", "VanishingGradient"]
    assert told.job is not None
    assert told.job.status == status


def test_a_status_without_a_moment_has_that_of_its_event(golden: Any) -> None:
    statuses = [{"RuleConfigurationName": "Overfit", "RuleEvaluationStatus": "InProgress"}]
    (said,) = read(golden("official_issues_found", DebugRuleEvaluationStatuses=statuses)).history
    assert said.evaluation.modified_at == 1795226674


@pytest.mark.parametrize(
    ("known", "now"),
    [
        pytest.param(None, ISSUE, id="the first"),
        pytest.param(CLEAN, replace(ISSUE, modified_at=300), id="it came back"),
        pytest.param(ISSUE, CLEAN, id="it recovered"),
        pytest.param(CLEAN, ISSUE, id="it recovered, and the issue's event is late"),
        pytest.param(ISSUE, replace(ISSUE, evidence=Evidence(since_step=9)), id="another finding"),
        pytest.param(ISSUE, replace(ISSUE, details="more dead"), id="another sentence"),
    ],
)
def test_is_news(known: RuleEvaluation | None, now: RuleEvaluation) -> None:
    record = decide(HistoryRecord(now), merged(None, known) if known else None)
    assert isinstance(record, RuleRecord)
    assert record.revision == (2 if known else 1)


@pytest.mark.parametrize(
    ("known", "now"),
    [
        pytest.param(ISSUE, ISSUE, id="a duplicate"),
        pytest.param(ISSUE, replace(ISSUE, modified_at=101), id="said again later"),
        pytest.param(OFFICIAL, replace(OFFICIAL, modified_at=150), id="official, repeated on the next state change"),
        pytest.param(OFFICIAL, replace(OFFICIAL, modified_at=50), id="official, an older one"),
        pytest.param(CLEAN, replace(CLEAN, modified_at=999), id="still clean"),
    ],
)
def test_is_known(known: RuleEvaluation, now: RuleEvaluation) -> None:
    assert isinstance(decide(HistoryRecord(now), merged(None, known)), Nothing)
