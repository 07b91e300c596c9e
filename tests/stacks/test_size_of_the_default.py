"""The default deployment stays small: resources, functions, alarms, and the bill of a month in which nothing trains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.scale.cost import MONTH_HOURS, deployed_resources, idle_lines, read_prices
from stacks.deployment_settings import DeploymentSettings

# docs/decisions/0061-fewer-resources.md. Whoever needs more writes down what a platform team would miss without it.
MOST_RESOURCES, MOST_FUNCTIONS, MOST_ALARMS, MOST_IDLE_USD = 100, 5, 15, 6.0


@pytest.fixture(scope="module")
def resources() -> Mapping[str, Mapping[str, Any]]:
    return deployed_resources()


def test_the_default_deployment_has_few_parts(resources: Mapping[str, Mapping[str, Any]]) -> None:
    kinds = Counter(body["Type"] for body in resources.values())
    more = "make it only where a setting asks for it, or carry it out in a function that is there (`carried_out_by`)"
    assert len(resources) <= MOST_RESOURCES, f"{more}; there are {kinds.most_common()}"
    assert 0 < kinds["AWS::Lambda::Function"] <= MOST_FUNCTIONS, more
    assert 0 < kinds["AWS::CloudWatch::Alarm"] <= MOST_ALARMS, more


def test_a_month_in_which_nothing_trains_costs_little(resources: Mapping[str, Mapping[str, Any]]) -> None:
    sweeps = round(MONTH_HOURS * 60 / DeploymentSettings().monitoring.reconcile_minutes)
    lines = idle_lines(resources, read_prices(), sweeps=sweeps)
    assert 1.0 < sum(line.total for line in lines) < MOST_IDLE_USD
