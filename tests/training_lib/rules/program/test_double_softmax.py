"""double-softmax: probabilities are given to a loss that takes the softmax itself."""

from __future__ import annotations

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.rules.program.double_softmax import DoubleSoftmax
from trackside.testing.rule_case import RuleCase, assert_case

CE, OTHER = "CrossEntropyLoss_output_0", "CrossEntropyLoss_output_1"


def case(name: str, *losses: LossFacts, fires: tuple[str, ...] = (), from_step: int = 0) -> RuleCase:
    recorded = {CE: {"mean": steady(2.3, 21)}}
    return RuleCase(name, recorded=recorded, fires=fires, facts=ModelFacts(from_step=from_step, losses=losses))


def cross_entropy(input_from: str, name: str = CE) -> LossFacts:
    return LossFacts(name, "CrossEntropyLoss", input_from=input_from, line="train.py:7")


CASES = [
    case("softmax", cross_entropy("softmax"), fires=(CE,)),
    case("log-softmax", cross_entropy("log_softmax"), fires=(CE,)),
    case("sigmoid", cross_entropy("sigmoid"), fires=(CE,)),
    case("the second of two", cross_entropy("linear"), cross_entropy("softmax", OTHER), fires=(OTHER,)),
    case("since a while", cross_entropy("softmax"), fires=(CE,), from_step=15),
    case("scores", cross_entropy("linear")),
    case("who knows", cross_entropy("")),
    case("as NLLLoss wants it", LossFacts("NLLLoss_output_0", "NLLLoss", input_from="log_softmax")),
    case("as BCELoss wants it", LossFacts("BCELoss_output_0", "BCELoss", input_from="sigmoid")),
    case("a loss by hand", LossFacts("loss_output_0", "", input_from="softmax")),
]

test_cases = every_case(DoubleSoftmax(), CASES)


def test_it_says_which_line() -> None:
    (finding,) = assert_case(DoubleSoftmax(), CASES[0])
    assert (finding.place, finding.measure) == ("train.py:7", "softmax before CrossEntropyLoss, times")
    assert [s.cause for s in DoubleSoftmax().suspicions([finding], CASES[0].window)] == [Cause.DOUBLE_SOFTMAX]


def test_it_waits_for_the_step_that_was_asked_for() -> None:
    assert list(DoubleSoftmax(start_step=21).check(CASES[0].window)) == []


def test_what_it_lacks() -> None:
    old = RuleCase("an old run", recorded={CE: {"mean": steady(2.3)}}).window
    assert DoubleSoftmax().lacks(old)
    assert list(DoubleSoftmax().check(old)) == []
    assert DoubleSoftmax().lacks(CASES[5].window) == ""
