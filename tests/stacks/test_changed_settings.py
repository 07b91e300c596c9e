"""Any setting of a deployment may be changed later, in either direction: CloudFormation refuses no step of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from stacks.deployment_settings import PREFIX, DeploymentSettings
from stacks.settings.setting import declared_settings
from tests.stacks.changed_settings import ELSEWHERE, Context, Templates, changes, refusals, synthesize, together
from trackside.contracts.deployment.wildcards import MOST_COMPLEX, wildcard_complexity
from trackside_localaccount.event_pattern import check_pattern

pytestmark = pytest.mark.xdist_group("changed-settings")  # one synthesis of each for all tests of this file
SETTINGS = sorted(one.key for one in declared_settings(DeploymentSettings))


@cache
def contexts() -> list[Context]:
    """Return the fewest deployments that together have another value in every setting."""
    away = {key.partition("=")[0]: after for key, _, after in changes() if key.partition("=")[0] not in ELSEWHERE}
    away["evaluator_mode"] = {f"{PREFIX}evaluator_mode": "fleet"}
    return together([(key, {}, after) for key, after in away.items()])


@cache
def others() -> list[Templates]:
    return [synthesize(context) for context in contexts()]


@cache
def default() -> Templates:
    return synthesize({})


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_deployment_with_another_value_of_each_setting_is_known(setting: str) -> None:
    assert setting in ELSEWHERE or any(f"{PREFIX}{setting}" in context for context in contexts())


@pytest.mark.parametrize("direction", ["away from the defaults", "back to them"])
def test_no_change_is_refused(direction: str) -> None:
    assert len(contexts()) <= 2, "each costs seconds"
    for other in others():
        assert set(other) >= set(default())
        found = refusals(default(), other) if direction.startswith("away") else refusals(other, default())
        assert found == []


def test_eventbridge_takes_the_rules_of_every_deployment() -> None:
    patterns = [
        body["Properties"]["EventPattern"]
        for templates in (default(), *others())
        for template in templates.values()
        for body in template["Resources"].values()
        if body["Type"] == "AWS::Events::Rule" and "EventPattern" in body["Properties"]
    ]
    assert len(patterns) > 25
    for pattern in patterns:
        check_pattern(_with_texts(pattern))
        assert len(json.dumps(pattern)) <= 2_048
        assert max(map(wildcard_complexity, _wildcards(pattern)), default=0) <= MOST_COMPLEX


def _with_texts(value: Any) -> Any:
    """Return a pattern with a text in the place of each function of CloudFormation."""
    if isinstance(value, Mapping):
        is_function = any(name == "Ref" or name.startswith("Fn::") for name in value)
        return "text" if is_function else {name: _with_texts(inner) for name, inner in value.items()}
    return [_with_texts(each) for each in value] if isinstance(value, list) else value


def _wildcards(value: Any) -> Iterator[list[str]]:
    """Yield the wildcards of each field."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _wildcards(inner)
    elif isinstance(value, list):
        yield [each["wildcard"] for each in value if isinstance(each, Mapping) and "wildcard" in each]
