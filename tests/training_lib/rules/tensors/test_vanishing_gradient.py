"""vanishing-gradient: when it must speak, when it must not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.verdict import Severity
from trackside.rules.tensors.vanishing_gradient import SIZE, VanishingGradient
from trackside.situation.vanished_gradients import grows, vanished
from trackside.testing.rule_case import RuleCase, Statistics, assert_case, recorded_trial, replay
from trackside.trial.window import Column

G = "gradient/Net_"
LOSS = "CrossEntropyLoss_output_0"


def tiny(size: float, *shape: int) -> np.ndarray:
    """A gradient of float32 whose entries all have this size, with both signs."""
    values = np.full(shape or (8,), size, np.float32)
    values[::2] *= -1
    return values


SPARSE = np.zeros((10_000, 4), np.float32)
SPARSE[17] = 2e-4  # one row of an embedding was used; the mean of |g| over all entries is 2e-8
GONE = {0: 2.3, **dict.fromkeys(range(10, 100, 10), 1e-6)}

CASES = [
    # what must be found
    RuleCase(
        "a chain that shrinks towards the input",
        {f"{G}0.weight": {0: tiny(1e-12)}, f"{G}2.weight": {0: tiny(1e-9)}, f"{G}4.weight": {0: tiny(1e-2)}},
        fires=(f"{G}0.weight", f"{G}2.weight"),
    ),
    RuleCase(
        "weight and bias of the module are both quiet",
        {f"{G}0.weight": {0: tiny(1e-9)}, f"{G}0.bias": {0: tiny(2e-9)}, f"{G}1.weight": {0: tiny(1e-2)}},
        fires=(f"{G}0.weight", f"{G}0.bias"),
    ),
    RuleCase(
        "a parameter of the root, a scalar",
        {f"{G}gate": {0: 1e-10}, f"{G}0.weight": {0: tiny(1e-2)}},
        fires=(f"{G}gate",),
    ),
    RuleCase(
        "beside tensors of zeros: float32 underflow",
        {f"{G}0.weight": {0: tiny(0)}, f"{G}1.weight": {0: tiny(1e-40)}, f"{G}2.weight": {0: tiny(1e-2)}},
        fires=(f"{G}1.weight",),
    ),
    RuleCase(
        "everything is quiet and nothing was learned",
        {f"{G}0.weight": {10: tiny(1e-9)}, f"{G}1.weight": {10: tiny(2e-9)}, LOSS: {0: 2.3, 10: 2.29}},
        fires=(f"{G}0.weight", f"{G}1.weight"),
    ),
    RuleCase(
        "one loss of two has learned nothing",
        {f"{G}0.weight": {10: tiny(1e-9)}, LOSS: {0: 2.3, 10: 2.3}, "MSELoss_output_0": {0: 2.3, 10: 0.001}},
        fires=(f"{G}0.weight",),
    ),
    RuleCase(
        "in one worker only",
        {
            f"{G}0.weight": {0: {"worker_0": tiny(1e-3), "worker_1": tiny(1e-11)}},
            f"{G}1.weight": {0: {"worker_0": tiny(1e-2), "worker_1": tiny(1e-2)}},
        },
        fires=(f"{G}0.weight",),
    ),
    RuleCase(
        "behind a gradient that is infinite",
        {f"{G}0.weight": {0: tiny(1e-11)}, f"{G}1.weight": {0: tiny(np.inf)}, f"{G}2.weight": {0: tiny(1e-2)}},
        fires=(f"{G}0.weight",),
    ),
    RuleCase(
        "where the script sets no mode",
        {f"{G}0.weight": {0: tiny(1e-11)}, f"{G}1.weight": {0: tiny(1e-2)}},
        fires=(f"{G}0.weight",),
        mode="GLOBAL",
    ),
    # what must stay silent
    RuleCase("nothing was saved", {}),
    RuleCase("no gradients were saved", {LOSS: {0: 2.3}, "Net_0.weight": {0: tiny(1e-12)}}),
    RuleCase("sound gradients", {f"{G}0.weight": {0: tiny(1e-3)}, f"{G}1.weight": {0: tiny(1e-2)}}),
    RuleCase("just above the threshold", {f"{G}0.weight": {0: tiny(1.1e-7)}, f"{G}1.weight": {0: tiny(1)}}),
    RuleCase(
        "a bias before batch normalisation: rounding noise beside a sound weight",
        {f"{G}0.bias": {0: tiny(1e-10)}, f"{G}0.weight": {0: tiny(1e-3)}, f"{G}1.weight": {0: tiny(1e-2)}},
    ),
    RuleCase("zeros only: the parameter took no part", {f"{G}0.weight": {0: tiny(0)}, f"{G}1.weight": {0: tiny(1e-2)}}),
    RuleCase("an embedding of which one row was used", {f"{G}e.weight": {0: SPARSE}, f"{G}1.weight": {0: tiny(1e-2)}}),
    RuleCase(
        "converged: everything is quiet, the loss is gone",
        {f"{G}0.weight": {90: tiny(1e-9)}, f"{G}1.weight": {90: tiny(1e-8)}, LOSS: GONE},
    ),
    RuleCase(
        "converged: one layer far behind, the loss is gone",
        {f"{G}0.weight": {90: tiny(1e-12)}, f"{G}1.weight": {90: tiny(1e-6)}, LOSS: GONE},
    ),
    RuleCase(
        "everything is quiet, no loss was saved", {f"{G}0.weight": {0: tiny(1e-9)}, f"{G}1.weight": {0: tiny(1e-8)}}
    ),
    RuleCase(
        "everything is quiet, half of the loss was learned",
        {f"{G}0.weight": {10: tiny(1e-9)}, LOSS: {0: 2.0, 10: 1.0, 20: 1.0}},
        step=10,
    ),
    RuleCase("NaN is another matter", {f"{G}0.weight": {0: tiny(np.nan)}, f"{G}1.weight": {0: tiny(1e-2)}}),
    RuleCase("an empty gradient", {f"{G}0.weight": {0: np.zeros(0, np.float32)}, f"{G}1.weight": {0: tiny(1e-2)}}),
    RuleCase(
        "vanished at an earlier step, not saved at this one",
        {f"{G}0.weight": {0: tiny(1e-11)}, f"{G}1.weight": {0: tiny(1e-2), 10: tiny(1e-2)}},
    ),
]

test_cases = every_case(VanishingGradient(), CASES)


def test_the_finding_names_size_worker_and_beginning() -> None:
    sizes = {0: 1e-3, 100: 1e-9, 200: 1e-9, 300: 1e-10}
    case = RuleCase(
        "from step 100",
        {
            f"{G}0.weight": {step: {"worker_1": tiny(size)} for step, size in sizes.items()},
            f"{G}1.weight": {step: {"worker_1": tiny(0.5)} for step in sizes},
            f"{G}2.weight": {step: {"worker_1": tiny(0)} for step in sizes},
        },
        fires=(f"{G}0.weight",),
    )
    (finding,) = assert_case(VanishingGradient(), case)
    assert (finding.worker, finding.step, finding.since_step) == ("worker_1", 300, 100)
    assert finding.observed == float(np.float32(1e-10))
    assert finding.comparison == "mean |gradient|: 1e-10, below the limit of 1e-07"
    assert finding.statistics == {"largest_mean_abs_gradient": 0.5, "zero_gradients": 1.0, "is_side_path": 0.0}
    assert [step for step, _ in finding.series] == list(sizes)


def test_one_quiet_step_is_no_verdict_three_in_a_row_are() -> None:
    def run(sizes: list[float]) -> dict[str, dict[int, np.ndarray]]:
        steps = range(0, 100 * len(sizes), 100)
        return {
            f"{G}0.weight": {step: tiny(size) for step, size in zip(steps, sizes, strict=True)},
            f"{G}1.weight": {step: tiny(1e-2) for step in steps},
        }

    assert replay(VanishingGradient(), recorded_trial(run([1e-3, 1e-9, 1e-3, 1e-9, 1e-9, 1e-3]))) == ()
    (finding,) = replay(VanishingGradient(), recorded_trial(run([1e-3, 1e-9, 1e-9, 1e-9, 1e-9])))
    assert (finding.step, finding.since_step) == (300, 100)


def test_a_saved_reduction_answers_as_the_tensor_would() -> None:
    sizes = {f"smdebug/reductions/abs_mean/{G}0.weight": 1e-11, f"smdebug/reductions/abs_mean/{G}1.weight": 1e-2}
    case = RuleCase("reductions only", {name: {0: size} for name, size in sizes.items()}, fires=(f"{G}0.weight",))
    assert_case(VanishingGradient(), case)


def trained(*names: str, optimizer: str = "AdamW", decay: float = 0.01) -> ModelFacts:
    """Parameters in the order of the model, 4 by 4 each."""
    parameters = [
        ParameterFacts(f"Net_{name}", name.rpartition(".")[0], (4, 4), "float32", optimizer=optimizer) for name in names
    ]
    return ModelFacts(
        parameters=tuple(parameters),
        optimizers=(OptimizerFacts(optimizer, optimizer, groups=({"weight_decay": decay},)),),
    )


def measured(sizes: dict[str, float], updates: dict[str, float], *, steps: int = 3, rate: float = 1e-3) -> Statistics:
    """Gradients and relative updates that stay as they are."""
    return {
        **{f"{G}{name}": {"abs_mean": steady(size, steps)} for name, size in sizes.items()},
        **{
            f"Net_{name}": {"update_ratio": steady(size, steps), "l2": steady(0.1, 1)} for name, size in updates.items()
        },
        **{f"hyperparameters/{name}/group_0/lr": {"mean": steady(rate, steps)} for name in ("AdamW", "Adam", "SGD")},
    }


NARROW = {"emb.weight": 1e-4, "q.weight": 8e-8, "q.bias": 7e-8, "k.weight": 9e-8, "k.bias": 1e-14, "v.weight": 1e-5}
MOVING = {"q.weight": 0.04, "q.bias": 0.8, "k.weight": 0.04, "k.bias": 0.6, "emb.weight": 0.04, "v.weight": 0.04}
STANDING = dict.fromkeys(MOVING, 1e-9) | {"emb.weight": 0.01, "v.weight": 0.01}
DEEP = {"0.weight": 1e-6, "1.weight": 1e-5, "2.weight": 0.1}
FAR = {"0.weight": 2e-7, "1.weight": 2e-6, "2.weight": 0.02}
SIGMOIDS = {"0.weight": 1e-10, "1.weight": 1e-8, "2.weight": 0.1}
MOVED = dict.fromkeys(SIGMOIDS, 0.01)
BY_PROGRAM = [
    # what must be found
    RuleCase(
        "a side path that stands for long",
        recorded=measured(NARROW, STANDING, steps=120),
        facts=trained(*NARROW),
        fires=tuple(f"{G}{name}" for name in ("k.bias", "q.bias", "q.weight", "k.weight")),
    ),
    RuleCase(
        "the first layers, though the order is given",
        recorded=measured({"0.weight": 1e-9, "1.weight": 1e-2}, {"0.weight": 1e-9, "1.weight": 0.01}),
        facts=trained("0.weight", "1.weight"),
        fires=(f"{G}0.weight",),
    ),
    RuleCase(
        "moved by nothing but decoupled weight decay",
        recorded=measured({"0.weight": 1e-9, "1.weight": 1e-2}, {"0.weight": 1.1e-5, "1.weight": 0.01}),
        facts=trained("0.weight", "1.weight"),
        fires=(f"{G}0.weight",),
    ),
    RuleCase(
        "moved by decay that Adam takes for the gradient",
        recorded=measured({"0.weight": 1e-9, "1.weight": 1e-2}, {"0.weight": 0.01, "1.weight": 0.01}),
        facts=trained("0.weight", "1.weight", optimizer="Adam"),
        fires=(f"{G}0.weight",),
    ),
    RuleCase(
        "far behind the last layer, and standing",
        recorded=measured(DEEP, FAR, steps=120),
        facts=trained(*DEEP, optimizer="SGD"),
        fires=(f"{G}0.weight",),
    ),
    RuleCase(
        "the first layers, which Adam moves by noise, and nothing is learned",
        recorded={**measured(SIGMOIDS, MOVED, steps=120), LOSS: {"mean": steady(2.3, 120)}},
        facts=trained(*SIGMOIDS),
        fires=(f"{G}0.weight", f"{G}1.weight"),
    ),
    # what must stay silent
    RuleCase(
        "the same, and the loss falls",
        recorded={**measured(SIGMOIDS, MOVED, steps=120), LOSS: {"mean": falling(2.3, 1.9, 120)}},
        facts=trained(*SIGMOIDS),
    ),
    RuleCase(
        "the same, not for long",
        recorded={**measured(SIGMOIDS, MOVED, steps=90), LOSS: {"mean": steady(2.3, 90)}},
        facts=trained(*SIGMOIDS),
    ),
    RuleCase(
        "queries and keys that Adam moves, and nothing is learned",
        recorded={**measured(NARROW, MOVING, steps=120), LOSS: {"mean": steady(2.3, 120)}},
        facts=trained(*NARROW),
    ),
    RuleCase(
        "queries and keys of a narrow transformer, which Adam moves",
        recorded=measured(NARROW, MOVING, steps=120),
        facts=trained(*NARROW),
    ),
    RuleCase("the same at first, which SGD does not move", recorded=measured(NARROW, STANDING), facts=trained(*NARROW)),
    RuleCase(
        "far behind the last layer, and moved by Adam",
        recorded=measured(DEEP, dict.fromkeys(DEEP, 0.01), steps=120),
        facts=trained(*DEEP),
    ),
    RuleCase(
        "far behind the last layer, at first", recorded=measured(DEEP, FAR), facts=trained(*DEEP, optimizer="SGD")
    ),
    RuleCase(
        "far behind, and so is the rate",
        recorded=measured(DEEP, dict.fromkeys(DEEP, 2e-7), steps=120),
        facts=trained(*DEEP, optimizer="SGD"),
    ),
    RuleCase(
        "far behind in the middle",
        recorded=measured({"a.weight": 0.1, **DEEP}, {"a.weight": 0.02, **FAR}, steps=120),
        facts=trained("a.weight", *DEEP, optimizer="SGD"),
    ),
]


@pytest.mark.parametrize("case", BY_PROGRAM, ids=str)
def test_what_the_program_says(case: RuleCase) -> None:
    findings = assert_case(VanishingGradient(), case)
    on_the_way = [f for f in findings if f.measure == SIZE and not f.statistics["is_side_path"]]
    if findings:
        expected = Severity.CRITICAL if on_the_way else Severity.WARNING
        assert VanishingGradient().severity_of(findings) is expected


modules = st.sampled_from(["a.weight", "a.bias", "b.weight", "b.bias", "c.weight", "root"])
some_sizes = st.dictionaries(modules, st.sampled_from([0.0, 1e-45, 1e-12, 9e-8, 1e-7, 2e-7, 1e-3, 1.0, 1e3]))
left = st.none() | st.floats(0, 2)


def oracle(sizes: dict[str, float], threshold: float, relative: float, loss_left: float | None) -> set[str]:
    """The page's points 2 to 4, in exact numbers and plain loops."""
    exact = {name: Fraction(size) for name, size in sizes.items() if size > 0}
    if not exact or (loss_left is not None and loss_left <= 0.1):
        return set()
    largest = max(exact.values())
    found = set()
    for name, size in exact.items():
        siblings = [s for n, s in exact.items() if "." in name and n.split(".")[0] == name.split(".")[0]] or [size]
        quiet = all(sibling < Fraction(threshold) for sibling in siblings)
        behind = float(size) < relative * float(largest)
        hopeless = largest < Fraction(threshold) and loss_left is not None and loss_left > 0.9
        if quiet and (behind or hopeless):
            found.add(name)
    return found


