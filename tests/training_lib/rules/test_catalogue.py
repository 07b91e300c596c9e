"""How rules are found, built from a request, and refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import LifeCycle, built_in_catalogue, parse_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.rules.catalogue import (
    build_rules,
    built_in_rules,
    by_id,
    catalogue_json,
    default_request,
    load_rules,
)
from trackside.rules.tensors.exploding_tensor import ExplodingTensor
from trackside.rules.tensors.vanishing_gradient import VanishingGradient

A_RULE = """
from dataclasses import dataclass
from trackside.contracts.verdict import Severity
from trackside.rules.rule import Rule, parameter

@dataclass(frozen=True)
class Haunted(Rule):
    rule_id = "haunted"; watches = ("losses",); save_interval = 10; severity = Severity.INFO; since = "1"
    what_to_do = ("Call somebody.",)
    ghosts: int = parameter(3, "how many ghosts", minimum=1)
    def check(self, window):
        return ()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, as an installed package: write `<module>.py` there and `entry_points`."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    info = tmp_path / "haunted_house-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: haunted-house\nVersion: 1.2\n")
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def offer(folder: Path, source: str, *, entry: str = "haunted = haunted_house:Haunted") -> None:
    (folder / "haunted_house.py").write_text(source)
    (folder / "haunted_house-1.2.dist-info" / "entry_points.txt").write_text(f"[trackside.rules]\n{entry}\n")


def test_the_rules_are_found_sorted_by_id() -> None:
    assert {"exploding-tensor", "loss-not-decreasing", "vanishing-gradient"} < set(built_in_rules())
    assert list(built_in_rules()) == sorted(built_in_rules())
    assert built_in_rules()["vanishing-gradient"] is VanishingGradient


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        built_in_rules()["mine"] = VanishingGradient  # type: ignore[index]  # that is the point


class InPreview(VanishingGradient):
    life_cycle = LifeCycle.PREVIEW


class Outdated(VanishingGradient):
    life_cycle = LifeCycle.DEPRECATED


@pytest.mark.parametrize(
    ("rule", "judges_by_default"),
    [
        pytest.param(VanishingGradient, True, id="stable"),
        pytest.param(InPreview, False, id="preview"),
        pytest.param(Outdated, True, id="deprecated"),
    ],
)
def test_a_preview_rule_judges_only_where_it_is_chosen(rule: type[VanishingGradient], judges_by_default: bool) -> None:
    catalogue = replace(built_in_catalogue(), rules={rule.rule_id: rule.describe()})
    assert (rule.rule_id in catalogue.usual) is judges_by_default
    catalogue.check(RuleRequest((RuleConfiguration(rule.rule_id),)))  # raises where it cannot be chosen


def test_a_catalogue_without_life_cycles_is_of_stable_rules() -> None:
    entries = json.loads(catalogue_json())["rules"]
    assert {entry.pop("life_cycle") for entry in entries} <= {each.value for each in LifeCycle}
    read = parse_catalogue(json.dumps({"rules": entries})).rules.values()
    assert {rule.life_cycle for rule in read} == {LifeCycle.STABLE}


def test_two_rules_of_one_id_are_refused_and_both_named() -> None:
    twin = type("Twin", (VanishingGradient,), {})
    with pytest.raises(
        ConfigurationError, match=r"vanishing-gradient: is the id of two rules: .*VanishingGradient and .*Twin"
    ):
        by_id([VanishingGradient, ExplodingTensor, twin])


def test_a_rule_of_an_installed_package_is_found_by_the_same_loader(installed: Path) -> None:
    offer(installed, A_RULE)
    assert list(load_rules()) == [*built_in_rules(), "haunted"]
    (configured,) = build_rules(RuleRequest((RuleConfiguration("haunted", parameters={"ghosts": "7"}),)))
    assert configured.rule == load_rules()["haunted"](ghosts=7)  # type: ignore[call-arg]  # a parameter of its own


def test_a_broken_package_is_named_when_its_rule_is_asked_for(installed: Path) -> None:
    offer(installed, "raise OSError('no ghosts here')")
    with pytest.raises(ConfigurationError, match=r"of haunted-house 1\.2 cannot be loaded: OSError: no ghosts here"):
        build_rules(RuleRequest((RuleConfiguration("haunted"),)))
    with pytest.raises(ConfigurationError, match="haunted"):
        load_rules()


def test_a_broken_package_does_not_touch_other_rules(installed: Path) -> None:
    offer(installed, "raise OSError('no ghosts here')")
    usual = [rule_id for rule_id, rule in built_in_rules().items() if rule.describe().is_on_by_default]
    assert [configured.rule.rule_id for configured in build_rules(default_request())] == usual
    assert "haunted_house" not in sys.modules


