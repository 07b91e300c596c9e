"""shrunken-weights: the weights have shrunk to a small part of their first size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.training_lib.rules.columns import along, falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts, ParameterFacts
from trackside.rules.tensors.shrunken_weights import ShrunkenWeights
from trackside.testing.rule_case import RuleCase, assert_case

A, B, C = "Net_a.weight", "Net_b.weight", "Net_c.weight"


def facts(
    *, decay: float = 0.0, frozen: tuple[str, ...] = (), vectors: bool = False, is_decoupled: bool = False
) -> ModelFacts:
    shape = (8,) if vectors else (8, 8)
    names = [ParameterFacts(n, n[4], shape, "float32", requires_grad=n not in frozen) for n in (A, B, C)]
    return ModelFacts(
        parameters=tuple(names),
        optimizers=(
            OptimizerFacts(
                "SGD", "SGD", groups=({"weight_decay": decay, "decoupled_weight_decay": float(is_decoupled)},)
            ),
        ),
    )


def case(
    name: str,
    *norms: Mapping[int, float],
    fires: tuple[str, ...] = (),
    of: ModelFacts | None = None,
    step: int | None = None,
    gradient: float | None = None,
    zeros: float | None = None,
    guess: float | None = None,
) -> RuleCase:
    recorded = {tensor: {"l2": column} for tensor, column in zip((A, B, C), norms, strict=False)}
    if gradient is not None:
        recorded |= {f"gradient/{tensor}": {"l2": steady(gradient)} for tensor in (A, B, C)}
    if zeros is not None:
        recorded |= {f"gradient/{tensor}": {"zero_share": steady(zeros)} for tensor in (A, B, C)}
    if guess is not None:  # of a term of the loss
        recorded["trackside/loss_term_guess_1"] = {"mean": steady(guess)}
    return RuleCase(name, recorded=recorded, facts=of or facts(), fires=fires, step=step)


TWO_NORMS = case("two norms", *[{0: 4.0, 50: 0.01}] * 3)
GONE, HALF, GROWN, THIRD = falling(4.0, 0.01), falling(4.0, 2.0), falling(4.0, 9.0), falling(4.0, 1.4)
CASES = [
    case("all shrink to nothing", GONE, GONE, GONE, fires=(A, B, C)),
    case("the smallest comes first", falling(4.0, 0.2), GONE, falling(4.0, 0.1), fires=(B, C, A)),
    case("most shrink", GONE, HALF, GONE, fires=(A, C)),
    case("under weight decay", GONE, GONE, GONE, of=facts(decay=1.0), fires=(A, B, C)),
    case("one is frozen", GONE, GONE, steady(4.0), of=facts(frozen=(C,)), fires=(A, B)),
    case("one begins at zero", GONE, GONE, along([0.0] * 60), fires=(A, B)),
    case("without facts", GONE, fires=(A,)),
    case("they grow", GROWN, GROWN, GROWN),
    case("they stay", steady(4.0), steady(4.0), steady(4.0)),
    case("half of the size, as under usual decay", HALF, HALF, HALF),
    case("a third, as of the healthiest that shrinks most", *[falling(4.0, 1.4)] * 3),
    case("a third, by a decay above the gradients", *[THIRD] * 3, of=facts(decay=1.0), gradient=0.3, fires=(A, B, C)),
    case("a third, by a decay below the gradients", *[THIRD] * 3, of=facts(decay=0.05), gradient=0.3),
    case("a third, by a usual decay beside no gradients", *[THIRD] * 3, of=facts(decay=0.01), gradient=1e-4),
    case("a third, by AdamW", *[THIRD] * 3, of=facts(decay=1.0, is_decoupled=True), gradient=0.3),
    case(
        "a third, without gradients", *[THIRD] * 3, of=facts(decay=0.5, is_decoupled=True), zeros=0.98, fires=(A, B, C)
    ),
    case("a third, with half of the gradients", *[THIRD] * 3, of=facts(decay=0.5, is_decoupled=True), zeros=0.5),
    case("a third, without gradients and decay", *[THIRD] * 3, zeros=0.98),
    case("grown, without most gradients", *[GROWN] * 3, of=facts(decay=0.01, is_decoupled=True), zeros=0.98),
    case("a little, by a decay above the gradients", *[falling(4.0, 2.4)] * 3, of=facts(decay=1.0), gradient=0.3),
    case("one of three shrinks, as a gate", GONE, HALF, GROWN),
    case("too early", *[falling(4.0, 0.01, 10)] * 3),
    TWO_NORMS,
    case("vectors", GONE, GONE, GONE, of=facts(vectors=True)),
    case("not finite", *[{**steady(4.0, 40), 50: float(np.nan)}] * 3),
]

test_cases = every_case(ShrunkenWeights(), CASES)


@pytest.mark.parametrize(
    ("chosen", "cause"),
    [
        pytest.param(
            case("", GONE, GONE, GONE, fires=(A, B, C), guess=0.0), Cause.PENALTY_TOO_STRONG, id="a-term-of-weights"
        ),
        pytest.param(CASES[0], None, id="no-decay"),
        pytest.param(case("", GONE, GONE, GONE, fires=(A, B, C), guess=1.5), None, id="a-term-of-targets"),
        pytest.param(CASES[3], Cause.WEIGHT_DECAY_TOO_STRONG, id="decay"),
        pytest.param(
            case("", GONE, GONE, GONE, of=facts(decay=0.0005), fires=(A, B, C), gradient=1e-4),
            Cause.VANISHING_GRADIENTS,
            id="a-usual-decay-beside-hardly-any-gradient",
        ),
        pytest.param(
            case("", GONE, GONE, GONE, of=facts(decay=0.0005), fires=(A, B, C), gradient=1.0),
            Cause.WEIGHT_DECAY_TOO_STRONG,
            id="a-usual-decay-beside-a-usual-gradient",
        ),
        pytest.param(
            case("", GONE, GONE, GONE, of=facts(decay=1.0), fires=(A, B, C), gradient=1e-4),
            Cause.WEIGHT_DECAY_TOO_STRONG,
            id="a-huge-decay",
        ),
    ],
)
def test_what_it_suspects(chosen: RuleCase, cause: Cause | None) -> None:
    suspicions = ShrunkenWeights().suspicions(assert_case(ShrunkenWeights(), chosen), chosen.window)
    assert [each.cause for each in suspicions[:1]] == ([] if cause is None else [cause])
    assert all(each.because.startswith("weights shrank to 0.25% of their size") for each in suspicions[:1])


def test_it_says_since_when() -> None:
    (finding, *_) = assert_case(ShrunkenWeights(), CASES[0])
    assert finding.observed == pytest.approx(0.0025)
    assert (
        4.0 * (0.01 / 4.0) ** (finding.since_step / 59) < 0.4 <= 4.0 * (0.01 / 4.0) ** ((finding.since_step - 1) / 59)
    )


def test_what_it_lacks() -> None:
    assert ShrunkenWeights().lacks(TWO_NORMS.window)
    assert ShrunkenWeights().lacks(CASES[0].window) == ""


@pytest.mark.parametrize(
    ("share", "said"), [pytest.param(0.98, True, id="most-rows-without"), pytest.param(0.02, False, id="few")]
)
def test_rows_without_a_gradient_that_decay(share: float, said: bool) -> None:
    chosen = case("", GONE, GONE, GONE, of=facts(decay=0.5, is_decoupled=True), zeros=share, fires=(A, B, C))
    first = ShrunkenWeights().suspicions(assert_case(ShrunkenWeights(), chosen), chosen.window)[0]
    assert first.cause is Cause.WEIGHT_DECAY_TOO_STRONG
    assert ("98% of their gradient is exactly zero" in first.because) is said
