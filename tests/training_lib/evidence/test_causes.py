"""What a run tells of the cause behind a symptom: one row for each cause, and what must not be suspected."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import along, falling, steady
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts, ProgramFacts
from trackside.contracts.observations import CLIPPINGS, HAS_EQUAL_ROWS, HAS_GRADIENT, LOOKS_UNTRAINED, ClippingFacts
from trackside.contracts.run.recorded_names import UNRELATED_NOISE
from trackside.contracts.verdict import Finding
from trackside.evidence.causes import BREAKS, CERTAIN, DIVERGES, LEARNS_NOTHING, MOVES_WILDLY, TORN
from trackside.evidence.question import grown
from trackside.evidence.suspects import suspected
from trackside.situation.aims import has_several_aims
from trackside.situation.breakage import growth_before
from trackside.situation.losses.losses import chance_level, has_gained, learned_share, training_losses
from trackside.situation.measurements import Evidence
from trackside.situation.rates import collapsed_at, warms_up
from trackside.testing.rule_case import RuleCase
from trackside.trial.window import Window

LOSS, W, G, RATE = (
    "CrossEntropyLoss_output_0",
    "Net_fc.weight",
    "gradient/Net_fc.weight",
    "hyperparameters/SGD/group_0/lr",
)
STUCK = steady(2.3, 101)
PARAMETER = ParameterFacts(W, "fc", (8, 8), "float32", optimizer="SGD")


def window(
    recorded: Mapping[str, Any] | None = None, *, facts: ModelFacts | None = None, ratio: float = 1e-3
) -> Window:
    """A run with a stuck loss and usual updates, but for what is said."""
    usual = {LOSS: {"mean": STUCK}, W: {"update_ratio": steady(ratio, 101)}, G: {"l2": steady(1.0, 101)}}
    return RuleCase("a run", recorded={**usual, **(recorded or {})}, facts=facts).window


def losing(**changes: Any) -> ModelFacts:
    return ModelFacts(losses=(LossFacts(LOSS, **{"type_name": "CrossEntropyLoss", **changes}),))


def decaying(weight_decay: float) -> ModelFacts:
    return ModelFacts(optimizers=(OptimizerFacts("SGD", "SGD", groups=({"weight_decay": weight_decay},)),))


def broken(since: int) -> Finding:
    return Finding(LOSS, 100, since, "non-finite values", 1.0, ">", 0.0)


LEFT_OUT = ParameterFacts("Net_x.weight", "x", (8, 8), "float32", observed={HAS_GRADIENT: True, LOOKS_UNTRAINED: True})
CLIPPED = ModelFacts(program=ProgramFacts(observed={CLIPPINGS: (ClippingFacts("norm", 1e-3),)}))
SHRINKING = {W: {"update_ratio": steady(1e-3, 101), "l2": falling(1.0, 0.01, 101)}}
GROWING = {W: {"update_ratio": steady(1e-3, 101), "l2": falling(1.0, 50.0, 101)}}


def predicting_noise(looks: list[float], *, level: float = 1.0) -> Window:
    """A run whose targets were noise at some looks, and nothing of it was read."""
    return window({UNRELATED_NOISE: {"mean": along(looks, every=5)}, LOSS: {"mean": steady(level, 101)}})


CAUSES = [
    pytest.param(predicting_noise([0.0, 1.0, 1.0, 1.0, 1.0]), Cause.WRONG_LABELS, id="noise-drawn-again"),
    pytest.param(window({"trackside/gradients_kept": {"mean": steady(1.0, 101)}}), Cause.MISSING_ZERO_GRAD, id="kept"),
    pytest.param(window(facts=losing(input_from="softmax")), Cause.DOUBLE_SOFTMAX, id="softmax-twice"),
    pytest.param(window(facts=losing(scale=-1.0)), Cause.LOSS_SIGN, id="sign"),
    pytest.param(
        window(facts=ModelFacts(parameters=(PARAMETER, LEFT_OUT))), Cause.PARAMETERS_NOT_IN_OPTIMIZER, id="left-out"
    ),
    pytest.param(
        window({RATE: {"mean": along([0.1] * 20 + [1e-9] * 81)}}), Cause.LEARNING_RATE_SCHEDULE, id="collapsed-rate"
    ),
    pytest.param(window({"trackside/clipping": {"mean": STUCK}}, facts=CLIPPED), Cause.CLIPPING_TOO_LOW, id="clipping"),
    pytest.param(window({G: {"l2": steady(0.0, 101)}}), Cause.DEAD_UNITS, id="no-gradients"),
    pytest.param(window(SHRINKING, facts=decaying(0.5)), Cause.WEIGHT_DECAY_TOO_STRONG, id="decay"),
    pytest.param(window(ratio=1e-9), Cause.LEARNING_RATE_TOO_LOW, id="still"),
    pytest.param(window(ratio=0.9), Cause.LEARNING_RATE_TOO_HIGH, id="wild"),
]


@pytest.mark.parametrize(("run", "cause"), CAUSES)
def test_why_nothing_is_learned(run: Window, cause: Cause) -> None:
    found = suspected(LEARNS_NOTHING, (), run)
    assert cause in [suspicion.cause for suspicion in found[:2]]
    assert len({suspicion.cause for suspicion in found}) == len(found)


UNSUSPICIOUS = [
    pytest.param(window(), id="nothing-odd"),
    pytest.param(window({"trackside/gradients_kept": {"mean": along([0, 1] * 50)}}), id="cleared-now-and-then"),
    pytest.param(window(facts=losing(input_from="linear")), id="scores"),
    pytest.param(window(facts=losing(scale=0.25)), id="accumulation"),
    pytest.param(window(facts=ModelFacts(parameters=(PARAMETER,))), id="held-by-an-optimizer"),
    pytest.param(window({RATE: {"mean": steady(1e-9, 101)}}), id="a-small-rate"),
    pytest.param(window({"trackside/clipping": {"mean": steady(1e-4, 101)}}, facts=CLIPPED), id="clipping-spikes"),
    pytest.param(window(SHRINKING), id="shrinking-without-decay"),
    pytest.param(window(facts=decaying(0.01)), id="usual-decay"),
    pytest.param(window({G: {"l2": steady(1e-3, 101)}}), id="small-gradients"),
    pytest.param(predicting_noise([1.0] * 3), id="noise-at-too-few-looks"),
    pytest.param(predicting_noise([1.0, 1.0, 0.0, 1.0]), id="noise-that-is-read"),
    pytest.param(predicting_noise([1.0] * 6, level=0.95), id="some-of-the-noise-is-learned"),
    pytest.param(predicting_noise([1.0] * 6, level=3.0), id="a-loss-of-another-scale"),
    pytest.param(RuleCase("an old run", {LOSS: {0: 2.3}}).window, id="nothing-is-known"),
]


@pytest.mark.parametrize("run", UNSUSPICIOUS)
def test_what_is_not_odd_is_not_suspected(run: Window) -> None:
    assert suspected(CERTAIN, (), run) == ()
    assert suspected(LEARNS_NOTHING, (), run) == ()  # a guess is no evidence


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        pytest.param(window(ratio=0.9), Cause.LEARNING_RATE_TOO_HIGH, id="wild"),
        pytest.param(window(), Cause.LEARNING_RATE_TOO_HIGH, id="nothing-else-is-known"),
        pytest.param(window({RATE: {"mean": falling(1e-3, 1.0, 101)}}), Cause.LEARNING_RATE_SCHEDULE, id="rising-rate"),
        pytest.param(window(GROWING, facts=decaying(-0.1)), Cause.WEIGHT_DECAY_TOO_STRONG, id="decay-below-zero"),
        pytest.param(window(facts=losing(scale=-1.0)), Cause.LOSS_SIGN, id="sign"),
        pytest.param(
            window(facts=ModelFacts(program=ProgramFacts(autocast_dtype="float16"))),
            Cause.PRECISION_OVERFLOW,
            id="half",
        ),
        pytest.param(
            window({"trackside/gradients_kept": {"mean": steady(1.0, 101)}}), Cause.MISSING_ZERO_GRAD, id="kept"
        ),
    ],
)
def test_why_it_diverges(run: Window, cause: Cause) -> None:
    found = suspected(DIVERGES, (), run)
    assert found[0].cause is cause
    assert Cause.LEARNING_RATE_TOO_HIGH in [suspicion.cause for suspicion in found]


@pytest.mark.parametrize(
    ("decay", "is_named"),
    [
        pytest.param(0.0, False, id="none"),
        pytest.param(0.1, False, id="usual"),
        pytest.param(-0.1, True, id="negative"),
    ],
)
def test_growing_weights_are_no_sign_of_strong_weight_decay(decay: float, is_named: bool) -> None:
    """Issue 16: a diverging run with weight decay 0 was told to divide it by a hundred."""
    found = suspected(DIVERGES, (), window(GROWING, facts=decaying(decay)))
    assert (Cause.WEIGHT_DECAY_TOO_STRONG in [suspicion.cause for suspicion in found]) is is_named


CALM = {LOSS: {"mean": along([2.3] * 60 + [math.nan] * 41)}, G: {"l2": along([1.0] * 60 + [math.nan] * 41)}}
WILD = {LOSS: {"mean": along([2.3 * 1.5**n for n in range(60)] + [math.inf] * 41)}, G: {"l2": STUCK}}


GRADIENT_FIRST = {LOSS: CALM[LOSS], G: {"l2": along([1.0] * 59 + [math.nan] * 42)}}
WEIGHT_AT_LAST = {LOSS: {"mean": STUCK}, W: {"nonfinite_count": {100: 3.0}, "update_ratio": STUCK}}


@pytest.mark.parametrize(
    ("recorded", "facts", "causes"),
    [
        pytest.param(CALM, None, [Cause.NON_FINITE_DATA, Cause.LEARNING_RATE_TOO_HIGH], id="out-of-the-blue"),
        pytest.param(
            CALM,
            ModelFacts(program=ProgramFacts(autocast_dtype="float16")),
            [Cause.PRECISION_OVERFLOW, Cause.NON_FINITE_DATA],
            id="half-precision",
        ),
        pytest.param(WILD, None, [Cause.LEARNING_RATE_TOO_HIGH], id="grown-before"),
        pytest.param(GRADIENT_FIRST, None, [Cause.UNDEFINED_VALUE], id="the-gradient-before-the-loss"),
        pytest.param(WEIGHT_AT_LAST, None, [Cause.UNDEFINED_VALUE], id="a-weight-after-the-last-step"),
        pytest.param(
            GRADIENT_FIRST,
            ModelFacts(program=ProgramFacts(autocast_dtype="float16")),
            [Cause.PRECISION_OVERFLOW, Cause.NON_FINITE_DATA],
            id="the-gradient-before-the-loss-in-half-precision",
        ),
        pytest.param(
            {LOSS: WILD[LOSS], G: {"l2": along([1.0] * 59 + [math.nan] * 42)}},
            None,
            [Cause.LEARNING_RATE_TOO_HIGH],
            id="the-gradient-first-and-grown-before",
        ),
    ],
)
def test_why_it_breaks(recorded: Mapping[str, Any], facts: ModelFacts | None, causes: list[Cause]) -> None:
    found = suspected(BREAKS, [broken(60)], window(recorded, facts=facts))
    assert [suspicion.cause for suspicion in found[: len(causes)]] == causes


IDS, TARGETS = "Net_input_0", "CrossEntropyLoss_input_1"


@pytest.mark.parametrize(
    ("inputs", "labels", "cause"),
    [
        pytest.param(np.int64, np.int64, Cause.UNDEFINED_VALUE, id="whole-numbers"),
        pytest.param(np.float32, np.int64, Cause.NON_FINITE_DATA, id="inputs-of-floats"),
        pytest.param(np.int64, np.float32, Cause.NON_FINITE_DATA, id="labels-of-floats"),
        pytest.param(np.int64, None, Cause.NON_FINITE_DATA, id="labels-unknown"),
    ],
)
def test_whole_numbers_hold_no_nan(inputs: type, labels: type | None, cause: Cause) -> None:
    saved: dict[str, dict[int, Any]] = {IDS: {0: np.arange(16, dtype=inputs).reshape(4, 4)}}
    if labels is not None:
        saved[TARGETS] = {0: np.arange(4, dtype=labels)}
    case = RuleCase("", saved, recorded=CALM, collections={"model_inputs": (IDS,), "labels": (TARGETS,)}, step=60)
    assert suspected(BREAKS, [broken(60)], case.window)[0].cause is cause


EQUAL = ModelFacts(parameters=(replace(PARAMETER, observed={**PARAMETER.observed, HAS_EQUAL_ROWS: True}),))
DRAWN = ModelFacts(parameters=(PARAMETER,))
DEAD, DIED = {G: {"l2": steady(0.0, 101)}}, {G: {"l2": along([1.0] * 20 + [0.0] * 81)}}


@pytest.mark.parametrize(
    ("recorded", "ratio", "facts", "cause"),
    [
        pytest.param(DEAD, 0.0, EQUAL, Cause.SYMMETRIC_INITIALIZATION, id="rows-were-alike"),
        pytest.param(DEAD, 0.0, None, Cause.SYMMETRIC_INITIALIZATION, id="nothing-is-known-of-the-rows"),
        pytest.param(DIED, 0.5, DRAWN, Cause.LEARNING_RATE_TOO_HIGH, id="killed-by-large-steps"),
        pytest.param(DIED, 1e-3, DRAWN, Cause.BAD_INITIALIZATION, id="gone-with-small-steps"),
        pytest.param(DEAD, 0.5, DRAWN, Cause.BAD_INITIALIZATION, id="never-alive"),
    ],
)
def test_why_gradients_are_zero(
    recorded: Mapping[str, Any], ratio: float, facts: ModelFacts | None, cause: Cause
) -> None:
    found = suspected(LEARNS_NOTHING, (), window(recorded, ratio=ratio, facts=facts))
    assert [suspicion.cause for suspicion in found[:2]] == [Cause.DEAD_UNITS, cause]


@pytest.mark.parametrize(
    ("run", "causes"),
    [
        pytest.param(window(ratio=5.0), [Cause.LEARNING_RATE_TOO_HIGH], id="at-once"),
        pytest.param(
            window({W: {"update_ratio": falling(0.05, 0.3, 101)}}), [Cause.LEARNING_RATE_TOO_HIGH], id="in-the-end"
        ),
        pytest.param(window(facts=losing(scale=-1.0), ratio=5.0), [Cause.LOSS_SIGN], id="something-is-certain"),
        pytest.param(window(), [], id="usual-steps"),
        pytest.param(window({W: {"update_ratio": falling(0.6, 1e-3, 101)}}), [], id="large-at-first-only"),
        pytest.param(window(ratio=math.nan), [], id="not-known"),
    ],
)
def test_why_it_moves_wildly(run: Window, causes: list[Cause]) -> None:
    assert [suspicion.cause for suspicion in suspected(MOVES_WILDLY, (), run)] == causes


@pytest.mark.parametrize(
    ("norms", "growth"),
    [
        pytest.param(falling(1.0, 20.0, 101), 12.0, id="they-grow"),
        pytest.param(steady(1.0, 101), 0.999, id="they-stay"),
        pytest.param(steady(1.0, 20), None, id="too-few"),
        pytest.param(steady(0.0, 101), None, id="none"),
    ],
)
def test_growth_of_gradients(norms: Mapping[int, float], growth: float | None) -> None:
    found = Evidence(window({G: {"l2": norms}})).gradient_growth
    assert found is None if growth is None else found is not None and found > growth


@pytest.mark.parametrize(
    ("before", "count"),
    [
        pytest.param("", 1, id="in-none-so-far"),
        pytest.param("SGD", 0, id="trained-in-an-earlier-phase"),
    ],
)
def test_parameters_outside_of_optimizers(before: str, count: int) -> None:
    drawn = {HAS_GRADIENT: True, LOOKS_UNTRAINED: True}
    held = replace(PARAMETER, name="Old_fc.weight", optimizer="", observed=drawn)
    phases = (
        ModelFacts(parameters=(replace(held, optimizer=before), PARAMETER)),
        ModelFacts(from_step=50, parameters=(held, PARAMETER)),
    )
    run = RuleCase("", recorded={LOSS: {"mean": STUCK}}, facts=phases).window
    assert len(Evidence(run).outside_optimizers) == count


def test_growth_is_that_of_the_ten_steps_before() -> None:
    grown = growth_before(window(WILD), step=60)
    assert grown is not None
    assert grown > 100
    assert growth_before(window(CALM), step=60) == pytest.approx(1.0)
    assert growth_before(window(CALM), step=1) is None


@pytest.mark.parametrize(
    ("losses", "share"),
    [
        pytest.param(falling(2.0, 0.02, 101), 0.97, id="learned"),
        pytest.param(steady(2.0, 101), 0.0, id="stuck"),
        pytest.param(falling(2.0, 8.0, 101), -2.0, id="risen"),
        pytest.param(along([2.0] * 50 + [math.nan] * 51), -math.inf, id="broken"),
        pytest.param(along([-1.0] * 101), None, id="negative"),
        pytest.param(along([0.0] * 101), 0.0, id="zero"),
    ],
)
def test_the_share_that_was_learned(losses: Mapping[int, float], share: float | None) -> None:
    found = learned_share(window({LOSS: {"mean": losses}}))
    assert found == share if share is None else found == pytest.approx(share, abs=0.4)


def test_without_a_loss_nobody_knows_what_was_learned() -> None:
    assert learned_share(RuleCase("none", recorded={W: {"l2": STUCK}}).window) is None


def test_training_losses_are_those_of_the_training() -> None:
    recorded, evaluated = {LOSS: {"mean": steady(1.0, 5)}}, {LOSS: {"mean": steady(9.0, 5)}}
    for mode in ("TRAIN", "GLOBAL"):
        run = RuleCase("both", recorded=recorded, evaluated=evaluated, mode=mode).window
        (column,) = training_losses(run)
        assert column.values.tolist() == [1.0] * 5
    assert training_losses(RuleCase("evaluated only", evaluated=evaluated).window) == ()


@pytest.mark.parametrize(
    ("loss", "level"),
    [
        pytest.param(LossFacts(LOSS, "CrossEntropyLoss", "mean", class_count=10), math.log(10), id="cross-entropy"),
        pytest.param(LossFacts(LOSS, "NLLLoss", "mean", class_count=2), math.log(2), id="likelihood"),
        pytest.param(LossFacts(LOSS, "CrossEntropyLoss", "sum", class_count=10), None, id="summed"),
        pytest.param(LossFacts(LOSS, "CrossEntropyLoss", "mean", class_count=1), None, id="one-class"),
        pytest.param(LossFacts(LOSS, "CrossEntropyLoss", "mean"), None, id="unknown-classes"),
        pytest.param(LossFacts(LOSS, "MSELoss", "mean"), None, id="squares"),
        pytest.param(None, None, id="nothing-known"),
    ],
)
def test_what_guessing_costs(loss: LossFacts | None, level: float | None) -> None:
    assert chance_level(loss) == level


def test_two_optimizers_are_two_aims() -> None:
    one, two = OptimizerFacts("Adam", "Adam"), OptimizerFacts("Adam_1", "Adam")
    assert has_several_aims(window(facts=ModelFacts(optimizers=(one, two))))
    assert not has_several_aims(window(facts=ModelFacts(optimizers=(one,))))
    assert not has_several_aims(window())


ANSWERS: list[Callable[[Window], object]] = [
    lambda run: suspected(LEARNS_NOTHING, (), run),
    lambda run: suspected(DIVERGES, (), run),
    lambda run: suspected(CERTAIN, (), run),
    learned_share,
    lambda run: suspected(BREAKS, [broken(3)], run),
    lambda run: [getattr(Evidence(run), name) for name in dir(Evidence) if not name.startswith("_")],
]
odd = st.one_of(st.floats(-1e300, 1e300), st.sampled_from([0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324]))


@given(
    losses=st.lists(odd, min_size=1, max_size=25),
    norms=st.lists(odd.map(abs), min_size=1, max_size=25),
    rates=st.lists(odd, min_size=1, max_size=25),
)
def test_no_number_is_too_strange(losses: list[float], norms: list[float], rates: list[float]) -> None:
    strange = {
        LOSS: {"mean": along(losses)},
        W: {"l2": along(norms), "update_ratio": along(norms)},
        G: {"l2": along(norms)},
        RATE: {"mean": along(rates)},
        "trackside/clipping": {"mean": along(norms)},
        "trackside/gradients_kept": {"mean": along([float(norm > 1) for norm in norms])},
    }
    run = window(strange, facts=CLIPPED)
    for answer in ANSWERS:
        answer(run)


@given(rates=st.lists(odd, max_size=60))
def test_a_collapse_is_found_in_what_is_there(rates: list[float]) -> None:
    since = collapsed_at(np.array(rates))
    assert since is None or 0 < since < len(rates)


@pytest.mark.parametrize(
    ("rates", "warms"),
    [
        pytest.param(np.linspace(0.01, 1, 50), True, id="a-line"),
        pytest.param(np.concatenate([np.linspace(0.01, 1, 20), np.full(80, 1.0)]), True, id="a-line-then-steady"),
        pytest.param((1 - np.cos(np.linspace(0, np.pi, 50))) / 2, True, id="half-a-cosine"),
        pytest.param(1.05 ** np.arange(100), False, id="a-wrong-exponent"),
        pytest.param(np.concatenate([np.full(50, 0.01), np.full(50, 1.0)]), False, id="a-jump"),
    ],
)
def test_a_warm_up_is_no_broken_schedule(rates: np.ndarray, warms: bool) -> None:
    assert warms_up(rates) is warms
    run = window({RATE: {"mean": along(rates)}})
    assert (Cause.LEARNING_RATE_SCHEDULE in [s.cause for s in suspected(CERTAIN, (), run)]) is not warms


@pytest.mark.parametrize(
    ("losses", "gained"),
    [
        pytest.param(falling(2.3, 2.0, 101), True, id="it-falls"),
        pytest.param(falling(-1.0, -3.0, 101), True, id="below-zero"),
        pytest.param(along([0.1 - 0.01 * step for step in range(101)]), True, id="through-zero"),
        pytest.param(STUCK, False, id="it-stays"),
        pytest.param(falling(2.0, 2.3, 101), False, id="it-rises"),
        pytest.param(along([2.3 + (-1) ** step for step in range(101)]), False, id="noise"),
        pytest.param(falling(2.3, 0.1, 12), False, id="too-few"),
    ],
)
def test_what_has_gained_has_fallen_by_more_than_its_noise(losses: Mapping[int, float], gained: bool) -> None:
    assert has_gained(window({LOSS: {"mean": losses}}), share=0.02) is gained


def test_the_way_counts_every_step_and_knows_where_a_weight_goes_nowhere() -> None:
    run = window({W: {"update_ratio": along([1e-5, 3e-5, 1e-5], every=50)}}, facts=ModelFacts(parameters=(PARAMETER,)))
    way = Evidence(run).way
    assert way is not None
    assert list(way) == pytest.approx([1e-5 + 2 * 50 * 2e-5, 101])
    assert Evidence(run).goes_nowhere
    assert suspected(LEARNS_NOTHING, (), run)[0].cause is Cause.LEARNING_RATE_TOO_LOW
    assert not Evidence(window(ratio=1e-3)).goes_nowhere  # 0.1 of its size
    assert Evidence(window({W: {"update_ratio": steady(1e-6, 101), "l2": steady(0.0, 101)}})).way is None


@pytest.mark.parametrize(
    ("recorded", "broke"),
    [
        pytest.param({W: {"update_ratio": along([0.9, *[1e-3] * 100])}}, True, id="early-steps"),
        pytest.param({W: {"update_ratio": steady(1e-2, 101), "l2": falling(1.0, 9.0, 101)}}, True, id="it-grew"),
        pytest.param({W: {"update_ratio": along([0.05, *[1e-3] * 100])}}, False, id="usual-early-steps"),
        pytest.param({W: {"update_ratio": steady(1e-2, 101), "l2": falling(1.0, 2.0, 101)}}, False, id="it-doubled"),
    ],
)
def test_what_broke_units(recorded: Mapping[str, Any], broke: bool) -> None:
    assert bool(suspected(TORN, (), window(recorded))) is broke


@pytest.mark.parametrize(
    ("times", "text"),
    [
        pytest.param(12.345, "weights are 12.3 times as large as at first", id="a number"),
        pytest.param(3.16e18, "weights are 3.16e+18 times as large as at first", id="a large one"),
        pytest.param(math.inf, "weights are not finite", id="infinity"),
        pytest.param(math.nan, "weights are not finite", id="NaN"),
    ],
)
def test_growth_in_words(times: float, text: str) -> None:
    assert grown("weights", times) == text
