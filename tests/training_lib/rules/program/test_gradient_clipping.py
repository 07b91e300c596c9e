"""gradient-clipping: clipping leaves hardly anything of the gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import along, falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts, ProgramFacts
from trackside.contracts.observations import CLIPPINGS, ClippingFacts
from trackside.contracts.run.recorded_names import CLIPPING
from trackside.rules.program.gradient_clipping import GradientClipping, kept_shares
from trackside.testing.rule_case import RuleCase, assert_case, replay

LOSS, W = "CrossEntropyLoss_output_0", "Net_fc.weight"
STUCK, LEARNS = steady(2.3, 100), falling(2.3, 0.1, 100)
LINE = ModelFacts(program=ProgramFacts(observed={CLIPPINGS: (ClippingFacts("norm", 0.001, "train.py:31"),)}))


ADAM = replace(
    LINE, optimizers=(OptimizerFacts("AdamW", "AdamW", groups=({"lr": 1e-3, "betas_1": 0.999, "eps": 1e-8},)),)
)
RMSPROP = replace(LINE, optimizers=(OptimizerFacts("RMSprop", "RMSprop", groups=({"lr": 1e-3, "eps": 1e-8},)),))
PLAIN = replace(LINE, optimizers=(OptimizerFacts("SGD", "SGD", groups=({"lr": 1e-3, "momentum": 0.9},)),))
BOTH = replace(ADAM, optimizers=(*ADAM.optimizers, *PLAIN.optimizers))


def case(
    name: str,
    norms: Mapping[int, float],
    limit: float,
    *,
    loss: Mapping[int, float] = STUCK,
    ratio: float | None = 1e-3,
    fires: tuple[str, ...] = (),
    facts: ModelFacts = LINE,
) -> RuleCase:
    recorded: dict[str, dict[str, Mapping[int, Any]]] = {
        CLIPPING: {"mean": norms, "max_norm": dict.fromkeys(norms, limit)},
        LOSS: {"mean": loss},
        **({W: {"update_ratio": steady(ratio, 100)}} if ratio is not None else {}),
    }
    return RuleCase(name, recorded=recorded, fires=fires, facts=facts)


def by_hand(
    name: str,
    *norms: Mapping[int, float],
    ratio: float = 1e-6,
    loss: Mapping[int, float] = STUCK,
    weight: Mapping[int, float] | None = None,
    fires: bool = False,
    facts: ModelFacts = PLAIN,
) -> RuleCase:
    """Gradients of several tensors after what a script did to them, unseen by any hook."""
    recorded: dict[str, dict[str, Mapping[int, Any]]] = {
        f"gradient/Net_{place}.weight": {"l2": values} for place, values in enumerate(norms)
    }
    recorded |= {LOSS: {"mean": loss}, W: {"update_ratio": steady(ratio, 100), "l2": weight or steady(4.0, 100)}}
    return RuleCase(name, recorded=recorded, fires=("gradients",) if fires else (), facts=facts)


NOISE = np.random.default_rng(0).uniform(0.5, 1.5, 100)
NOISY, OTHER = along(NOISE), along(NOISE[::-1])
PARTS = along(0.01 * np.cos(NOISE)), along(0.01 * np.sin(NOISE))
FIRES = (CLIPPING,)
CASES = [
    case("a hundredth is left", steady(1.0, 100), 0.01, fires=FIRES),
    case("hardly anything is left", steady(50.0, 100), 1e-4, fires=FIRES),
    case("norms that swing", along([1.0, 100.0] * 50), 0.01, fires=FIRES),
    case("it learns, but weights stand still", steady(1.0, 100), 0.001, loss=LEARNS, ratio=1e-7, fires=FIRES),
    case("half the steps are known", steady(1.0, 30, start=70), 0.001, fires=FIRES),
    case("plain steps", steady(1.0, 100), 0.01, facts=PLAIN, fires=FIRES),
    case("plain steps beside Adam's", steady(1.0, 100), 0.01, facts=BOTH, fires=FIRES),
    case("Adam, and weights stand still", steady(1.0, 100), 1e-9, facts=ADAM, ratio=1e-6, fires=FIRES),
    case("RMSprop, and weights stand still", steady(1.0, 100), 1e-9, facts=RMSPROP, ratio=1e-6, fires=FIRES),
    case("Adam's steps are as large as ever", steady(1.0, 100), 0.001, facts=ADAM),
    case("RMSprop's steps are as large as ever", steady(1.0, 100), 0.001, facts=RMSPROP),
    case("Adam, and nothing is known of its steps", steady(1.0, 100), 0.001, facts=ADAM, ratio=None),
    case("a fuse for spikes", along([0.5] * 95 + [80.0] * 5), 1.0),
    case("half is left", steady(2.0, 100), 1.0),
    case("Adam learns anyhow", steady(1.0, 100), 0.001, loss=LEARNS),
    by_hand("by value, to the last element", steady(1e-5, 100), steady(2e-5, 100), fires=True),
    by_hand("by value, half of the tensors", steady(1e-5, 100), steady(2e-5, 100), NOISY, fires=True),
    by_hand("divided by their norm", *PARTS, fires=True),
    by_hand("divided by their norm, which Adam does anyhow", *PARTS, facts=ADAM),
    by_hand("as they are", NOISY, OTHER),
    by_hand("by value, but for a few elements", along([1e-5, 1e-5, 9e-6] * 34), steady(2e-5, 100), NOISY, fires=True),
    by_hand("by value, at times", *[along([1e-5, *NOISE[i : i + 4]] * 20) for i in (0, 9, 20)], NOISY, fires=True),
    by_hand("one of four tensors, as the last bias of a loss of signs", steady(1e-5, 100), NOISY, OTHER, NOISY),
    by_hand("divided by their norm, and the steps are large", *PARTS, ratio=1e-3),
    by_hand("a decay outweighs them", *PARTS, ratio=0.1, weight=falling(4.0, 0.1, 100), fires=True),
    by_hand("a decay beside gradients as they are", NOISY, OTHER, ratio=0.1, weight=falling(4.0, 0.1, 100)),
    by_hand("divided by their norm at the end of a schedule", *PARTS, loss=LEARNS),
    by_hand("no gradient at all", steady(0.0, 100), steady(0.0, 100)),
    by_hand("not finite", steady(float("inf"), 100), steady(float("nan"), 100)),
    by_hand("by value, since a few steps", steady(1e-5, 12, start=88), steady(1e-5, 12, start=88)),
    case("a few steps only", steady(1.0, 10, start=90), 0.001),
    RuleCase("no clipping", recorded={LOSS: {"mean": STUCK}}),
]

test_cases = every_case(GradientClipping(), CASES)


def test_it_says_how_often_how_hard_and_where() -> None:
    (finding,) = assert_case(GradientClipping(), CASES[0])
    assert finding.statistics == {"usual_norm": 1.0, "limit": 0.01, "share_of_steps": 1.0}
    assert finding.place == "train.py:31"
    likely, _ = GradientClipping().suspicions([finding], CASES[0].window)
    assert (likely.cause, likely.because) == (Cause.CLIPPING_TOO_LOW, "a gradient of norm 1 is cut to 0.01")


def test_it_is_told_within_the_first_fifty_steps() -> None:
    (finding,) = replay(GradientClipping(), CASES[0].trial)
    assert finding.step <= 50


@given(
    norms=st.lists(st.one_of(st.floats(0, 1e30), st.sampled_from([float("nan"), float("inf")])), min_size=1),
    limit=st.floats(1e-6, 1e6),
)
def test_shares_lie_between_zero_and_one_and_what_is_below_the_limit_is_whole(norms: list[float], limit: float) -> None:
    before = np.array(norms)
    kept = kept_shares(before, limits=np.full(len(norms), limit))
    assert ((kept >= 0) & (kept <= 1)).all()
    assert (kept[before <= limit] == 1).all()
    assert np.allclose((kept * before)[np.isfinite(before) & (before > limit)], limit)
