"""class-imbalance: some classes hardly ever come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts, OptimizerFacts, ProgramFacts
from trackside.contracts.observations import CLASS_WEIGHTS, DRAW_WEIGHTS, IGNORED_CLASS
from trackside.contracts.verdict import Severity
from trackside.rules.models.class_imbalance import ClassImbalance, certain_imbalance, imbalance
from trackside.testing.rule_case import RuleCase, assert_case, replay

Y = "CrossEntropyLoss_input_1"
RANDOM = np.random.default_rng(0)
TWO = ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam"), OptimizerFacts("Adam_1", "Adam")))
PLAIN = LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", "mean", class_count=2)
BY_HAND = LossFacts("loss_output_0")


def case(
    name: str,
    batches: Sequence[Any],
    *,
    fires: bool = False,
    facts: ModelFacts | tuple[ModelFacts, ...] | None = None,
    mode: str = "TRAIN",
) -> RuleCase:
    return RuleCase(
        name,
        {Y: {10 * number: batch for number, batch in enumerate(batches)}},
        collections={"labels": (f"^{Y}$",)},
        fires=(Y,) if fires else (),
        facts=facts,
        mode=mode,
    )


def drawn(*shares: float, batches: int = 20, size: int = 64) -> list[Any]:
    """Class labels that come as often as that."""
    return [RANDOM.choice(len(shares), size=size, p=shares) for _ in range(batches)]


def of_rows(*classes: int) -> ModelFacts:
    """Facts with the number of samples of each class in the training set."""
    return ModelFacts(losses=(replace(PLAIN, classes=classes),))


def weighing(*weights: float) -> ModelFacts:
    """Facts with a loss that weighs the classes so."""
    return ModelFacts(losses=(replace(PLAIN, is_weighted=True, observed={CLASS_WEIGHTS: weights}),))


def drawing(ratio: float, *weights: float) -> ModelFacts:
    """Facts with a sampler whose weights differ by that ratio, and a loss that weighs the classes so."""
    return replace(weighing(*weights), program=ProgramFacts(observed={DRAW_WEIGHTS: ratio}))


def padded() -> Any:
    """Labels of sequences whose ends are filled up with a class of its own."""
    labels = RANDOM.integers(1, 4, (8, 16))
    labels[:, 11:] = 0
    return labels.ravel()


IGNORING = ModelFacts(losses=(replace(PLAIN, class_count=4, observed={IGNORED_CLASS: 0}),))
WORDS = (ModuleFacts("words", "Embedding", "embedding", in_features=900),)
LETTERS = (replace(WORDS[0], in_features=2),)
PHASES = (
    ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam"),)),
    ModelFacts(optimizers=(OptimizerFacts("Adam_1", "Adam"),), from_step=50),
)
TEN_THEN_TWO = [*drawn(*[0.1] * 10, batches=5), *drawn(0.5, 0.5, batches=35)]
RARE = drawn(0.98, 0.02)
ONE_CLASS = [np.ones(64, np.int64)] * 20
FROM_A_LAYER = ModelFacts(losses=(replace(PLAIN, input_from="linear"),))
CASES = [
    case("one in fifty", RARE, fires=True),
    case("one class alone", ONE_CLASS, facts=FROM_A_LAYER, fires=True),
    case("yes alone", [batch.astype(np.float32) for batch in ONE_CLASS], facts=FROM_A_LAYER, fires=True),
    case("the first of some candidates", ONE_CLASS, facts=ModelFacts(losses=(replace(PLAIN, input_from="other"),))),
    case("one class alone in a few batches", ONE_CLASS[:9], facts=FROM_A_LAYER),
    case("one class alone of two optimizers", ONE_CLASS, facts=replace(FROM_A_LAYER, optimizers=TWO.optimizers)),
    case("one class at first", [*ONE_CLASS[:9], *drawn(0.5, 0.5)], facts=FROM_A_LAYER),
    case("one of three", drawn(0.495, 0.495, 0.01), fires=True),
    case("zeros and ones in floating point", [batch.astype(np.float32) for batch in RARE], fires=True),
    case("one-hot rows", [np.eye(2, dtype=np.float32)[batch] for batch in RARE], fires=True),
    case("columns", [batch[:, None] for batch in RARE], fires=True),
    case("a plain loss", RARE, fires=True, facts=ModelFacts(losses=(PLAIN,))),
    case("a loss by hand", RARE, fires=True, facts=ModelFacts(losses=(BY_HAND,))),
    case("one in twenty of four, in few batches", [np.array([0] * 21 + [1] * 21 + [2] * 20 + [3])] * 5, fires=True),
    case("even rows of another set", drawn(0.5, 0.5), fires=True, facts=of_rows(950, 30)),
    case("even", drawn(0.5, 0.5)),
    case("rows of another set than the one that is trained on", RARE, facts=of_rows(950, 950)),
    case("a class that the training set lacks", drawn(0.5, 0.5), facts=of_rows(950, 0, 900)),
    case("weights in the loss", RARE, facts=ModelFacts(losses=(replace(PLAIN, is_weighted=True),))),
    case("weights upside down", drawn(0.6, 0.3, 0.1), fires=True, facts=weighing(1.8, 0.9, 0.3)),
    case("weights upside down, of very rare classes", RARE, fires=True, facts=weighing(1.96, 0.04)),
    case("weights of all classes in their order", drawn(0.6, 0.3, 0.1), facts=weighing(0.5, 1.1, 3.3)),
    case("weights that favour one class of many on purpose", drawn(0.3, 0.4, 0.3), facts=weighing(1.0, 2.0, 1.0)),
    case("weights for fewer classes than labels have", drawn(0.6, 0.3, 0.1), facts=weighing(1.8, 0.9)),
    case("weights and a sampler", drawn(0.34, 0.33, 0.33), fires=True, facts=drawing(9.0, 0.5, 1.1, 4.5)),
    case("weights of yes and a sampler", drawn(0.5, 0.5), fires=True, facts=drawing(19.0, 1.0, 20.0)),
    case("a sampler alone", drawn(0.5, 0.5), facts=drawing(19.0, 1.0, 1.0)),
    case("weights of even classes without a sampler", drawn(0.5, 0.5), facts=weighing(1.0, 20.0)),
    case("half of it by the sampler, half by weights", drawn(0.75, 0.25), facts=drawing(3.0, 1.0, 3.0)),
    case("costs of a mistake beside a sampler", drawn(0.5, 0.5), facts=drawing(19.0, 1.0, 3.0)),
    case("weights for more classes than are drawn", drawn(0.5, 0.5), facts=drawing(9.0, 1.0, 9.0, 9.0)),
    case("a class that the loss ignores", drawn(0.25, 0.25, 0.25, 0.25), fires=True, facts=IGNORING),
    case("a class that the loss ignores of words", drawn(0.25, 0.75), facts=replace(IGNORING, modules=WORDS)),
    case("padding that the loss ignores", [padded() for _ in range(20)], facts=IGNORING),
    case("another class than the one that is ignored", [batch + 1 for batch in drawn(0.5, 0.5)], facts=IGNORING),
    case("two letters, one after the other", RARE, facts=ModelFacts(modules=LETTERS, losses=(PLAIN,))),
    case("two classes of texts", RARE, fires=True, facts=ModelFacts(modules=WORDS, losses=(PLAIN,))),
    case("perhaps chance", [np.array([0] * 46 + [1] * 4)] * 3),
    case("uneven, as data are", drawn(0.7, 0.2, 0.1)),
    case("too few labels to tell", drawn(0.98, 0.02, batches=1)),
    case("places that do not count", [np.array([0] * 30 + [1] * 33 + [-100])] * 20),
    case("numbers to regress", [RANDOM.normal(size=64).astype(np.float32) for _ in range(20)]),
    case("words", [RANDOM.zipf(1.5, size=64) % 5000 for _ in range(20)]),
    case("a GAN", RARE, facts=TWO),
    case("two tasks, one after the other", TEN_THEN_TWO, facts=PHASES),
    case("an even task, then an uneven one", [*drawn(0.5, 0.5, batches=5), *RARE], fires=True, facts=PHASES),
    case("the same labels without a new optimizer", TEN_THEN_TWO, fires=True, facts=PHASES[0]),
    case("validation data", RARE, mode="EVAL"),
    case("one class", [np.zeros(64, np.int64)] * 20),
]

test_cases = every_case(ClassImbalance(), CASES)


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        pytest.param(None, Severity.WARNING, id="nothing-is-known"),
        pytest.param(ModelFacts(losses=(PLAIN,)), Severity.WARNING, id="plain"),
        pytest.param(ModelFacts(losses=(PLAIN, BY_HAND)), Severity.WARNING, id="a-part-of-a-sum"),
        pytest.param(ModelFacts(losses=(BY_HAND,)), Severity.INFO, id="by-hand"),
        pytest.param(ModelFacts(losses=(replace(PLAIN, reduction="none"),)), Severity.INFO, id="reduced-by-hand"),
    ],
)
def test_how_bad_it_is(facts: ModelFacts | None, severity: Severity) -> None:
    assert (
        ClassImbalance().severity_of(assert_case(ClassImbalance(), case("", RARE, fires=True, facts=facts))) is severity
    )


def test_it_counts_every_class() -> None:
    findings = assert_case(ClassImbalance(), CASES[0])
    numbers = findings[0].statistics
    assert numbers["class_0"] + numbers["class_1"] == 20 * 64
    assert findings[0].observed == numbers["class_0"] / numbers["class_1"]
    assert [s.cause for s in ClassImbalance().suspicions(findings, CASES[0].window)] == [Cause.CLASS_IMBALANCE]


def test_it_is_told_once_enough_labels_have_come() -> None:
    (finding,) = replay(ClassImbalance(), CASES[0].trial)
    assert 100 / 64 * 10 <= finding.step + 10 <= 90


def test_what_it_lacks() -> None:
    assert ClassImbalance().lacks(RuleCase("no labels", {"Loss_output_0": {0: 1.0}}).window)
    assert ClassImbalance().lacks(CASES[5].window) == ""


@given(counts=st.dictionaries(st.text(max_size=2), st.integers(1, 10**6), max_size=6), factor=st.integers(1, 50))
def test_the_ratio_does_not_depend_on_how_many_came(counts: dict[str, int], factor: int) -> None:
    ratio = imbalance(counts)
    assert ratio >= 1
    assert imbalance({name: factor * count for name, count in counts.items()}) == pytest.approx(ratio)


@given(counts=st.dictionaries(st.text(max_size=2), st.integers(1, 10_000), max_size=6))
def test_what_is_certain_is_less_than_what_is_seen(counts: dict[str, int]) -> None:
    assert 1 <= certain_imbalance(counts) <= imbalance(counts)
