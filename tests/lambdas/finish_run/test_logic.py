"""Where the end of a run is marked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lambdas.finish_run.logic import MarkEnd, decide
from lambdas.finish_run.settings import FinishRunSettings
from lambdas.shared.decisions import Nothing
from tests.lambda_settings import made
from trackside.contracts.event import TERMINAL_JOB_STATUSES, TrainingJob, TrainingJobStateChange

ENDED = TrainingJobStateChange(
    job=TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"),
    status="Failed",
    secondary_status="Failed",
    tags={"trackside:run": "s3://runs-bucket/team/digits-01/"},
)
SETTINGS = made(FinishRunSettings, run_bucket="runs-bucket")


@pytest.mark.parametrize("status", TERMINAL_JOB_STATUSES)
def test_marks_the_end_however_the_job_ended(status: str) -> None:
    folder = "team/digits-01"
    marker, owner = f"{folder}/debug-output/training_job_end.ts", f"{folder}/rule-output/training-job.txt"
    expected = MarkEnd("runs-bucket", marker, owner, ENDED.job)
    assert decide(replace(ENDED, status=status), SETTINGS) == expected


def test_of_an_address_that_many_jobs_share_the_jobs_own_run_is_marked() -> None:
    shared = replace(ENDED, tags={"trackside:run": "s3://runs-bucket/tuning-7/@job"})
    decision = decide(shared, SETTINGS)
    assert isinstance(decision, MarkEnd)
    assert decision.key == "tuning-7/digits-01/debug-output/training_job_end.ts"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(replace(ENDED, status="InProgress"), id="running"),
        pytest.param(replace(ENDED, status="Stopping"), id="stopping: it may still write"),
        pytest.param(replace(ENDED, tags={}), id="not opted in"),
        pytest.param(replace(ENDED, tags={"trackside:run": "s3://others/run"}), id="another bucket"),
        pytest.param(replace(ENDED, tags={"trackside:run": "nonsense"}), id="no location"),
        pytest.param(replace(ENDED, tags={**ENDED.tags, "trackside:watch": "status"}), id="its states only"),
        pytest.param(replace(ENDED, tags={**ENDED.tags, "trackside:watch": "no"}), id="not watched"),
    ],
)
def test_marks_nothing(change: TrainingJobStateChange) -> None:
    assert isinstance(decide(change, SETTINGS), Nothing)
