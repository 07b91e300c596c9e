"""mixed-samples: the output for one sample of a batch depends on the others."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts
from trackside.contracts.observations import CARRIED_STATE, JOINED_SAMPLES, MIXES_SAMPLES, ROWS_BY_PLACE, SEQUENCE
from trackside.rules.data.mixed_samples import MixedSamples
from trackside.testing.rule_case import RuleCase, assert_case

CE, MSE = "CrossEntropyLoss_output_0", "MSELoss_output_0"
LSTM = "Net_lstm"


def case(
    name: str,
    loss: LossFacts,
    *,
    sequence: tuple[int, ...] = (),
    kind: str = "LSTM",
    fires: tuple[str, ...] = (),
) -> RuleCase:
    facts = (
        ModelFacts(0, (ModuleFacts(LSTM, kind, role="recurrent", observed={SEQUENCE: sequence}),), losses=(loss,)),
    )
    return RuleCase(name, recorded={loss.name: {"mean": steady(1.0, 60)}}, fires=fires, facts=facts)


def classes(*shape: int, mixes: bool = False) -> LossFacts:
    return LossFacts(CE, "CrossEntropyLoss", input_shape=shape, class_count=4, observed={MIXES_SAMPLES: mixes})


def placed(name: str, rows: int, *fires: str) -> RuleCase:
    module = ModuleFacts("encoder", "TransformerEncoder", observed={ROWS_BY_PLACE: rows})
    recorded = {CE: {"mean": steady(1.0, 60)}}
    return RuleCase(name, recorded=recorded, fires=fires, facts=ModelFacts(0, (module,), losses=(classes(32, 4),)))


def joined(name: str, kind: str, *fires: str) -> RuleCase:
    loss = LossFacts(CE, "CrossEntropyLoss", input_shape=(32, 4), observed={JOINED_SAMPLES: kind})
    return RuleCase(name, recorded={CE: {"mean": steady(1.0, 60)}}, fires=fires, facts=ModelFacts(losses=(loss,)))


def carried(name: str, calls: int, *fires: str) -> RuleCase:
    module = ModuleFacts("gru", "GRU", observed={CARRIED_STATE: calls})
    facts = ModelFacts(0, (module,), losses=(classes(32, 4),))
    return RuleCase(name, recorded={CE: {"mean": steady(1.0, 60)}}, fires=fires, facts=facts)


JOINED = [
    joined("a view that cuts rows up", "view", CE),
    joined("a norm over rows", "norm", CE),
    joined("a softmax over rows on the way", "softmax", CE),
    joined("nothing joins them", ""),
    joined("a word of a later version", "sum"),
    carried("the state of other rows", 3, "gru"),
    carried("a state of its own", 0),
]
PLACED = [placed("positions along the batch", 32, "encoder"), placed("positions along the sequence", 0)]
CASES = [
    case("a softmax over the batch", classes(32, 4, mixes=True), fires=(CE,)),
    case("the same, of facts without a shape", classes(mixes=True), fires=(CE,)),
    case("32 samples read as 32 steps", classes(32, 4), sequence=(32, 10), fires=(LSTM,)),
    case("attention over the batch", classes(16, 4), sequence=(16, 9), kind="MultiheadAttention", fires=(LSTM,)),
    case("numbers for samples", LossFacts(MSE, "MSELoss", input_shape=(32, 1)), sequence=(32, 10), fires=(LSTM,)),
    case("a softmax over classes", classes(32, 4)),
    case("time first, one prediction a sequence", classes(32, 4), sequence=(10, 32)),
    case("time first, one prediction a step", classes(320, 4), sequence=(10, 32)),
    case("a number for each step of each sequence", LossFacts(MSE, "MSELoss", input_shape=(10, 32)), sequence=(10, 32)),
    case("one sequence alone", classes(50, 4), sequence=(50, 1)),
    case("as many steps as sequences", classes(32, 4), sequence=(32, 32)),
    case("one step", classes(1, 4), sequence=(1, 10)),
    case("a loss by hand", LossFacts("loss_output_0"), sequence=(32, 10)),
    case("no such layer", classes(32, 4)),
]

test_cases = every_case(MixedSamples(), [*CASES, *PLACED, *JOINED])


@pytest.mark.parametrize(
    ("case", "message"),
    [
        pytest.param(
            CASES[0],
            "The softmax before CrossEntropyLoss_output_0 is taken over the 32 samples of a batch.",
            id="softmax",
        ),
        pytest.param(
            PLACED[0], "Before encoder each of 32 samples gets a vector by its place in the batch.", id="places"
        ),
        pytest.param(CASES[2], "Net_lstm reads the 32 samples of a batch as one sequence.", id="sequence"),
    ],
)
def test_messages(case: RuleCase, message: str) -> None:
    assert MixedSamples().sentence(assert_case(MixedSamples(), case)) == message
