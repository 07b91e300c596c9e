"""Rules on records with gaps: a rest of the watch is no stop, no jump, and no plateau."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.run.recorded_names import GRADIENTS_KEPT, RESTED_STEPS, UPDATE_SIZE
from trackside.contracts.verdict import Finding, Severity
from trackside.diagnosis.harm import lasted_steps
from trackside.rules.program.gradients_not_cleared import GradientsNotCleared
from trackside.rules.program.learning_rate_collapsed import LearningRateCollapsed
from trackside.rules.program.parameters_not_trained import ParametersNotTrained
from trackside.rules.rule import Rule
from trackside.rules.tensors.long_momentum import LongMomentum
from trackside.rules.tensors.loss_not_decreasing import LossNotDecreasing
from trackside.rules.tensors.loss_spike import LossSpike
from trackside.rules.tensors.overfit import Overfit
from trackside.rules.tensors.overtraining import Overtraining
from trackside.rules.tensors.runaway_updates import RunawayUpdates
from trackside.rules.tensors.weights_set_back import WeightsSetBack
from trackside.testing.rule_case import RuleCase, assert_case

LOSS, RATE = "CrossEntropyLoss_output_0", "hyperparameters/SGD/group_0/lr"
FIRST, EVERY, BURST, STEPS = 400, 100, 4, 3000
NOISE = np.random.default_rng(0).normal(size=STEPS)
BODY, HEAD = (ParameterFacts(f"Net_{name}.weight", name, (8, 8), "float32", optimizer="SGD") for name in ("a", "b"))
FACTS = ModelFacts(
    losses=(LossFacts(LOSS, "CrossEntropyLoss", class_count=10),),
    parameters=(BODY, HEAD),
    optimizers=(OptimizerFacts("SGD", "SGD"),),
)
Numbers = Mapping[str, Mapping[str, Sequence[float] | np.ndarray]]


def watched(steps: int = STEPS, *, first: int = FIRST, every: int = EVERY) -> list[int]:
    """Return the steps of a run with rests: all of the first, and then bursts."""
    return [step for step in range(steps) if step < first or (step - first) % every >= every - BURST]


def thinned(numbers: Numbers, kept: Sequence[int]) -> dict[str, dict[str, dict[int, float]]]:
    """Return the numbers of these steps, with the number of steps at rest. An update is that of one step."""
    begins = [step for step, before in zip(kept[1:], kept, strict=False) if step > before + 1]
    found = {
        name: {
            of: {
                s: float(v[s])
                for s in kept
                if s < len(v) and not (name in {UPDATE_SIZE, GRADIENTS_KEPT} and s in begins)
            }
            for of, v in statistics.items()
        }
        for name, statistics in numbers.items()
    }
    rests = {step: float(step - before - 1) for step, before in zip(kept[1:], kept, strict=False) if step > before + 1}
    return {**found, **({RESTED_STEPS: {"mean": rests}} if rests else {})}


def curve(start: float, end: float, *, half: float = 100.0, noise: float = 0.02, steps: int = STEPS) -> np.ndarray:
    """Return a loss that falls from one level to another."""
    return end + (start - end) * 0.5 ** (np.arange(steps) / half) + noise * NOISE[:steps]


def updates(level: float = 0.002, *, since: int = STEPS, times: float = 5.0) -> np.ndarray:
    """Return relative updates that are larger from a step on."""
    return np.where(np.arange(STEPS) < since, level, level * times) * (1 + 0.02 * NOISE)


def rates(level: float = 0.003, *, since: int = STEPS, times: float = 10.0) -> np.ndarray:
    """Return a learning rate that is higher from a step on."""
    return np.where(np.arange(STEPS) < since, level, level * times)


def case(name: str, numbers: Numbers, *, fires: str = "", steps: int = STEPS, **more: Any) -> RuleCase:
    """Return a case of numbers of each step, of which those of bursts are recorded."""
    kept = [step for step in watched(steps) if all(step < len(v) for of in numbers.values() for v in of.values())]
    return RuleCase(name, recorded=thinned(numbers, kept), fires=(fires,) if fires else (), **more)


def losses(values: np.ndarray, also: Numbers | None = None) -> Numbers:
    """Return numbers of a training with this loss."""
    return {LOSS: {"mean": values}, **(also or {})}


PLATEAU_THEN_FALLS = np.concatenate([np.full(600, 2.3), curve(2.3, 0.3, half=300, steps=2400, noise=0)]) + 0.02 * NOISE
WARM_UP = 0.003 * np.minimum(1.0, np.arange(1, STEPS + 1) / 2500)
HURT = np.where(np.arange(STEPS) < 2450, curve(4.0, 0.5), 3.0 + 0.02 * NOISE)
ENDS_AT_ZERO = 0.01 * np.maximum(0.0, 1 - np.arange(STEPS) / 2850)
COLLAPSED = np.where(np.arange(STEPS) < 700, 0.01, 1e-6)

TRAININGS = [
    (LossNotDecreasing(), case("stuck from the first step to the last", losses(2.3 + 0.02 * NOISE), fires=LOSS)),
    (LossNotDecreasing(), case("it falls after the first rest", losses(PLATEAU_THEN_FALLS))),
    (LossNotDecreasing(), case("it falls", losses(curve(2.3, 0.3, half=1500)))),
    (
        LossNotDecreasing(),
        case("it rises late, and stays", losses(HURT + np.where(np.arange(STEPS) < 2450, 0.0, 3.0)), fires=LOSS),
    ),
    (
        RunawayUpdates(),
        case(
            "updates of five times the size",
            losses(curve(4.0, 0.5), {UPDATE_SIZE: {"mean": updates(since=2800)}}),
            fires="all weights",
        ),
    ),
    (RunawayUpdates(), case("usual updates", losses(curve(4.0, 0.5), {UPDATE_SIZE: {"mean": updates()}}))),
    (
        LossSpike(),
        case("a rate that was raised in a rest", losses(HURT, {RATE: {"mean": rates(since=2450)}}), fires=LOSS),
    ),
    (
        LossSpike(),
        case(
            "one burst is higher",
            losses(curve(4.0, 0.5) + np.where(np.arange(STEPS) >= 2996, 0.2, 0.0), {RATE: {"mean": rates()}}),
        ),
    ),
    (LossSpike(), case("a warm-up that goes on in rests", losses(curve(4.0, 0.5), {RATE: {"mean": WARM_UP}}))),
    (
        LearningRateCollapsed(),
        case("collapsed for most of the run", losses(curve(4, 1), {RATE: {"mean": COLLAPSED}}), fires=RATE),
    ),
    (LearningRateCollapsed(), case("it ends at zero", losses(curve(4, 1), {RATE: {"mean": ENDS_AT_ZERO}}))),
    (Overtraining(patience_train=50), case("nothing better for long", losses(curve(4, 0.5, half=20)), fires=LOSS)),
    (Overtraining(), case("a hundred steps were seen since", losses(curve(4, 0.5, half=20)))),
    (GradientsNotCleared(), case("never cleared", {GRADIENTS_KEPT: {"mean": np.ones(STEPS)}}, fires=GRADIENTS_KEPT)),
    (
        GradientsNotCleared(),
        case(
            "kept once in a while",
            {GRADIENTS_KEPT: {"mean": (np.arange(STEPS) % 100 == 98) & (np.arange(STEPS) > 400)}},
        ),
    ),
    (
        LongMomentum(),
        case(
            "as many steps as it averages, most of them at rest",
            losses(np.full(STEPS, 2.3)),
            facts=replace(FACTS, optimizers=(OptimizerFacts("SGD", "SGD", groups=({"momentum": 0.999},)),)),
        ),
    ),
]


@pytest.mark.parametrize(
    ("rule", "run"), [pytest.param(rule, run, id=f"{rule.rule_id}: {run}") for rule, run in TRAININGS]
)
def test_a_rest_is_no_fault(rule: Rule, run: RuleCase) -> None:
    assert_case(rule, run)


def with_evaluations(
    name: str, validation: Sequence[float], *, fires: bool = False, thrown_at: int = STEPS, every: int = 60
) -> RuleCase:
    """Return a case of evaluations of one batch each, which end a rest, and after which some steps are watched."""
    evaluated = {100 + every * place: value for place, value in enumerate(validation)}
    kept = sorted({*range(100), *(step + after for step in evaluated for after in range(1, 1 + BURST))})
    losses_then = np.where(np.arange(STEPS) < 100 + every * thrown_at + 10, curve(2.3, 0.05), 2.4)  # in a rest
    numbers = thinned({LOSS: {"mean": losses_then}}, kept)
    return RuleCase(name, recorded=numbers, evaluated={LOSS: {"mean": evaluated}}, fires=(LOSS,) if fires else ())


@pytest.mark.parametrize(
    "run",
    [
        with_evaluations("it rises", [2.0, 1.5, 1.1, *np.linspace(1.0, 2.2, 40)], fires=True),
        with_evaluations("it falls", [*np.linspace(2.0, 0.1, 43)]),
        with_evaluations("the last is worse, and the one before was not", [*np.linspace(2.0, 0.1, 42), 1.5]),
        with_evaluations(
            "it is thrown out with the training", [*np.linspace(2.0, 0.1, 40), 2.4, 2.4, 2.4], thrown_at=39
        ),
    ],
    ids=str,
)
def test_evaluations_that_end_a_rest_are_beside_the_steps_after_them(run: RuleCase) -> None:
    assert tuple(finding.subject for finding in Overfit().check(run.window)) == run.fires


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param(2996, 3, id="within the newest burst"),
        pytest.param(2899, 4, id="over a rest of 96 steps"),
        pytest.param(350, 49 + 26 * BURST, id="since the first steps, all of which were watched"),
    ],
)
def test_a_finding_has_lasted_for_as_many_steps_as_were_watched(since: int, expected: int) -> None:
    run = case("a loss", losses(curve(4.0, 0.5)))
    finding = Finding(LOSS, step=2999, since_step=since, measure="loss", observed=1.0, relation=">", threshold=0.0)
    assert lasted_steps([finding], run.window) == expected


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(updates(), id="usual updates"),
        pytest.param(updates(since=1000, times=1.5), id="larger ones later"),
    ],
)
def test_what_changed_in_a_rest_is_no_jump(sizes: np.ndarray) -> None:
    kept = watched()
    numbers = thinned({LOSS: {"mean": curve(4.0, 0.5)}, BODY.name: {"l2": 4.0 + 0.001 * np.arange(STEPS)}}, kept)
    over_rests = {step: float(sizes[step]) for step in kept}
    over_rests |= dict.fromkeys(numbers[RESTED_STEPS]["mean"], 0.3)  # the change since the burst before
    run = RuleCase("rests", recorded={**numbers, UPDATE_SIZE: {"mean": over_rests}}, facts=FACTS)
    for rule in (WeightsSetBack(), RunawayUpdates()):
        assert not [*rule.check(run.window)]


RULES: tuple[Rule, ...] = (
    *(LossNotDecreasing(), Overtraining(), Overfit(), LossSpike(), RunawayUpdates(), LearningRateCollapsed()),
    *(GradientsNotCleared(), WeightsSetBack(), LongMomentum(), ParametersNotTrained()),
)


@st.composite
def healthy(draw: st.DrawFn) -> Numbers:
    """Return the numbers of a healthy training."""
    start, share, half = draw(st.floats(0.5, 8)), draw(st.floats(0.02, 0.5)), draw(st.floats(50, 800))
    seed, noise = draw(st.integers(0, 99)), draw(st.floats(0.0, 0.1))
    at_random = np.random.default_rng(seed).normal(size=STEPS)
    loss = np.abs(curve(start, share * start, half=half, noise=0.0) * (1 + noise * at_random))
    schedule = draw(st.sampled_from(["constant", "cosine", "warm-up", "restarts"]))
    part = np.arange(STEPS) / STEPS
    shapes = {"constant": np.ones(STEPS), "cosine": 0.505 + 0.495 * np.cos(np.pi * part)}
    shapes |= {"warm-up": np.minimum(1.0, 2 * part + 0.001), "restarts": 0.505 + 0.495 * np.cos(np.pi * (6 * part % 1))}
    rate = 0.01 * shapes[schedule]
    return {
        LOSS: {"mean": loss},
        RATE: {"mean": rate},
        UPDATE_SIZE: {"mean": rate * (1 + 0.1 * np.abs(at_random))},
        GRADIENTS_KEPT: {"mean": np.zeros(STEPS)},
        **{p.gradient: {"l2": 1 + 0.1 * at_random**2, "is_present": np.ones(STEPS)} for p in (BODY, HEAD)},
        **{p.name: {"l2": 4 + np.sqrt(np.arange(STEPS)) / 20} for p in (BODY, HEAD)},
    }


def alarms(recorded: Mapping[str, Any]) -> set[str]:
    """Return the rules that warn at the end of a run."""
    run = RuleCase("run", recorded=recorded, facts=FACTS)
    return {rule.rule_id for rule in RULES if _warns(rule, run)}


def _warns(rule: Rule, run: RuleCase) -> bool:
    findings = [*rule.check(run.window)]
    return bool(findings) and rule.severity_of(findings) is not Severity.INFO


def bursts(lengths: Sequence[int]) -> Iterator[int]:
    """Yield watched steps: all of the first, then bursts with rests of these lengths between them."""
    yield from range(FIRST)
    step = FIRST
    for length in lengths:
        step += length
        yield from range(step, step + BURST)
        step += BURST


@settings(max_examples=8, deadline=None)
@given(numbers=healthy(), lengths=st.lists(st.integers(1, 600), min_size=1, max_size=60))
def test_a_thinned_healthy_run_raises_nothing_new(numbers: Numbers, lengths: list[int]) -> None:
    kept = [step for step in bursts(lengths) if step < STEPS]
    whole = thinned(numbers, range(kept[-1] + 1))
    assert alarms(thinned(numbers, kept)) <= alarms(whole)
