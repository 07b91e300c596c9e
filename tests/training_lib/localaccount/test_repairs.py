"""Each repair of moto: stock moto still needs it, and with it moto does as it should."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from trackside_localaccount import LocalAccount, moto_cloudformation, repairs
from trackside_localaccount.moto_cloudformation import Repair

pytestmark = pytest.mark.xdist_group("moto-repairs")  # the probes run once for all tests of this file
PROBES = {"repairs_probes.py": repairs.REPAIRS, "moto_cloudformation_probes.py": moto_cloudformation.REPAIRS}
EACH = [pytest.param(file, repair, id=repair.name) for file, some in PROBES.items() for repair in some]


@cache
def probe(file: str, moto: str) -> Mapping[str, str | None]:
    """Probe -> what went wrong, in a process with stock or repaired moto."""
    command = [sys.executable, str(Path(__file__).with_name(file)), moto]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    answers: dict[str, str | None] = json.loads(outcome.stdout.splitlines()[-1])
    return answers


@pytest.mark.parametrize(("file", "repair"), EACH)
def test_stock_moto_still_needs_the_repair(file: str, repair: Repair) -> None:
    wrong = probe(file, "stock")[repair.name]
    assert wrong is not None, f"moto does it right now: remove the repair ({repair.stock_moto})"


@pytest.mark.parametrize(("file", "repair"), EACH)
def test_the_repair_mends_it(file: str, repair: Repair) -> None:
    assert probe(file, "repaired")[repair.name] is None


@pytest.mark.parametrize("file", PROBES)
def test_every_repair_has_its_probe(file: str) -> None:
    assert sorted(probe(file, "repaired")) == sorted(repair.name for repair in PROBES[file])


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
