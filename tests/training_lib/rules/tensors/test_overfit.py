"""overfit: the validation loss rises while the training loss goes on falling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trackside
from tests.training_lib.rules.columns import along, falling
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.verdict import Severity
from trackside.rules.tensors.overfit import Overfit
from trackside.situation.losses.overfitting import lost_again
from trackside.testing.rule_case import RuleCase, assert_case

LOSS, LABELS = "CrossEntropyLoss_output_0", "CrossEntropyLoss_input_1"
FALLS = falling(2.3, 0.05, 101)


HELD = ParameterFacts("Net_body.weight", "body", (8, 8), "float32", optimizer="Adam")
FIRST = ModelFacts(parameters=(HELD,), optimizers=(OptimizerFacts("Adam", "Adam"),))
OTHER = OptimizerFacts("Adam_1", "Adam")
NEXT_FOLD = replace(HELD, name="Net2_body.weight", optimizer="Adam_1")
TWO_FOLDS = (FIRST, ModelFacts(from_step=51, parameters=(NEXT_FOLD,), optimizers=(OTHER,)))
TUNED_FURTHER = (
    FIRST,
    ModelFacts(from_step=51, parameters=(replace(HELD, optimizer="Adam_1"),), optimizers=(OTHER,)),
)
EASY_THEN_HARD = [0.9, 0.5, 0.3, 0.2, 0.15, 1.6, 1.2, 1.1, 1.05, 1.04]
TWICE = {**falling(2.3, 0.3, 51), **{51 + s: v for s, v in falling(2.3, 0.1, 50).items()}}
ENTROPY = ModelFacts(losses=(LossFacts(LOSS, "CrossEntropyLoss", "mean", class_count=10),))  # guessing: 2.3


def case(
    name: str,
    validation: Iterable[float],
    *,
    training: dict[int, float] = FALLS,
    fires: bool = False,
    every: int = 10,
    facts: ModelFacts | tuple[ModelFacts, ...] | None = None,
    step: int = 100,
) -> RuleCase:
    return RuleCase(
        name,
        {LABELS: {step: np.arange(50) % 10 for step in range(0, 100, 10)}} if facts is ENTROPY else {},
        collections={"labels": (f"^{LABELS}$",)},
        facts=facts,
        recorded={LOSS: {"mean": training}},
        evaluated={LOSS: {"mean": along(validation, every=every, start=every)}},
        step=step,
        fires=(LOSS,) if fires else (),
    )


RISES = [2.0, 1.5, 1.2, 1.0, 1.3, 1.6, 1.9, 2.2, 2.5, 2.8]
SLOWLY = falling(2.4, 2.0, 101)
HEALTHY = [2.0, 1.5, 1.0, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.18]
OTHER_ORDER = case(
    "classes in another order in the validation data",
    [13.1, 14.1, 13.4, 14.7, 14.3, 14.2, 14.3, 14.5, 15.1, 14.8],
    training=falling(2.4, 0.1, 101),
    facts=ENTROPY,
    fires=True,
)
CASES = [
    case("it rises", RISES, fires=True),
    case("it rises at once", [1.0, 1.4, 1.8, 2.2, 2.6, 3.0, 3.4, 3.8, 4.2, 4.6], fires=True),
    case("it rises in steps", [2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0], fires=True),
    case("it never learned anything", [2.3 + 0.01 * k for k in range(10)], fires=True),
    case("it learned hardly anything", [2.3 - 0.02 * k for k in range(10)], fires=True),
    case("it rises slowly, for long", [2.0, 1.0, *[1.05 + 0.1 * k for k in range(8)]], fires=True),
    case("it shared a third, and stays there", [2.0, 1.7, *[1.55 + 0.001 * k for k in range(8)]], fires=True),
    case("a few samples: it rises above all jumps", [2.3, 0.6, 0.5, 0.7, 1.9, 2.1, 1.8, 2.2, 2.0, 2.4], fires=True),
    case("a small rise, of what was a third to itself", [2.0, 1.0, *[1.0 + 0.03 * k for k in range(1, 9)]], fires=True),
    case("it stands higher, and shares little of it", [4.2 - 0.05 * k for k in range(10)], fires=True),
    case(
        "most was learned before the first evaluation",
        [2.2, *[2.15 - 0.001 * k for k in range(9)]],
        training={**falling(2.3, 0.2, 10), **{s: 0.2 - 0.001 * s for s in range(10, 101)}},
        fires=True,
    ),
    case(
        "never better than guessing",
        [2.35, 2.31, 2.3, 2.31, 2.31, 2.32, 2.31, 2.32, 2.33, 2.33],
        training=SLOWLY,
        facts=ENTROPY,
        fires=True,
    ),
    case(
        "hardly better than guessing, and worse now",
        [2.2, 2.22, 2.3, 2.4, 2.45, 2.5, 2.55, 2.6, 2.65, 2.7],
        training=falling(2.3, 1.2, 101),
        facts=ENTROPY,
        fires=True,
    ),
    case(
        "labels of another scale",
        [0.8, 1.8, 3.7, 6.2, 9.5, 14.0, 20.0, 27.0, 37.0, 47.0],
        training=falling(600.0, 300.0, 101),
        fires=True,
    ),
    case("the same model in a second phase", EASY_THEN_HARD, training=TWICE, facts=TUNED_FURTHER, fires=True),
    case(
        "within the next fold",
        [2.0, 1.5, 1.0, 0.7, 1.0, 0.9, 1.3, 1.7, 2.1, 2.5],
        training=TWICE,
        facts=TWO_FOLDS,
        fires=True,
    ),
    OTHER_ORDER,
    case("the next fold is harder", EASY_THEN_HARD, training=TWICE, facts=TWO_FOLDS),
    case("both fall", HEALTHY),
    case("a small rise of little", [2.0, 0.5, *[0.1 + 0.005 * k for k in range(8)]]),
    case(
        "a small rise while training is far from nothing",
        [2.0, 1.0, *[1.0 + 0.03 * k for k in range(1, 9)]],
        training=falling(2.3, 0.8, 101),
    ),
    case(
        "a good checkpoint, trained further",
        [0.21 - 0.0001 * k for k in range(10)],
        training=falling(0.24, 0.14, 101),
        facts=ENTROPY,
    ),
    case("the same, with a loss by hand", [0.21 - 0.0001 * k for k in range(10)], training=falling(0.24, 0.19, 101)),
    case(
        "better than guessing, and no more",
        [2.0 + 0.001 * k for k in range(10)],
        training=falling(2.4, 1.9, 101),
        facts=ENTROPY,
    ),
    case("it ended far above guessing, after two evaluations", [4.0, 5.0], every=50, facts=ENTROPY, fires=True),
    case("far above guessing, and it has not ended", [4.0, 5.0], every=49, facts=ENTROPY, step=99),
    case("far above guessing once", [4.0], every=100, facts=ENTROPY),
    case("one of two evaluations is far above guessing", [3.0, 5.0], every=50, facts=ENTROPY),
    case("far above guessing, as the training is", [4.0, 5.0], every=50, facts=ENTROPY, training=SLOWLY),
    case("far above guessing, which nobody knows", [4.0, 5.0], every=50),
    case("validation is far above training, and falls", [value + 0.6 for value in HEALTHY]),
    case(
        "better than guessing, and a little worse now",
        [1.9, 1.95, 2.0, 2.05, 2.1, 2.15, 2.2, 2.25, 2.3, 2.35],
        training=falling(2.3, 1.2, 101),
        facts=ENTROPY,
    ),
    case("one bad evaluation", [*HEALTHY[:6], 1.9, *HEALTHY[7:]]),
    case("both rise", RISES, training=along([*np.linspace(2.3, 1.0, 40), *np.linspace(1.0, 2.3, 61)])),
    case("too few evaluations", RISES[3:6], every=30),
    case("it has turned just now", [*[2.3 - 0.2 * k for k in range(10)], *[0.6 + 0.4 * k for k in range(3)]], every=7),
    case("a few samples: it jumps about", [2.3, 0.6, 1.1, 0.5, 1.0, 0.6, 1.1, 0.7, 1.2, 0.8]),
    case("trained on to nothing: validation stays near its best", [2.3, 1.2, 0.8, *[0.6 + 0.01 * k for k in range(7)]]),
    case(
        "more wrong answers in an evaluation: higher by as much all the time",
        [4.2, 3.6, 3.2, 2.9, 2.7, 2.5, 2.4, 2.35, 2.3, 2.28],
    ),
    case(
        "the same, and above guessing by the training's labels",
        [4.2, 3.9, 3.6, 3.4, 3.2, 3.05, 2.95, 2.9, 2.85, 2.85],
        training=falling(2.3, 1.0, 101),
        facts=ENTROPY,
    ),
    case("it shares half of it and gains more", [2.3 - 0.1 * k for k in range(10)]),
]

test_cases = every_case(Overfit(), CASES)


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        pytest.param(CASES[0], Cause.OVERFITTING, id="by-heart"),
        pytest.param(CASES[9], Cause.WRONG_LABELS, id="never-better-than-guessing"),
        pytest.param(CASES[3], Cause.WRONG_LABELS, id="never-learned"),
    ],
)
def test_what_it_says(case: RuleCase, cause: Cause) -> None:
    findings = assert_case(Overfit(), case)
    assert Overfit().suspicions(findings, case.window)[0].cause is cause
    assert Overfit().severity_of(findings) is Severity.WARNING


def test_it_asks_for_the_validation_labels_where_guessing_is_far_better() -> None:
    finding = assert_case(Overfit(), OTHER_ORDER)
    first = Overfit().suspicions(finding, OTHER_ORDER.window)[0]
    assert first.cause is Cause.WRONG_LABELS
    assert first.because.endswith("are its labels coded as those of the training?")


def test_since_the_best_evaluation() -> None:
    (finding,) = assert_case(Overfit(), CASES[0])
    assert (finding.since_step, finding.statistics["lowest"], finding.statistics["now"]) == (40, 1.0, 2.2)


def test_what_it_lacks() -> None:
    assert Overfit().lacks(CASES[0].window) == ""
    assert Overfit().lacks(RuleCase("no evaluation", recorded={LOSS: {"mean": FALLS}}).window)
    several = {f"NLLLoss_output_{k}": {"mean": FALLS} for k in range(2)}
    unpaired = RuleCase("two to choose from", recorded=several, evaluated={LOSS: {"mean": along(RISES, every=10)}})
    assert "one training loss" in Overfit().lacks(replace(unpaired, step=100).window)


losses = st.lists(st.floats(0.1, 10), min_size=4, max_size=20)


@given(evaluated=losses, seed=st.integers(0, 99), factor=st.floats(0.01, 100), shift=st.floats(0, 10))
def test_a_factor_and_a_constant_change_nothing(evaluated: list[float], seed: int, factor: float, shift: float) -> None:
    validation = np.round(np.array(evaluated), 2)
    training = np.round(np.sort(np.random.default_rng(seed).uniform(0, 5, len(evaluated)))[::-1], 2)
    found = lost_again(validation, training, patience=2)
    scaled = lost_again(validation * factor + shift, training * factor + shift, patience=2)
    if found is not None and found.share > 1e-6 and scaled is not None:
        assert scaled.share == pytest.approx(found.share, rel=1e-3)
        assert scaled.best == found.best


@given(evaluated=losses)
def test_what_only_falls_has_lost_nothing(evaluated: list[float]) -> None:
    validation = np.array(sorted(evaluated, reverse=True))
    assert lost_again(validation, validation, patience=3) is None or len(set(evaluated)) < len(evaluated)


@pytest.mark.parametrize(
    ("scale", "shift", "fires"),
    [
        pytest.param(300.0, 1000.0, True, id="not-scaled"),
        pytest.param(300.0, 0.0, True, id="not-divided"),
        pytest.param(1.0, 0.0, False, id="alike"),
        pytest.param(2.0, 0.5, False, id="of-another-place"),
    ],
)
def test_labels_of_another_size(scale: float, shift: float, fires: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(96, 3)
    targets = inputs.sum(1, keepdim=True)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with trackside.Hook(str(tmp_path / "run"), save={"losses": 1, "labels": 1}) as hook:
        hook.watch(model)
        for step in range(40):
            model.train()
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs[:64]), targets[:64]).backward()
            optimizer.step()
            if step % 8 == 7:
                model.eval()
                with torch.no_grad():
                    torch.nn.functional.mse_loss(model(inputs[64:]), targets[64:] * scale + shift)
    window = trackside.open_trial(str(tmp_path / "run")).window(39, now=0.0)
    found = list(Overfit().check(window))
    causes = [one.cause for one in Overfit().suspicions(found, window)] if found else []
    assert causes[:1] == [Cause.WRONG_LABELS] * fires
