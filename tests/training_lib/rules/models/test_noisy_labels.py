"""noisy-labels: evaluations far better than the training, where neither dropout nor weights explain it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts
from trackside.contracts.observations import DROPOUTS
from trackside.rules.models.noisy_labels import NoisyLabels
from trackside.testing.rule_case import RuleCase, assert_case

CE, LABELS = "CrossEntropyLoss_output_0", "CrossEntropyLoss_input_1"
GUESSING = float(np.log(10))


def case(
    name: str,
    trained: list[float],
    evaluated: list[float],
    *,
    dropouts: tuple[float, ...] = (0.2,),
    weighted: bool = False,
    optimizers: int = 1,
    classes: bool = True,
    fires: bool = False,
    **rest: Any,
) -> RuleCase:
    """Epochs of ten steps with these training losses, each with one evaluation behind it."""
    type_name = "CrossEntropyLoss" if classes else "MSELoss"
    loss = LossFacts(CE, type_name, "mean", class_count=10, is_weighted=weighted, observed={DROPOUTS: dropouts})
    adam = tuple(OptimizerFacts(f"Adam_{number}", "Adam") for number in range(optimizers))
    facts = ModelFacts(optimizers=adam, losses=(loss,))
    steps = {11 * epoch + step: value for epoch, value in enumerate(trained) for step in range(10)}
    evaluations = {11 * epoch + 10: value for epoch, value in enumerate(evaluated)}
    return RuleCase(
        name,
        tensors={LABELS: {step: np.arange(100) % 10 for step in (0, 5)}},
        recorded={CE: {"mean": steps}},
        evaluated={CE: {"mean": evaluations}},
        collections={"labels": (f"^{LABELS}$",)},
        facts=facts,
        fires=(CE,) if fires else (),
        **rest,
    )


NOISY, CLEAN = [2.2, 1.9, 1.7, 1.6, 1.6], [1.5, 1.1, 0.9, 0.8, 0.8]
CASES = [
    case("half of the labels are wrong", NOISY, CLEAN, fires=True),
    case("without dropout", NOISY, CLEAN, dropouts=(), fires=True),
    case("evaluations as bad as the training", NOISY, NOISY),
    case("a little better, as behind an epoch that learns", NOISY, [1.9, 1.7, 1.6, 1.5, 1.5]),
    case("dropout explains it", NOISY, CLEAN, dropouts=(0.5,)),
    case("a loss with weights", NOISY, CLEAN, weighted=True),
    case("a training loss that is nearly gone", [2.0, 1.0, 0.6, 0.4, 0.3], [0.5, 0.3, 0.2, 0.1, 0.1]),
    case("worse than guessing", [9.0, 8.0, 7.0, 6.0, 5.0], [2.0, 2.0, 2.0, 2.0, 2.0]),
    case("three evaluations", NOISY[:3], CLEAN[:3]),
    case("the last one alone", NOISY, [2.2, 1.9, 1.7, 0.8, 0.8]),
    case("numbers for labels", NOISY, CLEAN, classes=False),
    case("two aims", NOISY, CLEAN, optimizers=2),
    case("the run goes on, after five", NOISY, CLEAN, step=53),
]

test_cases = every_case(NoisyLabels(), CASES)


def test_cause() -> None:
    findings = assert_case(NoisyLabels(), CASES[0])
    (cause,) = NoisyLabels().suspicions(findings, CASES[0].window)
    assert (cause.cause, cause.because) == (Cause.WRONG_LABELS, "training loss 1.6, validation loss 0.8")
