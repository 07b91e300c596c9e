"""random-evaluation: dropout is live while the model is evaluated in eval mode."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ProgramFacts
from trackside.contracts.observations import RANDOM_EVALUATIONS, RANDOM_LINE
from trackside.rules.program.random_evaluation import RandomEvaluation
from trackside.testing.rule_case import RuleCase, assert_case

LOSS = {"Loss_output_0": {"mean": steady(1)}}


def live(times: int) -> ModelFacts:
    program = ProgramFacts(observed={RANDOM_EVALUATIONS: times, RANDOM_LINE: "net.py:31" if times else ""})
    return ModelFacts(modules=(ModuleFacts("Net", "Net"),), program=program)


CASES = [
    RuleCase("three evaluations", recorded=LOSS, facts=live(3), fires=("Net",)),
    RuleCase("two evaluations", recorded=LOSS, facts=live(2), fires=("Net",)),
    RuleCase("one evaluation", recorded=LOSS, facts=live(1)),
    RuleCase("no evaluation", recorded=LOSS, facts=live(0)),
    RuleCase("no facts", recorded=LOSS),
]

test_cases = every_case(RandomEvaluation(), CASES)


def test_the_line_is_that_of_the_dropout() -> None:
    (finding,) = assert_case(RandomEvaluation(), CASES[0])
    assert finding.place == "net.py:31"


@pytest.mark.parametrize("case", CASES[-2:], ids=str)
def test_what_it_lacks(case: RuleCase) -> None:
    assert bool(RandomEvaluation().lacks(case.window)) is (case.name == "no facts")
