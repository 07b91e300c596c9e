"""loss-not-decreasing: noise, plateaus and real trouble."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts, ProgramFacts
from trackside.contracts.observations import ROUNDS_BEFORE
from trackside.contracts.verdict import Severity
from trackside.rules.tensors.loss_not_decreasing import LossNotDecreasing
from trackside.situation.losses.stuck_losses import judge_losses
from trackside.testing.rule_case import RuleCase, assert_case, recorded_trial, replay

LOSS, RATE = "CrossEntropyLoss_output_0", "hyperparameters/SGD/group_0/lr"
SUM, ADDEND = "loss_output_0", "MSELoss_output_0"
BY_HAND = ModelFacts(losses=(LossFacts(SUM, backward_line="train.py:9"),))
BUILT_IN = ModelFacts(losses=(LossFacts(LOSS, "CrossEntropyLoss", "mean"),))
SUMMED = ModelFacts(losses=(*BY_HAND.losses, LossFacts(ADDEND, "MSELoss", "mean", backward_line="train.py:9")))
TWO_OPTIMIZERS = ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam"), OptimizerFacts("Adam_1", "Adam")))
CHANCE = math.log(10)
MOVES = ModelFacts(
    parameters=(ParameterFacts("Net_a.weight", "a", (8, 8), "float32", optimizer="Adam"),),
    losses=(LossFacts(LOSS, "CrossEntropyLoss", "mean"),),
)


def saved(losses: object, *, every: int = 10) -> dict[int, float]:
    """Losses by the step at which they were saved."""
    return {every * index: float(loss) for index, loss in enumerate(np.asarray(losses))}


def noisy(levels: object, share: float, *, seed: int = 0) -> np.ndarray:
    """The levels with normal noise of this share of each."""
    level = np.asarray(levels, np.float64)
    return level * (1 + share * np.random.default_rng(seed).standard_normal(level.shape))


FLAT = np.full(200, CHANCE)
LEARNS = 0.05 + 2.25 * 0.97 ** np.arange(200)
COLLAPSES = np.concatenate([2.3 * 0.9 ** np.arange(100) + 0.2, np.full(100, CHANCE)])
RESTS = np.concatenate([LEARNS[:100], np.full(100, LEARNS[99])])
WARM_UP_SPIKE = np.concatenate([[2.3], np.full(5, 9.0), LEARNS[:194]])

LABELS = "CrossEntropyLoss_input_1"
TEN_CLASSES = ModelFacts(losses=(LossFacts(LOSS, "CrossEntropyLoss", "mean", class_count=10),))
FALLS_TO_GUESSING = noisy([*np.linspace(3.2, CHANCE, 20), *np.full(180, CHANCE)], 0.01)
BY_ROWS = noisy(CHANCE * (1 - 2e-4 * np.arange(200)), 0.003)


def evaluated(name: str, training: object, validation: object, *, fires: bool = False) -> RuleCase:
    """A run of 200 steps with ten classes, an evaluation every twenty."""
    return RuleCase(
        name,
        {LABELS: {step: np.arange(50) % 10 for step in range(0, 200, 10)}},
        collections={"labels": (f"^{LABELS}$",)},
        facts=TEN_CLASSES,
        recorded={LOSS: {"mean": saved(training, every=1)}},
        evaluated={LOSS: {"mean": {20 * k + 19: float(loss) for k, loss in enumerate(np.asarray(validation))}}},
        step=199,
        fires=(LOSS,) if fires else (),
    )


def warmed(name: str, losses: object, *, fires: bool = False) -> RuleCase:
    """A run of 2000 steps with a rate that rises over the first 1200."""
    rates = saved(np.minimum(1.0, np.arange(1, 201) / 120))
    recorded = {"hyperparameters/Adam/group_0/lr": {"mean": rates}}
    return RuleCase(name, {LOSS: saved(losses)}, recorded=recorded, fires=(LOSS,) if fires else ())


RATES = ("hyperparameters/Adam/group_0/lr", "hyperparameters/Adam_1/group_0/lr")
IN_TURNS = {rate: {"mean": saved(np.full(100, 0.1), every=20) | {10 * n: 0.1}} for n, rate in enumerate(RATES)}
NEW_OPTIMIZER = (
    ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam"),)),
    ModelFacts(from_step=1000, optimizers=(OptimizerFacts("Adam_1", "Adam"),)),
)
TREES, GOES_ON = (
    ModelFacts(losses=BUILT_IN.losses, program=ProgramFacts(framework="xgboost", observed={ROUNDS_BEFORE: before}))
    for before in (0, 20)
)
WAVERS = np.where(np.arange(60) % 2, 27.3, 19.8)


def of_trees(
    name: str, training: object, validation: object = (), *, facts: ModelFacts = TREES, fires: bool
) -> RuleCase:
    """A boosting, with a loss for each of its rounds."""
    return RuleCase(
        name,
        recorded={LOSS: {"mean": saved(training, every=1)}} if len(np.asarray(training)) else {},
        evaluated={LOSS: {"mean": saved(validation, every=1)}} if len(np.asarray(validation)) else {},
        facts=facts,
        fires=(LOSS,) if fires else (),
        step=59,
    )


BACK = np.concatenate([LEARNS[:100], np.full(100, 3.0)])
SETTLES = np.concatenate([LEARNS[:100], np.full(100, 1.2)])
AT_GUESSING = [2.35, 2.305, 2.304, 2.306, 2.31, 2.308, 2.31, 2.312, 2.31, 2.311]
CASES = [
    # what must be found
    of_trees("60 rounds that lead nowhere", np.full(60, CHANCE), fires=True),
    of_trees("60 rounds that waver", WAVERS, fires=True),
    of_trees("a validation loss alone, and never better", [], np.linspace(0.69, 0.75, 60), fires=True),
    of_trees("a validation loss alone, hardly better", [], np.linspace(0.69, 0.66, 60) + 0.001 * WAVERS, fires=False),
    of_trees("a validation loss alone, and it learns", [], LEARNS[:60], fires=False),
    of_trees("60 rounds of a model that had learned", np.full(60, 0.3), facts=GOES_ON, fires=False),
    of_trees("60 rounds that learn slowly", 0.69 * 0.999 ** np.arange(60), fires=False),
    evaluated("falls to guessing, and validation is never better", FALLS_TO_GUESSING, AT_GUESSING, fires=True),
    evaluated("falls to guessing, and few evaluations", FALLS_TO_GUESSING, AT_GUESSING[:3], fires=True),
    evaluated("falls to guessing from far above", noisy([30.0] * 3 + [CHANCE] * 197, 0.01), [], fires=True),
    RuleCase("noisy to the end", {LOSS: saved(noisy(np.full(200, 2.3), 0.3, seed=2))}, fires=(LOSS,)),
    RuleCase("at the end of a run of 130 steps", {LOSS: saved(np.full(130, CHANCE), every=1)}, fires=(LOSS,)),
    *(
        RuleCase(
            name,
            {LOSS: saved(np.full(60, CHANCE), every=1)},
            recorded={"Net_a.weight": {"update_ratio": saved(np.full(60, update), every=1), "l2": {0: 4.0}}},
            facts=MOVES,
            fires=(LOSS,) if fires else (),
            step=step,
        )
        for name, update, step, fires in (
            ("at the end of 60 steps that led nowhere", 1e-5, None, True),
            ("at the end of 60 steps that led somewhere", 1e-3, None, False),
            ("60 steps that led nowhere, and more to come", 1e-5, 55, False),
        )
    ),
    RuleCase(
        "two optimizers for one loss",
        {LOSS: saved(FLAT)},
        recorded={rate: {"mean": saved(np.full(200, 0.1))} for rate in RATES},
        facts=TWO_OPTIMIZERS,
        fires=(LOSS,),
    ),
    warmed("warmed up, and nothing is learned", noisy(np.full(200, 2.5), 0.01), fires=True),
    warmed(
        "learned while warming up, and all of it lost",
        noisy([*np.linspace(3.0, 2.5, 60), *[2.9] * 140], 0.01),
        fires=True,
    ),
    RuleCase("a new optimizer, and nothing is left", {LOSS: saved(BACK)}, facts=NEW_OPTIMIZER, fires=(LOSS,)),
    evaluated("learns rows by heart, slowly", BY_ROWS, AT_GUESSING, fires=True),
    RuleCase(
        "the sum rises", {SUM: saved(2.3 * 1.02 ** np.arange(200)), ADDEND: saved(LEARNS)}, facts=SUMMED, fires=(SUM,)
    ),
    RuleCase("flat at chance", {LOSS: saved(FLAT)}, fires=(LOSS,)),
    RuleCase("flat and noisy", {LOSS: saved(noisy(FLAT, 0.005))}, fires=(LOSS,)),
    RuleCase(
        "a learning rate far too small", {LOSS: saved(noisy(CHANCE * (1 - 1e-5 * np.arange(400)), 0.01))}, fires=(LOSS,)
    ),
    RuleCase("just enough losses", {LOSS: saved(FLAT[:100])}, fires=(LOSS,)),
    RuleCase("saved every step", {LOSS: saved(np.full(1000, CHANCE), every=1)}, fires=(LOSS,)),
    RuleCase("saved every 500 steps", {LOSS: saved(FLAT[:60], every=500)}, fires=(LOSS,)),
    RuleCase("recorded at every step, never saved", recorded={LOSS: {"mean": saved(FLAT, every=1)}}, fires=(LOSS,)),
    RuleCase("rises steadily", {LOSS: saved(2.3 * 1.02 ** np.arange(200))}, fires=(LOSS,)),
    RuleCase("jumps at once and stays", {LOSS: saved(np.append(2.3, noisy(np.full(99, 400.0), 0.2)))}, fires=(LOSS,)),
    RuleCase("learned, then collapsed to chance", {LOSS: saved(COLLAPSES)}, fires=(LOSS,)),
    RuleCase(
        "a loss per sample", {LOSS: {step: np.full(4, loss) for step, loss in saved(FLAT).items()}}, fires=(LOSS,)
    ),
    RuleCase(
        "one of two workers",
        {LOSS: {s: {"worker_0": a, "worker_1": CHANCE} for s, a in saved(LEARNS).items()}},
        fires=(LOSS,),
    ),
    RuleCase("where the script sets no mode", {LOSS: saved(FLAT)}, fires=(LOSS,), mode="GLOBAL"),
    RuleCase("flat but for some broken losses", {LOSS: saved([*[math.nan] * 5, *FLAT])}, fires=(LOSS,)),
    # what must stay silent
    evaluated(
        "falls to guessing, and validation was better", FALLS_TO_GUESSING, [*AT_GUESSING[:4], 2.1, *AT_GUESSING[5:]]
    ),
    evaluated("learns slowly, and validation too", BY_ROWS, np.linspace(2.305, 2.29, 10)),
    evaluated("learns a little more than guessing", noisy([*FALLS_TO_GUESSING[:20], *np.full(180, 2.2)], 0.01), []),
    RuleCase(
        "an addend rises while the sum falls",
        {SUM: saved(2.3 + LEARNS), ADDEND: saved(0.01 * 1.02 ** np.arange(200))},
        facts=SUMMED,
    ),
    RuleCase("nothing was saved", {}),
    RuleCase("no loss was saved", {"Net_fc.weight": saved(FLAT)}),
    RuleCase("one loss", {LOSS: {0: 2.3}}),
    RuleCase("too early to say", {LOSS: saved(FLAT[:100], every=1)}),
    RuleCase("too early to say of a run that goes on", {LOSS: saved(FLAT, every=1)}, step=190),
    RuleCase("two optimizers in turns", {LOSS: saved(FLAT)}, recorded=IN_TURNS, facts=TWO_OPTIMIZERS),
    RuleCase("a harder task that is being learned", {LOSS: saved([*LEARNS[:120], *(1.5 * LEARNS[:20] + 1.2)])}),
    RuleCase("a new optimizer, and it learns on", {LOSS: saved(SETTLES)}, facts=NEW_OPTIMIZER),
    RuleCase("slowly, and seen only from afar", {LOSS: saved(noisy(CHANCE * (1 - 1.2e-4 * np.arange(400)), 0.01))}),
    RuleCase("too few losses", {LOSS: saved(FLAT[:30])}),
    RuleCase("a negative loss that rises: no level that it should fall to", {LOSS: saved(-2 + 0.02 * np.arange(100))}),
    RuleCase("two models that compete", {LOSS: saved(FLAT)}, facts=TWO_OPTIMIZERS),
    RuleCase(
        "warming up",
        {LOSS: saved(FLAT)},
        recorded={RATE: {"mean": {10 * step: 1e-6 * 1.1**step for step in range(200)}}},
    ),
    RuleCase("learns", {LOSS: saved(LEARNS)}),
    RuleCase("learns, with the noise of a small batch", {LOSS: saved(noisy(LEARNS, 0.5))}),
    RuleCase("rests on a plateau after most of the loss is gone", {LOSS: saved(RESTS)}),
    RuleCase("rests on a high plateau, a fifth of the loss is gone", {LOSS: saved([10.0] * 20 + [8.0] * 180)}),
    RuleCase("done: the loss is nearly zero and triples", {LOSS: saved([2.3] * 5 + [1e-6] * 100 + [3e-6] * 95)}),
    RuleCase("done: the loss is exactly zero", {LOSS: saved([2.3] * 5 + [0.0] * 195)}),
    RuleCase("zero from the first step", {LOSS: saved(np.zeros(200))}),
    warmed("learned while warming up, and rests", noisy([*np.linspace(3.0, 2.5, 60), *[2.5] * 140], 0.01)),
    RuleCase("a spike while warming up", {LOSS: saved(WARM_UP_SPIKE)}),
    RuleCase("a spike at the end", {LOSS: saved([*LEARNS[:190], *[50.0] * 10])}),
    RuleCase("learns slowly but steadily", {LOSS: saved(noisy(CHANCE * (1 - 2e-4 * np.arange(300)), 0.005))}),
    RuleCase("so noisy that nobody can tell yet", {LOSS: saved(noisy(np.full(200, 2.3), 0.6))}, step=1980),
    RuleCase("noisy, short, and it fell", {LOSS: saved(noisy(np.linspace(2.3, 2.1, 150), 0.03), every=1)}),
    RuleCase("the first sample was an easy one", {LOSS: saved([0.001, *noisy(np.full(199, 2.3), 0.6)])}, step=1980),
    RuleCase("a negative loss that falls", {LOSS: saved(3 - 0.05 * np.arange(200))}),
    RuleCase("broken: exploding-tensor's", {LOSS: saved(np.full(200, math.nan))}),
    RuleCase("broken at this step", {LOSS: saved([*FLAT, math.inf])}),
    RuleCase("a validation loss that rises", {LOSS: saved(2.3 * 1.02 ** np.arange(200))}, mode="EVAL"),
]

test_cases = every_case(LossNotDecreasing(), CASES)


def test_a_stuck_loss_is_described() -> None:
    (finding,) = assert_case(LossNotDecreasing(), RuleCase("stuck", {LOSS: saved(FLAT[:120])}, fires=(LOSS,)))
    assert (finding.step, finding.since_step) == (1190, 590 + 10)
    assert finding.observed == 0.0
    assert finding.relation == "<"
    assert {name: finding.statistics[name] for name in ("first_loss", "level", "compared_with", "error_percent")} == {
        "first_loss": CHANCE,
        "level": CHANCE,
        "compared_with": CHANCE,
        "error_percent": 0.0,
    }


def test_a_rising_loss_is_described() -> None:
    (finding,) = assert_case(LossNotDecreasing(), RuleCase("collapsed", {LOSS: saved(COLLAPSES)}, fires=(LOSS,)))
    assert finding.since_step == 1000
    assert (finding.relation, finding.threshold) == (">", 5.0)
    assert finding.observed > 500
    assert finding.statistics["level"] == CHANCE


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        pytest.param(np.full(1000, CHANCE), 310, id="stuck: from step 300 on, and ten steps before"),
        pytest.param(2.3 * 1.02 ** np.arange(200), 100, id="rising: long before"),
        pytest.param(LEARNS, None, id="learning: never"),
    ],
)
def test_first_verdict(losses: np.ndarray, step: int | None) -> None:
    findings = replay(LossNotDecreasing(), recorded_trial({}, recorded={LOSS: {"mean": saved(losses, every=1)}}))
    assert bool(findings) is (step is not None)
    assert step is None or findings[0].step <= step


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        pytest.param(RuleCase("", {LOSS: saved(2.3 * 1.02 ** np.arange(200))}, (LOSS,)), Severity.CRITICAL, id="risen"),
        pytest.param(RuleCase("", {LOSS: saved(COLLAPSES)}, (LOSS,)), Severity.WARNING, id="back-where-it-began"),
        pytest.param(
            RuleCase("", {SUM: saved([1.0] * 60 + [3.0] * 60)}, (SUM,), facts=BY_HAND), Severity.WARNING, id="by-hand"
        ),
        pytest.param(
            RuleCase("", {SUM: saved([1.0] * 60 + [30.0] * 60)}, (SUM,), facts=BY_HAND),
            Severity.CRITICAL,
            id="by-hand-and-far-above",
        ),
        pytest.param(RuleCase("", {LOSS: saved(FLAT)}, (LOSS,)), Severity.CRITICAL, id="stuck-for-long"),
        pytest.param(RuleCase("", {LOSS: saved(FLAT, every=1)}, (LOSS,)), Severity.WARNING, id="stuck-so-far"),
    ],
)
def test_how_bad_it_is(case: RuleCase, severity: Severity) -> None:
    assert LossNotDecreasing().severity_of(assert_case(LossNotDecreasing(), case)) is severity


@pytest.mark.parametrize(
    ("level", "facts", "fires"),
    [
        pytest.param(1.3, BY_HAND, False, id="by-hand-a-little"),
        pytest.param(1.6, BY_HAND, True, id="by-hand-much"),
        pytest.param(1.3, None, True, id="unknown-a-little"),
        pytest.param(1.3, BUILT_IN, True, id="built-in-a-little"),
    ],
)
def test_a_loss_by_hand_may_rise_a_little(level: float, facts: ModelFacts | None, fires: bool) -> None:
    name = SUM if facts is not BUILT_IN else LOSS
    recorded = {name: saved([1.0] * 60 + [level] * 60)}
    assert_case(LossNotDecreasing(), RuleCase("", recorded, (name,) if fires else (), facts=facts))


@pytest.mark.parametrize(
    ("ratio", "facts", "fires"),
    [
        pytest.param(1e-3, BY_HAND, False, id="by-hand-small-steps"),
        pytest.param(0.5, BY_HAND, True, id="by-hand-large-steps"),
        pytest.param(1e-3, BUILT_IN, True, id="built-in-small-steps"),
    ],
)
def test_a_loss_by_hand_that_rises_is_driven(ratio: float, facts: ModelFacts, fires: bool) -> None:
    name = LOSS if facts is BUILT_IN else SUM
    updates = {"update_ratio": {10 * step: ratio for step in range(120)}}
    recorded = {name: {"mean": saved([1.0] * 60 + [30.0] * 60)}, "Net_fc.weight": updates}
    assert_case(LossNotDecreasing(), RuleCase("", recorded=recorded, fires=(name,) if fires else (), facts=facts))


@pytest.mark.parametrize(
    ("ratio", "losses", "cause"),
    [
        pytest.param(1e-9, FLAT, Cause.LEARNING_RATE_TOO_LOW, id="still"),
        pytest.param(0.9, FLAT, Cause.LEARNING_RATE_TOO_HIGH, id="wild"),
        pytest.param(1e-3, FLAT, None, id="healthy-steps-lead-nowhere: the cause is unknown"),
        pytest.param(0.9, 2.3 * 1.02 ** np.arange(200), Cause.LEARNING_RATE_TOO_HIGH, id="diverges"),
    ],
)
def test_what_it_suspects(ratio: float, losses: np.ndarray, cause: Cause | None) -> None:
    updates = {10 * step: ratio for step in range(200)}
    recorded = {LOSS: {"mean": saved(losses)}, "Net_fc.weight": {"update_ratio": updates}}
    case = RuleCase("a loss", recorded=recorded, fires=(LOSS,))
    findings = assert_case(LossNotDecreasing(), case)
    suspicions = LossNotDecreasing().suspicions(findings, case.window)
    assert (suspicions[0].cause if suspicions else None) is cause


def test_parameters_are_heeded() -> None:
    assert_case(LossNotDecreasing(start_step=5000), RuleCase("later", {LOSS: saved(FLAT)}))
    unsure = {LOSS: saved(noisy(FLAT, 0.05))}
    assert_case(LossNotDecreasing(diff_percent=0), RuleCase("certain only", unsure))
    rising = {LOSS: saved(np.append([2.0] * 60, [3.0] * 60))}
    assert_case(LossNotDecreasing(), RuleCase("50 % is a rise", rising, fires=(LOSS,)))
    (stuck,) = assert_case(
        LossNotDecreasing(increase_threshold_percent=60), RuleCase("not above 60 %", rising, (LOSS,))
    )
    assert stuck.relation == "<"


losses_of_a_run = st.lists(st.floats(0.01, 100), min_size=4, max_size=60)


def error(values: list[float]) -> float:
    middle = statistics.median(values)
    return float(1.2533 * 1.4826 * statistics.median(abs(v - middle) for v in values) / len(values) ** 0.5)


def falls_again(risen: list[float]) -> bool:
    third = len(risen) // 3
    if third < 2:
        return False
    early, late = risen[:third], risen[-third:]
    decrease = (statistics.median(early) - statistics.median(late)) / statistics.median(early)
    doubt = (error(early) ** 2 + error(late) ** 2) ** 0.5 / statistics.median(early)
    assume(abs(decrease - 2 * doubt - 0.05) > 1e-9)
    return bool(decrease - 2 * doubt > 0.05)


def oracle(losses: list[float], window: int, diff: float, rise: float) -> str | None:
    """The page's points 1 to 4, with the standard library's medians."""
    newest = losses[-window:]
    level = statistics.median(newest)
    windows = [losses[i : i + window] for i in range(0, len(losses) - window + 1, window)]
    if not windows:
        return None
    lowest = min(map(statistics.median, windows))
    if losses[0] < lowest and level > 2 * losses[0]:
        lowest = losses[0]
    limit = lowest * (1 + rise / 100)
    if level > 0.9 * losses[0] and min(newest) > limit:
        risen = losses[max([i + 1 for i, loss in enumerate(losses) if loss <= limit], default=0) :]
        if level >= 2 * losses[0] or not falls_again(risen):
            return "rising"
    if len(losses) < 2 * window:
        return None
    start = max(losses[0], statistics.median(losses[:window]))
    half = max(window, len(losses) // 4)
    before, after = losses[-2 * half : -half], losses[-half:]
    first = statistics.median(before)
    decrease = (first - statistics.median(after)) / first
    doubt = (error(before) ** 2 + error(after) ** 2) ** 0.5 / first
    learned = (start - level) / start
    assume(min(abs(learned - 0.1), abs(decrease + 2 * doubt - diff / 100)) > 1e-9)  # no verdict on rounding
    assume(abs(decrease - 2 * doubt - 0.005) > 1e-9)
    certainly_falls = decrease - 2 * doubt > 0.005
    if len(losses) >= 4 * half:
        second = losses[-3 * half : -2 * half]
        far = (statistics.median(second) - statistics.median(after)) / statistics.median(second)
        far_doubt = (error(second) ** 2 + error(after) ** 2) ** 0.5 / statistics.median(second)
        assume(abs(far - 2 * far_doubt - 0.01) > 1e-9)
        certainly_falls = certainly_falls or far - 2 * far_doubt > 0.01
    assume(abs(decrease + 2 * doubt + rise / 100) > 1e-9)
    if decrease + 2 * doubt < -rise / 100:
        return None
    return "stuck" if learned < 0.1 and decrease + 2 * doubt < diff / 100 and not certainly_falls else None


@settings(deadline=None)
@given(losses_of_a_run, st.integers(2, 10), st.floats(0, 20), st.floats(0, 50))
def test_agrees_with_the_page(losses: list[float], window: int, diff: float, rise: float) -> None:
    answer = judge_losses(np.array(losses), window=window, diff_percent=diff, increase_threshold_percent=rise)
    assert (answer.kind if answer else None) == oracle(losses, window, diff, rise)


@given(losses_of_a_run, st.floats(0, 100), st.floats(0, 100))
def test_a_higher_diff_percent_finds_no_less(losses: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    settings: dict[str, Any] = {"window": 4, "increase_threshold_percent": 5.0}
    if judge_losses(np.array(losses), diff_percent=low, **settings) is not None:
        assert judge_losses(np.array(losses), diff_percent=high, **settings) is not None


@given(losses_of_a_run, st.integers(-20, 20))
def test_the_unit_of_the_loss_does_not_matter(losses: list[float], power: int) -> None:
    settings: dict[str, Any] = {"window": 4, "diff_percent": 0.5, "increase_threshold_percent": 5.0}
    answer = judge_losses(np.array(losses), **settings)
    scaled = judge_losses(np.array(losses) * 2.0**power, **settings)
    assert (answer and answer.kind) == (scaled and scaled.kind)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60))
def test_no_number_is_too_strange(losses: list[float]) -> None:
    judge_losses(np.array(losses), window=4, diff_percent=0.5, increase_threshold_percent=5.0)


@pytest.mark.parametrize(
    ("losses", "ready"),
    [
        pytest.param(noisy([2.303] * 11, 0.01), False, id="stuck-too-short-to-say"),
        pytest.param(noisy([2.303] * 5, 0.01), False, id="five-losses"),
        pytest.param(noisy([2.303] * 120, 0.01), True, id="stuck-two-windows"),
        pytest.param(2.303 * 0.97 ** np.arange(40), True, id="short-but-it-learned"),
        pytest.param(noisy([0.01] * 101, 0.2), True, id="two-windows-of-noise"),
        pytest.param(noisy([2.303] * 12, 0.02), False, id="noise-is-no-learning"),
    ],
)
def test_says_when_it_cannot_answer_yet(losses: np.ndarray, ready: bool) -> None:
    trial = recorded_trial({"CrossEntropyLoss_output_0": saved(losses)})
    lacks = LossNotDecreasing().lacks(trial.window(trial.steps()[-1], now=0.0))
    assert (lacks == "") is ready
    assert ready or "300 steps of a training loss" in lacks


@pytest.mark.parametrize(
    ("losses", "evaluations", "fires"),
    [
        pytest.param(noisy([2.303] * 72, 0.01), 9, True, id="nine-passes"),
        pytest.param(noisy([2.303] * 72, 0.01), 4, False, id="four-passes"),
        pytest.param(noisy([2.303] * 50, 0.01), 9, False, id="too-few-steps"),
        pytest.param(2.303 * 0.97 ** np.arange(72), 9, False, id="it-learned"),
    ],
)
def test_a_short_run_with_many_passes_is_judged_at_its_end(losses: np.ndarray, evaluations: int, fires: bool) -> None:
    every = len(losses) // evaluations
    validation = {every * k + every - 1: 2.3 for k in range(evaluations)}
    case = RuleCase(
        "",
        recorded={LOSS: {"mean": saved(losses, every=1)}},
        evaluated={LOSS: {"mean": validation}},
        fires=(LOSS,) if fires else (),
    )
    assert_case(LossNotDecreasing(), case)
