"""Settings on their way through a function's environment."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lambdas.shared.settings import EnvironmentSettings
from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError


@dataclass(frozen=True)
class ExampleSettings(EnvironmentSettings):
    name: str
    count: int = 1
    dry_run: bool = False
    actions: tuple[Action, ...] = ()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(ExampleSettings(name="a"), id="defaults"),
        pytest.param(ExampleSettings(name="", count=0, dry_run=True, actions=tuple(Action)), id="everything else"),
    ],
)
def test_come_back_as_they_went(settings: ExampleSettings) -> None:
    assert ExampleSettings.from_environment(settings.to_environment()) == settings


def test_say_every_problem_at_once() -> None:
    environment = {"TRACKSIDE_COUNT": "many", "TRACKSIDE_DRY_RUN": "yes", "TRACKSIDE_ACTIONS": "Explode"}
    with pytest.raises(ConfigurationError) as raised:
        ExampleSettings.from_environment(environment)
    assert [problem.where for problem in raised.value.problems] == [
        "TRACKSIDE_NAME",
        "TRACKSIDE_COUNT",
        "TRACKSIDE_DRY_RUN",
        "TRACKSIDE_ACTIONS",
    ]


def test_pass_over_variables_of_others() -> None:
    environment = {"TRACKSIDE_NAME": "a", "TRACKSIDE_OTHER": "b", "PATH": "/bin"}
    assert ExampleSettings.from_environment(environment) == ExampleSettings(name="a")
