"""Which values the settings take that say what judges runs."""

from __future__ import annotations

from typing import Any

import pytest

from stacks.deployment_settings import DeploymentSettings
from stacks.settings.fleet import FARGATE_MEMORY_MB
from trackside.contracts.errors import ConfigurationError


def settings(**given: Any) -> DeploymentSettings:
    return DeploymentSettings.from_context({f"trackside:{name}": value for name, value in given.items()})


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"evaluator_mode": "per-rule", "evaluator_most_rule_jobs": "1"}, id="one for each rule"),
        pytest.param({"evaluator_mode": "fleet"}, id="a fleet as it comes"),
        pytest.param({"fleet_least_workers": 0, "fleet_most_workers": 1}, id="none while nothing trains"),
        pytest.param({"fleet_least_workers": 3, "fleet_most_workers": 3}, id="always as many"),
        *[
            pytest.param({"fleet_cpu_units": cpu, "fleet_memory_mb": memory}, id=f"{cpu} units, {memory} MB")
            for cpu, (least, most, step) in FARGATE_MEMORY_MB.items()
            for memory in (least, least + step, most)
        ],
    ],
)
def test_takes(given: dict[str, Any]) -> None:
    for name, value in given.items():
        assert str(settings(**given).by_key()[name]) == str(value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"evaluator_mode": "per_rule"}, "Did you mean 'per-rule'?", id="a slip of the pen"),
        pytest.param({"evaluator_mode": ""}, "per-job, per-rule, fleet", id="no mode"),
        pytest.param({"evaluator_most_rule_jobs": 0}, "1 to 100", id="no job"),
        pytest.param({"fleet_runs_per_worker": 0}, "1 to 200", id="workers that judge nothing"),
        pytest.param({"fleet_least_workers": 11}, "is more than fleet_most_workers, 10.", id="more than at most"),
        pytest.param({"fleet_cpu_units": 1000}, "Fargate offers", id="no size of Fargate's"),
        pytest.param({"fleet_cpu_units": 512, "fleet_memory_mb": 8192}, "1024 to 4096", id="too much memory for it"),
        pytest.param({"fleet_memory_mb": 2500}, "in steps of 1024", id="between two sizes"),
    ],
)
def test_refuses_and_says_what_would_work(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        settings(**given)
    assert said in str(error.value)
