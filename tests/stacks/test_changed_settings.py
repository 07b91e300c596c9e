"""Any setting of a deployment may be changed later, in either direction: CloudFormation refuses no step of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from stacks.deployment_settings import PREFIX, DeploymentSettings
from stacks.settings.setting import declared_settings
from tests.stacks.changed_settings import ELSEWHERE, Context, changes, refusals, synthesize, together

pytestmark = pytest.mark.xdist_group("changed-settings")  # one synthesis of each for all tests of this file
SETTINGS = sorted(one.key for one in declared_settings(DeploymentSettings))


@cache
def contexts() -> list[Context]:
    """Return the fewest deployments that together have another value in every setting."""
    away = {key.partition("=")[0]: after for key, _, after in changes() if key.partition("=")[0] not in ELSEWHERE}
    away["evaluator_mode"] = {f"{PREFIX}evaluator_mode": "fleet"}
    return together([(key, {}, after) for key, after in away.items()])


@cache
def default() -> Mapping[str, Mapping[str, Any]]:
    return synthesize({})


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_deployment_with_another_value_of_each_setting_is_known(setting: str) -> None:
    assert setting in ELSEWHERE or any(f"{PREFIX}{setting}" in context for context in contexts())


@pytest.mark.parametrize("direction", ["away from the defaults", "back to them"])
def test_no_change_is_refused(direction: str) -> None:
    assert len(contexts()) <= 2, "each costs seconds"
    for context in contexts():
        other = synthesize(context)
        assert set(other) >= set(default())
        found = refusals(default(), other) if direction.startswith("away") else refusals(other, default())
        assert found == []
