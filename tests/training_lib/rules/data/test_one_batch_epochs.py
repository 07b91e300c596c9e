"""one-batch-epochs: a data set in one batch, and few steps of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.training_lib.rules.columns import along, falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts
from trackside.contracts.run.recorded_names import BATCH_NUMBER, BATCH_REPEATED, EPOCH
from trackside.rules.data.one_batch_epochs import OneBatchEpochs
from trackside.testing.rule_case import RuleCase, assert_case

CE = "CrossEntropyLoss_output_0"


def case(
    name: str,
    *,
    steps: int = 20,
    loss: Mapping[int, float] | None = None,
    rows: int = 1348,
    number: Mapping[int, float] | None = None,
    optimizers: tuple[str, ...] = ("Adam",),
    fires: bool = False,
    further: Mapping[str, Any] | None = None,
    **rest: Any,
) -> RuleCase:
    facts = ModelFacts(
        optimizers=tuple(OptimizerFacts(each, each) for each in optimizers),
        losses=(LossFacts(CE, "CrossEntropyLoss", "mean", input_shape=(rows, 10)),),
    )
    recorded = {
        CE: {"mean": loss or falling(2.3, 2.1, steps)},
        BATCH_NUMBER: {"mean": number or steady(0, steps)},
        EPOCH: {"mean": along(range(steps))},
        **(further or {}),
    }
    return RuleCase(name, recorded=recorded, facts=facts, fires=(EPOCH,) if fires else (), **rest)


CASES = [
    case("twenty epochs of one batch", fires=True),
    case("five epochs", steps=5, fires=True),
    case("batches of a pass", number=along([0, 1] * 10)),
    case("as many steps as it takes", steps=300),
    case("a loss that is gone", loss=falling(2.3, 0.8, 20)),
    case("a loss that has come to rest", loss={**falling(2.3, 1.5, 10), **steady(1.5, 10, start=10)}),
    case("few data", rows=100),
    case("a step of many evaluations", optimizers=("LBFGS",)),
    case("two aims", optimizers=("Adam", "SGD")),
    case("a new pass for each batch", further={BATCH_REPEATED: {"mean": steady(0, 20)}}),
    case("three epochs", steps=3),
    case("the run goes on", step=15),
]

test_cases = every_case(OneBatchEpochs(), CASES)


def test_message_and_cause() -> None:
    findings = assert_case(OneBatchEpochs(), CASES[0])
    assert OneBatchEpochs().sentence(findings) == (
        "Each batch held the whole data set: 20 epochs were as many steps, which took 8 % of the loss away, and it was "
        "still falling."
    )
    (cause,) = OneBatchEpochs().suspicions(findings, CASES[0].window)
    assert (cause.cause, cause.because) == (Cause.LARGE_BATCHES, "20 epochs had one batch each")
