"""Before the start: which rule will have nothing to see?"""

from __future__ import annotations

import pytest

from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.evaluation.preflight import preflight
from trackside.rules.catalogue import default_request


def capture(*collections: str) -> CaptureRequest:
    return CaptureRequest(tuple(CollectionRequest(name) for name in collections))


@pytest.mark.parametrize(
    ("saved", "blind"),
    [
        pytest.param(("losses", "gradients", "weights"), set(), id="all-saved"),
        pytest.param(("losses",), {"vanishing-gradient"}, id="only-losses"),
        pytest.param(("gradients",), {"loss-not-decreasing"}, id="only-gradients"),
        pytest.param((), {"vanishing-gradient", "loss-not-decreasing", "exploding-tensor"}, id="nothing"),
    ],
)
def test_names_the_rules_that_will_see_nothing(saved: tuple[str, ...], blind: set[str]) -> None:
    problems = preflight(default_request(), capture(*saved))
    assert {problem.where for problem in problems} == blind


def test_says_what_to_add() -> None:
    (problem,) = preflight(RuleRequest((RuleConfiguration("vanishing-gradient", name="mine"),)), capture("losses"))
    assert problem.where == "mine"
    assert "Add the collection 'gradients' to the capture request, every 100 steps" in str(problem)


def test_a_request_that_is_wrong_is_said_whole() -> None:
    rules = (RuleConfiguration("vanishing-gradiant"), RuleConfiguration("exploding-tensor", parameters={"x": "1"}))
    with pytest.raises(ConfigurationError, match="2 problems") as caught:
        preflight(RuleRequest(rules), capture("losses"))
    assert "Did you mean 'vanishing-gradient'?" in str(caught.value)
