"""A job is stopped where it is, or not at all: never one of the same name somewhere else."""

from __future__ import annotations

import boto3
import pytest
from moto import mock_aws

from lambdas.shared.decisions import Nothing
from lambdas.stop_training.job_account import account_to_enter, sagemaker_in
from lambdas.stop_training.settings import StopTrainingSettings
from tests.lambda_settings import made

FUNCTION = "arn:aws:lambda:eu-central-1:123456789012:function:TracksideAction-StopTraining"
SETTINGS = made(
    StopTrainingSettings,
    idempotency_table="done",
    run_table="runs",
    queue_url="queue",
    topic_arn="topic",
    dry_run_parameter="/dry-run",
    spoke_accounts=("210987654321", "310987654321"),
    spoke_role="trackside-spoke-eu-central-1",
    external_id="trackside",
)


def job(account: str, region: str = "eu-central-1") -> str:
    return f"arn:aws:sagemaker:{region}:{account}:training-job/digits-01"


@pytest.mark.parametrize(
    ("arn", "account"),
    [
        pytest.param(job("123456789012"), "", id="of this account"),
        pytest.param(job("210987654321"), "210987654321", id="of a spoke"),
        pytest.param(job("310987654321"), "310987654321", id="of another spoke"),
    ],
)
def test_knows_where_a_job_is(arn: str, account: str) -> None:
    assert account_to_enter(arn, SETTINGS, function_arn=FUNCTION) == account


@pytest.mark.parametrize(
    "arn",
    [
        pytest.param(job("999999999999"), id="of an account that is no spoke"),
        pytest.param(job("123456789012", "us-east-1"), id="of another region"),
        pytest.param(job("210987654321", "us-east-1"), id="of another region of a spoke"),
        pytest.param(job("21098765432"), id="of an account whose number begins like a spoke's"),
        pytest.param(job(""), id="of no account"),
        pytest.param(job("210987654321,310987654321"), id="of all spokes"),
    ],
)
def test_refuses_every_other_job_aloud(arn: str) -> None:
    answer = account_to_enter(arn, SETTINGS, function_arn=FUNCTION)
    assert isinstance(answer, Nothing)
    assert answer.surprising
    assert "another account or region" in answer.reason


def test_enters_a_spoke_by_the_role_there() -> None:
    with mock_aws():
        there = sagemaker_in("210987654321", SETTINGS, function_arn=FUNCTION)
        assert there.meta.region_name == boto3.client("sagemaker").meta.region_name
        credentials = there._request_signer._credentials
        assert credentials.access_key.startswith("ASIA"), "temporary ones, of the role"
