"""Each repair of moto: stock moto still needs it, and with it moto does as it should."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from trackside.testing.local_account import LocalAccount, repairs
from trackside.testing.local_account.moto_cloudformation import Repair
from trackside.testing.local_account.repairs import REPAIRS

pytestmark = pytest.mark.xdist_group("moto-repairs")  # the probes run once for all tests of this file
PROBES = Path(__file__).with_name("repairs_probes.py")


def probe(moto: str) -> Mapping[str, str | None]:
    """Probe -> what went wrong, in a process with stock or repaired moto."""
    command = [sys.executable, str(PROBES), moto]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    answers: dict[str, str | None] = json.loads(outcome.stdout.splitlines()[-1])
    return answers


@pytest.fixture(scope="module")
def stock() -> Mapping[str, str | None]:
    return probe("stock")


@pytest.fixture(scope="module")
def repaired() -> Mapping[str, str | None]:
    return probe("repaired")


def name_of(repair: Repair) -> str:
    return repair.name


@pytest.mark.parametrize("repair", REPAIRS, ids=name_of)
def test_stock_moto_still_needs_the_repair(stock: Mapping[str, str | None], repair: Repair) -> None:
    assert stock[repair.name] is not None, f"moto does it right now: remove the repair ({repair.stock_moto})"


@pytest.mark.parametrize("repair", REPAIRS, ids=name_of)
def test_the_repair_mends_it(repaired: Mapping[str, str | None], repair: Repair) -> None:
    assert repaired[repair.name] is None


def test_every_repair_has_its_probe(repaired: Mapping[str, str | None]) -> None:
    assert sorted(repaired) == sorted(repair.name for repair in REPAIRS)


def test_without_an_account_moto_is_as_it_was() -> None:
    """`mock_aws` tests in the same process must not change because an account was open before."""
    import boto3
    from moto import mock_aws

    repairs.apply()
    with mock_aws():
        sagemaker = boto3.client("sagemaker", "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        with pytest.raises(NotImplementedError):
            sagemaker.stop_training_job(TrainingJobName="j")


def test_a_second_account_at_the_same_time_is_refused() -> None:
    with LocalAccount(), pytest.raises(RuntimeError, match="Another local account is open"):
        LocalAccount()
