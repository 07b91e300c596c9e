"""Each repair of moto's CloudFormation: stock moto still needs it, and with it CloudFormation does as it should."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from trackside.testing.local_account.moto_cloudformation import REPAIRS, Repair

pytestmark = pytest.mark.xdist_group("moto-cloudformation")  # the probes run once for all tests of this file
PROBES = Path(__file__).with_name("moto_cloudformation_probes.py")


def probe(moto: str) -> Mapping[str, str | None]:
    """Probe -> what went wrong, in a process with stock or repaired moto."""
    outcome = subprocess.run(
        [sys.executable, str(PROBES), moto], capture_output=True, text=True, check=True, timeout=120
    )
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