@given(some_sizes, left)
def test_agrees_with_the_page(sizes: dict[str, float], loss_left: float | None) -> None:
    found = vanished(sizes, threshold=1e-7, relative_threshold=1e-3, loss_left=loss_left)
    assert set(found) == oracle(sizes, 1e-7, 1e-3, loss_left)
    assert [sizes[name] for name in found] == sorted(sizes[name] for name in found)


@given(some_sizes, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_finds_no_less(sizes: dict[str, float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    fewer = vanished(sizes, threshold=low, relative_threshold=1e-3)
    assert set(fewer) <= set(vanished(sizes, threshold=high, relative_threshold=1e-3))


@given(some_sizes, st.randoms(use_true_random=False))
def test_the_order_of_the_tensors_does_not_matter(sizes: dict[str, float], random: object) -> None:
    shuffled = list(sizes.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis types its randoms as object
    settings = {"threshold": 1e-7, "relative_threshold": 1e-3}
    assert vanished(dict(shuffled), **settings) == vanished(sizes, **settings)


@given(some_sizes, left)
def test_reports_nothing_that_the_original_would_not(sizes: dict[str, float], loss_left: float | None) -> None:
    found = vanished(sizes, threshold=1e-7, relative_threshold=1e-3, loss_left=loss_left)
    assert all(sizes[name] < 1e-7 for name in found)


@pytest.mark.parametrize(
    ("sizes", "has_grown"),
    [
        pytest.param([1e-10 * step**2.5 for step in range(11)], True, id="faster-than-the-square-of-the-steps"),
        pytest.param([0.0, 1e-10, 5e-9, 9e-9, 4e-9, 5e-9], True, id="ten-times-its-first-and-noisy"),
        pytest.param([0.0, 0.0, 0.0, 1e-10], True, id="from-nothing"),
        pytest.param([1e-10] * 12, False, id="steady"),
        pytest.param([1e-10 * step for step in range(5, 16)], False, id="in-a-line"),
        pytest.param([1e-10], False, id="only-once"),
    ],
)
def test_what_grows_fast_is_on_its_way(sizes: list[float], has_grown: bool) -> None:
    assert grows(Column(G, "worker_0", np.arange(len(sizes)), np.array(sizes))) is has_grown
