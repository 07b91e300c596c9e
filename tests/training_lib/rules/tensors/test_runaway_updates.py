"""runaway-updates: updates of the weights grow far beyond their recent size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import along
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts
from trackside.contracts.run.recorded_names import UPDATE_SIZE
from trackside.contracts.verdict import Severity
from trackside.rules.tensors.runaway_updates import RunawayUpdates
from trackside.situation.update_growth import stands_out
from trackside.testing.rule_case import RuleCase, assert_case

LOSS, ALL, RATE = "CrossEntropyLoss_output_0", "all weights", "hyperparameters/AdamW/group_0/lr"
SECOND_TRAINER = (
    ModelFacts(optimizers=(OptimizerFacts("AdamW", "AdamW"),)),
    ModelFacts(from_step=200, optimizers=(OptimizerFacts("AdamW_1", "AdamW"),)),
)
_NOISE = np.random.default_rng(1).normal(0, 1, 1000)


def calm(count: int, *, size: float = 2e-3) -> list[float]:
    """Updates of about a size."""
    return [size * (1 + 0.05 * float(_NOISE[k])) for k in range(count)]


def case(name: str, updates: Sequence[float], *, fires: tuple[str, ...] = (), every: int = 1) -> RuleCase:
    sizes = along(updates, every=every)
    recorded: dict[str, dict[str, Mapping[int, Any]]] = {
        LOSS: {"mean": dict.fromkeys(sizes, 2.4)},
        UPDATE_SIZE: {"mean": sizes},
    }
    return RuleCase(name, recorded=recorded, fires=fires)


def at_other_steps(
    name: str, updates: Sequence[float], steps: Sequence[int], *, trained: Sequence[int], fires: tuple[str, ...] = ()
) -> RuleCase:
    """Updates that were measured at these steps, of all steps that trained."""
    recorded: dict[str, dict[str, Mapping[int, Any]]] = {
        LOSS: {"mean": dict.fromkeys(trained, 2.4)},
        UPDATE_SIZE: {"mean": dict(zip(steps, updates, strict=True))},
    }
    return RuleCase(name, recorded=recorded, fires=fires)


BETWEEN_EVALUATIONS = [step for step in range(400) if step % 40 < 25]  # the others are an evaluation's


def growing(count: int, *, factor: float = 1.2, size: float = 2e-3) -> list[float]:
    """Updates that grow at each step."""
    return [size * factor ** (k + 1) for k in range(count)]


FIRES = [
    case("a fifth larger at each step", calm(200) + growing(6), fires=(ALL,)),
    case("a jump that stays", calm(200) + [8e-3] * 4, fires=(ALL,)),
    case("beyond the end of a warm-up", [*np.linspace(1e-5, 2e-3, 80), *calm(100), *growing(8)], fires=(ALL,)),
    case("beyond an earlier cycle", calm(100) + calm(60, size=4e-3) + calm(100) + [9e-3] * 4, fires=(ALL,)),
    case("thinned", calm(120) + growing(6, factor=1.5), every=8, fires=(ALL,)),
]
FIRES.append(
    at_other_steps(
        "between evaluations",
        calm(240) + growing(10),
        BETWEEN_EVALUATIONS[:250],
        trained=BETWEEN_EVALUATIONS[:250],
        fires=(ALL,),
    )
)
FIRES.append(
    replace(case("under a second trainer", calm(400) + growing(6), fires=(ALL,)), facts=SECOND_TRAINER),
)
SILENT = [
    replace(case("a second trainer takes larger steps", calm(200) + [8e-3] * 4), facts=SECOND_TRAINER),
    case("calm", calm(300)),
    at_other_steps("calm between evaluations", calm(250), BETWEEN_EVALUATIONS[:250], trained=BETWEEN_EVALUATIONS[:250]),
    case("a warm-up in a straight line", [*np.linspace(1e-5, 2e-3, 300)]),
    case("half a cosine upwards", [*(2e-3 * (1 - np.cos(np.linspace(0, np.pi, 300))) + 1e-5)]),
    case("a restart to where it was before", calm(100) + calm(100, size=5e-4) + calm(20)),
    case("two large steps", calm(200) + [8e-3] * 2),
    case("large steps now and then", [x * (5 if k % 9 == 0 else 1) for k, x in enumerate(calm(300))]),
    case("too few", calm(40) + growing(6)),
    case("not trained at all", [0.0] * 200),
    case("from zero on", [0.0] * 200 + [1e-3] * 2),
]

test_cases = every_case(RunawayUpdates(), [*FIRES, *SILENT])


def test_measurements_at_other_distances_are_not_compared() -> None:
    denser = {**along(calm(100)), **along([2e-2] * 6, every=8, start=108)}
    recorded = {LOSS: {"mean": dict.fromkeys(range(150), 2.4)}, UPDATE_SIZE: {"mean": denser}}
    assert_case(RunawayUpdates(), RuleCase("thinned all of a sudden", recorded=recorded))


def test_it_suspects_the_learning_rate() -> None:
    found = assert_case(RunawayUpdates(), FIRES[0])
    suspicion = RunawayUpdates().suspicions(found, FIRES[0].window)[0]
    assert suspicion.cause is Cause.LEARNING_RATE_TOO_HIGH
    assert "times as large as in the 50 steps before" in suspicion.because
    assert 200 <= found[0].since_step <= 203


@pytest.mark.parametrize(
    ("rates", "severity"),
    [
        pytest.param([3e-3] * 200 + growing(6, size=3e-3), Severity.WARNING, id="the-rate-runs-away"),
        pytest.param([3e-3] * 206, Severity.INFO, id="the-rate-is-as-ever"),
        pytest.param([3e-3] * 100 + [1e-3] * 100 + [3e-3] * 6, Severity.INFO, id="the-rate-was-there-before"),
        pytest.param([], Severity.INFO, id="no-rate-is-known"),
    ],
)
def test_only_a_rate_that_was_never_so_high_confirms_it(rates: Sequence[float], severity: Severity) -> None:
    known = {RATE: {"mean": along(rates)}} if rates else {}
    confirmed = replace(FIRES[0], recorded={**FIRES[0].recorded, **known})
    assert RunawayUpdates().severity_of(assert_case(RunawayUpdates(), confirmed)) is severity


@pytest.mark.parametrize(
    ("count", "lacks"), [pytest.param(72, "73 measured updates", id="few"), pytest.param(73, "", id="enough")]
)
def test_it_says_how_many_measurements_it_needs(count: int, lacks: str) -> None:
    assert RunawayUpdates().lacks(case("", calm(count)).window).startswith(lacks)


@given(scale=st.floats(1e-6, 1e3), grown=st.floats(1.0, 10.0))
def test_growth_has_no_unit(scale: float, grown: float) -> None:
    sizes = np.array(calm(100) + [2e-3 * grown] * 3)
    assert stands_out(sizes, deviations=6) == stands_out(sizes * scale, deviations=6)
