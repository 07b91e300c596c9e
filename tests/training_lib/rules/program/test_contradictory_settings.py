"""contradictory-settings: words that an optimizer does not know, and betas in the wrong order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts
from trackside.contracts.observations import OPPOSED_GRADIENTS, REUSED_GRADIENTS, Observation
from trackside.rules.program.contradictory_settings import ContradictorySettings, meant_by
from trackside.testing.rule_case import RuleCase, assert_case

GROUP = {"lr": 0.01, "weight_decay": 0.0, "momentum": 0.9, "eps": 1e-8}
KINDS = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adadelta,
    torch.optim.Adagrad, torch.optim.ASGD, torch.optim.NAdam, torch.optim.RAdam, torch.optim.LBFGS,
)  # fmt: skip
BEFORE = "hyperparameters/SGD/group_0/"


def case(name: str, *fires: str, group: Mapping[str, float] = GROUP, is_known: bool = True, **words: float) -> RuleCase:
    optimizer = OptimizerFacts("SGD", "SGD", line="train.py:4", groups=({**group, **words},))
    facts = ModelFacts(optimizers=(optimizer,)) if is_known else None
    recorded = {"Loss_output_0": {"mean": {0: 1.0, 10: 1.0}}}
    return RuleCase(name, recorded=recorded, facts=facts, fires=tuple(BEFORE + word for word in fires))


def shared(name: str, *, fires: bool = False, reused: int = 0, cosine: float | None = None) -> RuleCase:
    """Return a case of an optimizer that has parameters with another one in common."""
    seen: dict[Observation[Any], Any] = {REUSED_GRADIENTS: reused, OPPOSED_GRADIENTS: cosine}
    facts = ModelFacts(optimizers=(OptimizerFacts("SGD", "SGD", line="train.py:4", groups=(GROUP,), observed=seen),))
    recorded = {"Loss_output_0": {"mean": {0: 1.0, 10: 1.0}}}
    return RuleCase(name, recorded=recorded, facts=facts, fires=("SGD",) if fires else ())


SHARED = [
    shared("steps by gradients of another step", fires=True, reused=2),
    shared("steps by them at each look", fires=True, reused=3),
    shared("gradients against one another", fires=True, cosine=-0.9),
    shared("one look at a reused gradient", reused=1),
    shared("gradients that are at right angles", cosine=-0.1),
    shared("gradients with one aim", cosine=0.6),
]
CASES = [
    *SHARED,
    case("another name of the rate", "learning_rate", learning_rate=0.5),
    case("another name of the decay", "wd", wd=0.1),
    case("two letters in the wrong order", "weigth_decay", weigth_decay=0.1),
    case("a letter that is missing", "momentu", momentu=0.5),
    case("two of them", "learning_rate", "epsilon", learning_rate=0.5, epsilon=1e-6),
    case("betas in the wrong order", "betas_0", betas_0=0.999, betas_1=0.9),
    case("the usual"),
    case("betas in their order", betas_0=0.9, betas_1=0.999),
    case("betas alike", betas_0=0.95, betas_1=0.95),
    case("what a schedule adds", initial_lr=0.01, max_lr=0.1, min_lr=0.0, max_momentum=0.95, base_momentum=0.85),
    case("what a program adds", lr_scale=0.5, wd_multiplier=0.0, is_bias=1.0, layer=3.0),
    case("a setting that this optimizer has not", group={"lr": 0.01}, wd=0.1, epsilon=1e-6),
    case("nothing is known", is_known=False, learning_rate=0.5),
]

test_cases = every_case(ContradictorySettings(), CASES)


def test_what_it_says() -> None:
    rule = ContradictorySettings()
    misspelt, reversed_betas = (assert_case(rule, CASES[place]) for place in (6, 11))
    assert "'learning_rate'" in rule.sentence(misspelt)
    assert misspelt[0].place == "train.py:4"
    assert rule.suspicions(misspelt, CASES[6].window) == ()
    assert [one.cause for one in rule.suspicions(reversed_betas, CASES[11].window)] == [Cause.MOMENTUM_TOO_HIGH]


@pytest.mark.parametrize("case", SHARED[:3], ids=str)
def test_what_it_says_of_shared_parameters(case: RuleCase) -> None:
    rule = ContradictorySettings()
    findings = assert_case(rule, case)
    assert "hold the same parameters" in rule.sentence(findings)
    assert findings[0].place == "train.py:4"
    assert rule.observes(findings)
    assert [one.cause for one in rule.suspicions(findings, case.window)] == [Cause.SHARED_PARAMETERS]


def test_no_setting_of_torch_is_taken_for_a_mistake() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    for kind in KINDS:
        optimizer: torch.optim.Optimizer = kind([weight])
        (group,) = optimizer.param_groups
        assert [name for name in group if meant_by(name, group)] == []


@given(name=st.text(max_size=12))
def test_a_word_means_nothing_to_an_optimizer_without_settings(name: str) -> None:
    assert meant_by(name, {}) == ""
