"""Before the first step: one sentence for a rule that lacks something, none for one that does not."""

from __future__ import annotations

import pytest

from trackside.choosing.lacking_inputs import lacking_input
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, StatisticsRequest
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration

CATALOGUE = built_in_catalogue()


def capture(*names: str, statistics: bool = True) -> CaptureRequest:
    collections = tuple([CollectionRequest(name) for name in names])
    return CaptureRequest(collections, statistics=StatisticsRequest(enabled=statistics))


def own(name: str = "mine") -> RuleConfiguration:
    return RuleConfiguration("Mine", name, source="mine.py")


def rule(rule_id: str, *, preset: str = "", **parameters: str) -> RuleConfiguration:
    return RuleConfiguration(rule_id, parameters=parameters, preset=preset)


def with_members(name: str) -> CaptureRequest:
    return CaptureRequest((CollectionRequest(name, include_regex=("fc1",)),))


@pytest.mark.parametrize(
    ("asked", "watches", "saved", "said"),
    [
        pytest.param(
            rule("saturated-activation"), (), capture("losses"), "nothing saves saturating_inputs.", id="not-saved"
        ),
        pytest.param(own(), ("gradiants",), capture("gradients"), "Did you mean 'gradients'?", id="misspelled"),
        pytest.param(own(), ("a", "b"), capture("losses"), "nothing saves a or b.", id="none-of-two"),
        pytest.param(own(), ("mine",), capture("mine"), "nothing saves mine.", id="nothing-tells-its-members"),
        pytest.param(rule("overfit"), (), capture(statistics=False), "always-on statistics", id="no-statistics"),
        pytest.param(rule("tree-depth"), (), capture("losses"), "nothing saves trees.", id="xgboost"),
        pytest.param(rule("similar-across-runs"), (), capture("losses", "weights"), "set other_trials", id="no-run"),
        pytest.param(
            rule("similar-across-runs", other_trials=" "), (), capture("losses"), "set other_trials", id="empty-run"
        ),
        pytest.param(
            rule("unchanged-tensor", collection_names="wieghts"), (), capture("weights"), "Did you mean 'weights'?",
            id="collection",
        ),
        pytest.param(
            rule("all-zero", collection_names="weights, mine"), (), capture("weights"), "only your script can save.",
            id="one-of-two-collections",
        ),
    ],
)  # fmt: skip
def test_what_is_lacking(asked: RuleConfiguration, watches: tuple[str, ...], saved: CaptureRequest, said: str) -> None:
    sentence = lacking_input(asked, watches, CATALOGUE, saved)
    assert sentence.startswith(f"{asked.name} ")
    assert said in sentence
    assert len(sentence) <= 2 * 80, "two lines of a terminal"


@pytest.mark.parametrize(
    ("asked", "watches", "saved"),
    [
        pytest.param(rule("saturated-activation"), (), capture("saturating_inputs"), id="saved"),
        pytest.param(own(), ("gradients",), capture("gradients"), id="own"),
        pytest.param(own(), ("gradients", "b"), capture("gradients"), id="one-of-two"),
        pytest.param(own(), ("mine",), with_members("mine"), id="a-regex-tells-its-members"),
        pytest.param(own(), ("all",), capture("all"), id="all"),
        pytest.param(rule("overfit"), (), capture(), id="statistics"),
        pytest.param(rule("tree-depth"), (), with_members("trees"), id="trees-of-the-users-own"),
        pytest.param(rule("similar-across-runs", other_trials="a"), (), capture("losses"), id="other-run"),
        pytest.param(rule("unchanged-tensor", collection_names="weights"), (), capture("weights"), id="collection"),
        pytest.param(
            rule("all-zero", collection_names="mine"), (), with_members("mine"), id="collection-of-the-users-own"
        ),
    ],
)
def test_nothing_is_lacking(asked: RuleConfiguration, watches: tuple[str, ...], saved: CaptureRequest) -> None:
    assert lacking_input(asked, watches, CATALOGUE, saved) == ""


def test_of_the_usual_rules_none_lacks_anything() -> None:
    from trackside.choosing.preflight import plan_rules

    assert plan_rules((), catalogue=CATALOGUE, actions=()).notes == ()
