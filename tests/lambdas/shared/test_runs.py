"""Which run a training job may name: of this deployment, and of its own account."""

from __future__ import annotations

import pytest

from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import account_of, find_run, is_in
from trackside.contracts.event import TrainingJob, TrainingJobStateChange
from trackside.contracts.run_layout import RunLocation

OWN, SPOKE, OTHER = "123456789012", "210987654321", "310987654321"


def tagged(uri: str, *, account: str = OWN) -> TrainingJobStateChange:
    arn = f"arn:aws:sagemaker:us-east-1:{account}:training-job/digits"
    return TrainingJobStateChange(TrainingJob("digits", arn), "InProgress", "Training", tags={"trackside:run": uri})


def found(change: TrainingJobStateChange) -> RunLocation | Nothing:
    return find_run(change, bucket="runs-bucket", spoke_accounts=(SPOKE, OTHER))


@pytest.mark.parametrize(
    ("uri", "account"),
    [
        pytest.param("s3://runs-bucket/digits", OWN, id="of this account"),
        pytest.param(f"s3://runs-bucket/{SPOKE}/digits", OWN, id="of this account, wherever it wants"),
        pytest.param(f"s3://runs-bucket/{SPOKE}/digits", SPOKE, id="of a spoke, in its own place"),
    ],
)
def test_finds_the_run(uri: str, account: str) -> None:
    assert found(tagged(uri, account=account)) == RunLocation(uri)


@pytest.mark.parametrize(
    ("uri", "account"),
    [
        pytest.param("s3://runs-bucket/digits", SPOKE, id="a run of the hub"),
        pytest.param(f"s3://runs-bucket/{OTHER}/digits", SPOKE, id="a run of another spoke"),
        pytest.param(f"s3://runs-bucket/{SPOKE}0/digits", SPOKE, id="a place that begins like its own"),
        pytest.param(f"s3://runs-bucket/{SPOKE}", SPOKE, id="all of its own place"),
        pytest.param(f"s3://other-bucket/{SPOKE}/digits", SPOKE, id="another bucket"),
        pytest.param("s3://runs-bucket-2/digits", OWN, id="a bucket that begins like ours"),
        pytest.param("s3://runs-bucket/../digits\n", OWN, id="a line break"),
    ],
)
def test_refuses_aloud(uri: str, account: str) -> None:
    answer = found(tagged(uri, account=account))
    assert isinstance(answer, Nothing)
    assert answer.surprising


@pytest.mark.parametrize(
    ("uri", "is_ours"),
    [
        pytest.param("s3://runs-bucket/digits", True, id="in it"),
        pytest.param("s3://runs-bucket-staging/digits", False, id="in one that begins alike"),
        pytest.param("", False, id="no tag"),
    ],
)
def test_knows_its_own_bucket(uri: str, is_ours: bool) -> None:
    assert is_in("runs-bucket", uri) is is_ours


@pytest.mark.parametrize(
    ("arn", "account"),
    [
        pytest.param("arn:aws:sagemaker:us-east-1:123456789012:training-job/a", OWN, id="an ARN"),
        pytest.param("arn:aws-cn:sagemaker:cn-north-1:123456789012:training-job/a:b", OWN, id="of China"),
        pytest.param("digits", "", id="a name"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_account_of(arn: str, account: str) -> None:
    assert account_of(arn) == account
