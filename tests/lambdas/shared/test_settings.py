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
    jobs: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(ExampleSettings(name="a"), id="defaults"),
        pytest.param(
            ExampleSettings(name="", count=0, dry_run=True, actions=tuple(Action), jobs=("a", "b*")),
            id="everything else",
        ),
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


@dataclass(frozen=True)
class NamesGroup:
    name: str
    jobs: tuple[str, ...] = ("a", "b")
    count: int = 7
    unknown_here: str = "x"


@dataclass(frozen=True)
class DryRunGroup:
    dry_run: bool = True
    count: int = 8


def test_are_made_of_groups_by_the_names_of_their_fields() -> None:
    made = ExampleSettings.of(NamesGroup("n"), actions=tuple(Action))
    assert made == ExampleSettings(name="n", count=7, actions=tuple(Action), jobs=("a", "b"))


def test_a_value_given_by_name_wins_over_those_of_groups() -> None:
    made = ExampleSettings.of(NamesGroup("n"), DryRunGroup(), count=9)
    assert made == ExampleSettings(name="n", count=9, dry_run=True, jobs=("a", "b"))


@pytest.mark.parametrize(
    ("groups", "given", "words"),
    [
        pytest.param([NamesGroup("n"), DryRunGroup()], {}, "Two groups have 'count'", id="of two groups one"),
        pytest.param([DryRunGroup()], {}, "name", id="a required one is missing"),
        pytest.param([NamesGroup("n")], {"cuont": 3}, "cuont", id="a name mistyped"),
    ],
)
def test_are_not_made_of_what_does_not_fit(groups: list[object], given: dict[str, int], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ExampleSettings.of(*groups, **given)
