"""outweighed-term: a sum of losses falls, and the loss of the task in it is never learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.training_lib.rules.columns import falling, steady
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts
from trackside.rules.program.outweighed_term import OutweighedTerm
from trackside.testing.rule_case import RuleCase, assert_case

SUM, TASK, OTHER = "loss_output_0", "CrossEntropyLoss_output_0", "MSELoss_output_0"
COUNT, EVERY = 121, 10
SUM_FALLS, SUM_RESTS = falling(90.0, 3.0, COUNT), steady(90.0, COUNT)


def facts(*terms: LossFacts, optimizers: int = 1) -> ModelFacts:
    """Return facts about a sum of these terms."""
    losses = (LossFacts(SUM, backward_line="train.py:9"), *terms)
    names = [f"Adam_{n}" for n in range(optimizers)]
    return ModelFacts(losses=losses, optimizers=tuple(OptimizerFacts(name, "Adam") for name in names))


def term(name: str, *, classes: int | None = None, line: str = "train.py:9") -> LossFacts:
    kind = name.partition("_")[0]
    return LossFacts(name, kind, "mean", class_count=classes, line="train.py:7", backward_line=line)


TEN = facts(term(TASK, classes=10))
AT_CHANCE, LEARNED = steady(2.3, 13, every=EVERY), falling(2.3, 1.1, 13, every=EVERY)


def case(
    name: str,
    task: Mapping[int, float],
    whole: Mapping[int, float] = SUM_FALLS,
    *,
    of: ModelFacts = TEN,
    fires: tuple[str, ...] = (),
    other: Mapping[int, float] | None = None,
    step: int | None = None,
) -> RuleCase:
    recorded: dict[str, dict[str, Mapping[int, Any]]] = {SUM: {"mean": whole}, TASK: {"mean": task}}
    if other:
        recorded[OTHER] = {"mean": other}
    return RuleCase(name, recorded=recorded, facts=of, fires=fires, step=step)


BOTH = facts(term(TASK, classes=10), term(OTHER))
CASES = [
    case("a penalty outweighs the task", AT_CHANCE, fires=(TASK,)),
    case("the task gets worse than chance", falling(2.3, 4.0, 13, every=EVERY), fires=(TASK,)),
    case("it began far above chance and rests there", falling(9.0, 2.3, 13, every=EVERY), fires=(TASK,)),
    case("classes unknown, as at first", AT_CHANCE, of=facts(term(TASK)), fires=(TASK,)),
    case("two tasks, none learned", AT_CHANCE, of=BOTH, other=steady(1.0, 13, every=EVERY), fires=(TASK, OTHER)),
    case("the task is learned", LEARNED),
    case("classes unknown, and it fell", falling(2.3, 2.1, 13, every=EVERY), of=facts(term(TASK))),
    case("an adversary at chance beside a task", AT_CHANCE, of=BOTH, other=falling(1.0, 0.2, 13, every=EVERY)),
    case("the sum rests: another rule's", AT_CHANCE, SUM_RESTS),
    case("too early", AT_CHANCE, step=70),
    case("few losses of the term", steady(2.3, 7, every=EVERY)),
    case("a loss alone", AT_CHANCE, of=facts()),
    case("a term of another backward pass", AT_CHANCE, of=facts(term(TASK, classes=10, line="train.py:20"))),
    case("losses below zero", AT_CHANCE, falling(90.0, 3.0, COUNT) | {COUNT: -1.0}),
    case("two models that compete", AT_CHANCE, of=facts(term(TASK, classes=10), optimizers=2)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    assert_case(OutweighedTerm(), case)


def test_its_words() -> None:
    rule, chosen = OutweighedTerm(), CASES[0]
    findings = assert_case(rule, chosen)
    assert "and its term CrossEntropyLoss_output_0 is still 2.3" in rule.sentence(findings)
    assert findings[0].place == "train.py:7"
    assert [suspicion.cause for suspicion in rule.suspicions(findings, chosen.window)] == [Cause.OUTWEIGHED_TERM]


@pytest.mark.parametrize(("of", "is_judged"), [(TEN, True), (facts(), False)], ids=["a-sum", "no-sum"])
def test_a_program_without_a_sum_has_nothing_to_judge(of: ModelFacts, *, is_judged: bool) -> None:
    assert bool(OutweighedTerm().nothing_to_judge(of)) is not is_judged