@pytest.mark.parametrize(
    ("source", "entry", "message"),
    [
        pytest.param("Haunted = 3", "haunted = haunted_house:Haunted", "not a rule", id="no class"),
        pytest.param("class Haunted: pass", "haunted = haunted_house:Haunted", "not a rule", id="another class"),
        pytest.param(
            "from trackside.rules.rule import Rule as Haunted",
            "haunted = haunted_house:Haunted",
            "not a rule",
            id="the abstract rule",
        ),
        pytest.param(A_RULE, "spooky = haunted_house:Haunted", "its id is 'haunted'", id="another id"),
        pytest.param("", "haunted = haunted_house:Haunted", "AttributeError", id="no such name"),
        pytest.param(
            A_RULE.replace('"haunted"', '"exploding-tensor"'),
            "exploding-tensor = haunted_house:Haunted",
            "Trackside has a rule of that id",
            id="an id that is taken",
        ),
    ],
)
def test_an_entry_point_that_is_no_rule_is_refused(installed: Path, source: str, entry: str, message: str) -> None:
    offer(installed, source, entry=entry)
    with pytest.raises(ConfigurationError, match=message):
        load_rules()


def test_rules_are_built_in_the_order_of_the_request_with_their_configuration() -> None:
    request = RuleRequest(
        (
            RuleConfiguration("vanishing-gradient", parameters={"threshold": "1e-9"}, actions=(Action.STOP_TRAINING,)),
            RuleConfiguration("exploding-tensor", name="only-nan", parameters={"only_nan": "True"}),
            RuleConfiguration("exploding-tensor"),
        )
    )
    built = build_rules(request)
    assert [configured.rule for configured in built] == [
        VanishingGradient(threshold=1e-9),
        ExplodingTensor(only_nan=True),
        ExplodingTensor(),
    ]
    assert tuple(configured.configuration for configured in built) == request.rules


def help_of(rule_id: str) -> str:
    return f"`trackside rules show {rule_id}` says what works."


def test_one_error_lists_every_problem() -> None:
    request = RuleRequest(
        (
            RuleConfiguration("vanishing-gradiant"),
            RuleConfiguration("vanishing-gradient", parameters={"treshold": "1", "threshold": "small"}),
            RuleConfiguration("loss-not-decreasing", parameters={"num_steps": "0", "diff_percent": "101"}),
            RuleConfiguration("exploding-tensor", parameters={"only_nan": "perhaps"}),
        )
    )
    with pytest.raises(ConfigurationError) as raised:
        build_rules(request)
    assert [str(problem) for problem in raised.value.problems] == [
        "rules: Unknown rule 'vanishing-gradiant'. Did you mean 'vanishing-gradient'?",
        "vanishing-gradient: Unknown parameter 'treshold'. Did you mean 'threshold'?",
        f"vanishing-gradient.threshold: must be a number, but is 'small'. {help_of('vanishing-gradient')}",
        f"loss-not-decreasing.num_steps: must be at least 1, but is '0'. {help_of('loss-not-decreasing')}",
        f"loss-not-decreasing.diff_percent: must be at most 100, but is '101'. {help_of('loss-not-decreasing')}",
        f"exploding-tensor.only_nan: must be true or false, but is 'perhaps'. {help_of('exploding-tensor')}",
    ]


def test_the_default_request_asks_for_every_usual_rule_and_stops_nothing() -> None:
    request = default_request()
    asked_for = {rule_id for rule_id, rule in built_in_rules().items() if not rule.describe().is_on_by_default}
    assert asked_for
    assert [rule.rule_id for rule in request.rules] == [one for one in built_in_rules() if one not in asked_for]
    assert {rule.actions for rule in request.rules} == {(Action.NOTIFY, Action.PUBLISH_METRIC)}
    assert default_request(actions=(Action.STOP_TRAINING,)).rules[0].actions == (Action.STOP_TRAINING,)


def test_the_catalogue_reads_back_as_the_rules_describe_themselves() -> None:
    catalogue = parse_catalogue(catalogue_json())
    assert list(catalogue.rules) == list(built_in_rules())
    for rule_id, rule in built_in_rules().items():
        assert replace(catalogue.rules[rule_id], presets={}) == rule.describe()
    assert set(catalogue.usual) == {rule.rule_id for rule in default_request().rules}


def test_a_preset_is_described_in_its_own_sense() -> None:
    described = parse_catalogue(catalogue_json()).rules["vanishing-gradient"]
    assert described.in_sense_of("") is described.in_sense_of("calibrated") is described
    documented = described.in_sense_of("aws-docs")
    assert documented is not None
    assert documented.rule_id == described.rule_id
    assert documented != described
    assert described.in_sense_of("somebody-else") is None


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        pytest.param(
            RuleConfiguration("vanishing-gradient", preset="aws-doc"), "There is no preset 'aws-doc'", id="unknown"
        ),
        pytest.param(
            RuleConfiguration("gradients-not-cleared", preset="aws-docs"),
            "Amazon documents no such rule",
            id="not-there",
        ),
    ],
)
def test_a_preset_that_a_rule_has_not_is_refused(configuration: RuleConfiguration, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        build_rules(RuleRequest((configuration,)))


def test_all_usual_rules_together_save_a_bounded_number_of_whole_tensors() -> None:
    """Weights and gradients are the bulk of a run: rules live on their statistics."""
    merged = parse_catalogue(catalogue_json()).capture_request(default_request())
    intervals = {collection.name: collection.schedule.save_interval for collection in merged.collections}
    assert not {"weights", "gradients", "all"} & {name for name, interval in intervals.items() if interval < 100}
