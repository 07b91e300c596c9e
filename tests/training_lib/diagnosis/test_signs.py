"""Evidence about causes: present, absent or unknown, for runs of which the answer is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.for_each import for_each
from tests.training_lib.rules.columns import along, falling, steady
from trackside.contracts.cause import Cause, Sign, Suspicion
from trackside.contracts.model_facts import (
    LossFacts,
    ModelFacts,
    ModuleFacts,
    OptimizerFacts,
    ParameterFacts,
    ProgramFacts,
)
from trackside.contracts.observations import (
    CLIPPINGS,
    HAS_EQUAL_ROWS,
    HAS_GRADIENT,
    LOOKS_UNTRAINED,
    TRAINING_MODE_EVALUATIONS,
    ClippingFacts,
)
from trackside.diagnosis import signs
from trackside.diagnosis.signs import explained_by, refuted_by, signs_of, signs_of_rules
from trackside.evidence.question import Known
from trackside.evidence.registry import all_questions
from trackside.testing.rule_case import RuleCase
from trackside.trial.window import Window

QUESTIONS = all_questions()
LOSS, W, G = "CrossEntropyLoss_output_0", "Net_fc.weight", "gradient/Net_fc.weight"
RATE = "hyperparameters/SGD/group_0/lr"
LABELS = {"CrossEntropyLoss_input_1": {step: np.arange(32) % 8 for step in range(0, 100, 10)}}
CLASSES = np.repeat([0, 1, 2], [24, 6, 2])
NUMBERS = np.linspace(0.1, 2.9, 32, dtype=np.float32)
EVALUATED = {LOSS: {"mean": steady(0.5, 10, every=10)}}
HELD = ParameterFacts(W, "fc", (8, 8), "float32", optimizer="SGD")
LAST = ParameterFacts("Net_b.weight", "b", (8, 8), "float32", optimizer="SGD")
LEFT_OUT = ParameterFacts("Net_x.weight", "x", (8, 8), "float32", observed={HAS_GRADIENT: True, LOOKS_UNTRAINED: True})
FROZEN = ParameterFacts("Net_x.weight", "x", (8, 8), "float32", optimizer="SGD", requires_grad=False)
ALIKE = ParameterFacts(W, "fc", (8, 8), "float32", optimizer="SGD", observed={HAS_EQUAL_ROWS: True})


def window(
    recorded: Mapping[str, Any] | None = None,
    *,
    facts: ModelFacts | None = None,
    evaluated: Mapping[str, Any] = EVALUATED,
    labels: Mapping[str, Any] = LABELS,
) -> Window:
    """A run of 101 steps whose loss falls by usual updates, but for these statistics."""
    usual = {
        LOSS: {"mean": falling(2.3, 0.2, 101)},
        W: {"update_ratio": steady(9e-4, 101), "l2": steady(1.0, 101)},
        G: {"l2": steady(1.0, 101)},
        "gradient/Net_b.weight": {"l2": steady(1.0, 101)},
        RATE: {"mean": steady(0.1, 101)},
        "trackside/gradients_kept": {"mean": steady(0.0, 101)},
    }
    return RuleCase(
        "a run",
        labels,
        collections={"labels": ("input_1$",)},
        recorded={**usual, **(recorded or {})},
        evaluated=evaluated,
        facts=facts or program(),
    ).window


def program(
    *parameters: ParameterFacts, decay: float = 0.0, loss: LossFacts | None = None, **settings: Any
) -> ModelFacts:
    return ModelFacts(
        modules=(ModuleFacts("fc", "Linear", role="linear"),),
        parameters=parameters or (HELD, LAST),
        optimizers=(OptimizerFacts("SGD", "SGD", groups=({"weight_decay": decay},)),),
        losses=(loss or LossFacts(LOSS, type_name="CrossEntropyLoss", reduction="mean", input_from="linear"),),
        program=ProgramFacts(**settings),
    )


def of_mode(*, is_training: bool, evaluations: int = 0) -> ModelFacts:
    """A program with batch normalisation."""
    return replace(
        program(observed={TRAINING_MODE_EVALUATIONS: evaluations} if evaluations else {}),
        modules=(ModuleFacts("norm", "BatchNorm1d", role="normalization", is_training=is_training),),
    )


def stuck(
    inputs: Mapping[str, Any],
    *,
    ratio: float = 1e-2,
    losses: Mapping[int, float] | None = None,
    labels: NDArray[np.int64] | None = None,
) -> Window:
    """A run that learned nothing of its labels by visible updates."""
    of_all = LABELS if labels is None else {name: dict.fromkeys(range(0, 100, 10), labels) for name in LABELS}
    return RuleCase(
        "a run",
        {**of_all, **inputs},
        collections={"labels": ("input_1$",), "model_inputs": ("^Net_input",)},
        recorded={
            LOSS: {"mean": losses or steady(2.3, 101)},
            W: {"update_ratio": steady(ratio, 101), "l2": steady(1.0, 101)},
            G: {"l2": steady(1.0, 101)},
            "gradient/Net_b.weight": {"l2": steady(1.0, 101)},
        },
        facts=program(),
    ).window


def of_classes(*counts: int) -> Mapping[str, Any]:
    """Saved labels, of which each batch has so many of each class."""
    return {"CrossEntropyLoss_input_1": {step: np.repeat(np.arange(len(counts)), counts) for step in range(0, 100, 10)}}


def losing(**changes: Any) -> ModelFacts:
    return program(loss=LossFacts(LOSS, **{"type_name": "CrossEntropyLoss", **changes}))


PRESENT = [
    ("gradients-kept", window({"trackside/gradients_kept": {"mean": steady(1.0, 101)}})),
    ("softmax-twice", window(facts=losing(input_from="softmax"))),
    ("negative-loss", window(facts=losing(scale=-1.0))),
    ("in-no-optimizer", window(facts=program(HELD, LEFT_OUT))),
    ("left-out", window(facts=program(HELD, LEFT_OUT))),
    ("frozen", window(facts=program(HELD, FROZEN))),
    ("weight-decay", window(facts=program(decay=0.1))),
    ("negative-weight-decay", window(facts=program(decay=-0.1))),
    ("weights-shrank", window({W: {"l2": falling(1.0, 0.01, 101)}}, facts=program(decay=0.5))),
    ("weights-grew", window({W: {"l2": falling(1.0, 50.0, 101)}})),
    ("float16", window(facts=program(autocast_dtype="float16"))),
    (
        "clipped-away",
        window(
            {"trackside/clipping": {"mean": steady(2.0, 101)}},
            facts=program(observed={CLIPPINGS: (ClippingFacts("norm", 1e-3),)}),
        ),
    ),
    ("zero-gradients", window({G: {"l2": steady(0.0, 101)}, "gradient/Net_b.weight": {"l2": steady(0.0, 101)}})),
    ("gradients-died", window({G: {"l2": along([1.0] * 50 + [0.0] * 51)}})),
    ("units-alike", window(facts=program(ALIKE))),
    ("gradient-spread", window({"gradient/Net_a.weight": {"l2": steady(1e-9, 101)}})),
    ("goes-nowhere", window({W: {"update_ratio": steady(1e-9, 101), "l2": steady(1.0, 101)}})),
    ("still-updates", window({W: {"update_ratio": steady(1e-9, 101), "l2": steady(1.0, 101)}})),
    ("visible-updates", window({W: {"update_ratio": steady(1e-2, 101), "l2": steady(1.0, 101)}})),
    ("wild-updates", window({W: {"update_ratio": steady(0.9, 101), "l2": steady(1.0, 101)}})),
    ("torn-at-first", window({W: {"update_ratio": along([0.9] * 5 + [1e-4] * 96), "l2": steady(1.0, 101)}})),
    ("rate-collapsed", window({RATE: {"mean": along([0.1] * 20 + [1e-9] * 81)}})),
    ("rate-rose", window({RATE: {"mean": falling(1e-3, 1.0, 101)}})),
    ("rate-varies", window({RATE: {"mean": falling(1e-3, 1.0, 101)}})),
    ("loss-not-finite", window({LOSS: {"mean": along([2.3] * 60 + [math.nan] * 41)}})),
    ("broke-suddenly", window({LOSS: {"mean": along([2.3] * 60 + [math.nan] * 41)}})),
    ("undefined-value", window({G: {"l2": along([1.0] * 100 + [math.nan])}})),
    ("loss-fell", window()),
    ("loss-mostly-gone", window()),
    ("loss-rose", window({LOSS: {"mean": falling(0.2, 2.3, 101)}})),
    ("loss-falls", window()),
    ("never-a-gradient", window({G: {"l2": steady(0.0, 101)}, "gradient/Net_b.weight": {"l2": steady(0.0, 101)}})),
    (
        "died-by-steps",
        window(
            {
                G: {"l2": along([1.0] * 20 + [0.0] * 81)},
                "gradient/Net_b.weight": {"l2": steady(0.0, 101)},
                W: {"update_ratio": along([0.3] * 5 + [1e-4] * 96), "l2": steady(1.0, 101)},
            }
        ),
    ),
    ("gradient-fades", window({G: {"l2": steady(1e-3, 101)}})),
    ("worse-than-guessing", window(evaluated={LOSS: {"mean": steady(3.0, 10, every=10)}})),
    ("unequal-classes", window(labels=of_classes(30, 19, 1))),
    ("uphill", window({LOSS: {"mean": along([2.3 * 1.02**step for step in range(101)])}})),
    ("gradients-grew", window({G: {"l2": falling(1.0, 500.0, 101)}})),
]


@pytest.mark.parametrize(("name", "run"), [pytest.param(*row, id=row[0]) for row in PRESENT])
def test_evidence_that_is_present(name: str, run: Window) -> None:
    answer = QUESTIONS[name].answer(Known(run))
    assert answer
    assert Sign(name, True, answer if isinstance(answer, str) else "") in signs_of(run)


@for_each({name: (name,) for name, _ in PRESENT if name not in {"loss-fell", "loss-mostly-gone", "loss-falls"}})
def test_evidence_that_is_absent_from_a_sound_run(name: str) -> None:
    assert QUESTIONS[name].answer(Known(window())) is False


@pytest.mark.parametrize(
    ("name", "run"),
    [
        pytest.param("never-a-gradient", window({G: {"l2": steady(0.0, 101)}}), id="another-layer-has-one"),
        pytest.param("never-a-gradient", window({G: {"l2": along([1.0] + [0.0] * 100)}}), id="it-had-one"),
        pytest.param("gradient-fades", window({G: {"l2": steady(0.0, 101)}}), id="the-first-layer-is-cut-off"),
        pytest.param(
            "worse-than-guessing",
            window(evaluated={LOSS: {"mean": along([1.5] + [3.0] * 9, every=10)}}),
            id="once-better",
        ),
        pytest.param(
            "worse-than-guessing",
            window({LOSS: {"mean": steady(2.3, 101)}}, evaluated={LOSS: {"mean": steady(3.0, 10, every=10)}}),
            id="training-has-learned-nothing-either",
        ),
        pytest.param(
            "worse-than-guessing",
            window({LOSS: {"mean": steady(2.07, 101)}}, evaluated={LOSS: {"mean": steady(3.0, 10, every=10)}}),
            id="training-is-a-hair-better-than-a-guess",
        ),
        pytest.param(
            "uphill",
            window({LOSS: {"mean": along([*falling(2.3, 1.0, 30).values(), *falling(1.0, 9.0, 71).values()])}}),
            id="it-fell-before",
        ),
        pytest.param(
            "uphill",
            window(
                {LOSS: {"mean": falling(2.3, 20, 101)}, W: {"update_ratio": steady(0.8, 101), "l2": steady(1.0, 101)}}
            ),
            id="by-large-steps",
        ),
    ],
)
def test_evidence_that_is_absent_from_a_similar_run(name: str, run: Window) -> None:
    assert QUESTIONS[name].answer(Known(run)) is False


@pytest.mark.parametrize(
    ("losses", "answer"),
    [
        pytest.param(along([0.7 + 0.4 * step for step in range(60)]), True, id="rises"),
        pytest.param(falling(0.7, 0.2, 60), False, id="falls"),
    ],
)
def test_trees_that_follow_the_gradient_the_wrong_way(losses: Mapping[int, float], answer: bool) -> None:
    facts = ModelFacts(program=ProgramFacts(framework="xgboost"))
    run = RuleCase("trees", recorded={"logloss_output_0": {"mean": losses}}, facts=facts).window
    assert bool(QUESTIONS["uphill"].answer(Known(run))) is answer


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(of_classes(30, 15, 5), id="neither-equal-nor-missing"),
        pytest.param({"CrossEntropyLoss_input_1": {0: np.arange(30)}}, id="few-labels"),
        pytest.param({}, id="none"),
    ],
)
def test_classes_of_which_too_little_is_known(labels: Mapping[str, Any]) -> None:
    assert QUESTIONS["unequal-classes"].answer(Known(window(labels=labels))) is None


@for_each({name: (name,) for name in QUESTIONS})
def test_evidence_is_unknown_where_nothing_was_recorded(name: str) -> None:
    assert QUESTIONS[name].answer(Known(RuleCase("an old run", {"mine": {0: 1.0}}).window)) is None


def test_a_piece_that_fails_is_unknown_and_the_others_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(known: Known) -> str:
        raise ZeroDivisionError

    broken = {**QUESTIONS, "loss-fell": replace(QUESTIONS["loss-fell"], answer=fails)}
    monkeypatch.setattr(signs, "all_questions", lambda: broken)
    names = [sign.name for sign in signs_of(window())]
    assert "loss-fell" not in names
    assert "loss-falls" in names


@pytest.mark.parametrize(
    ("facts", "cause", "is_refuted"),
    [
        pytest.param(program(), Cause.WEIGHT_DECAY_TOO_STRONG, True, id="no-weight-decay"),
        pytest.param(program(decay=0.1), Cause.WEIGHT_DECAY_TOO_STRONG, False, id="weight-decay"),
        pytest.param(program(), Cause.PRECISION_OVERFLOW, True, id="float32"),
        pytest.param(program(autocast_dtype="float16"), Cause.PRECISION_OVERFLOW, False, id="float16"),
        pytest.param(program(), Cause.PARAMETERS_NOT_IN_OPTIMIZER, True, id="all-in-an-optimizer"),
        pytest.param(program(HELD, LEFT_OUT), Cause.PARAMETERS_NOT_IN_OPTIMIZER, False, id="one-in-none"),
        pytest.param(program(), Cause.TRAIN_EVAL_MODE, True, id="no-module-depends-on-the-mode"),
        pytest.param(of_mode(is_training=True), Cause.TRAIN_EVAL_MODE, True, id="always-in-training-mode"),
        pytest.param(of_mode(is_training=False), Cause.TRAIN_EVAL_MODE, False, id="in-evaluation-mode"),
        pytest.param(of_mode(is_training=True, evaluations=1), Cause.TRAIN_EVAL_MODE, False, id="evaluated-in-it"),
        pytest.param(program(), Cause.LEARNING_RATE_SCHEDULE, True, id="a-constant-rate"),
        pytest.param(program(), Cause.MISSING_ZERO_GRAD, True, id="gradients-are-cleared"),
        pytest.param(program(), Cause.CLASS_IMBALANCE, True, id="equal-classes"),
        pytest.param(program(), Cause.LEARNING_RATE_TOO_HIGH, False, id="nothing-refutes-it"),
    ],
)
def test_facts_refute_causes(facts: ModelFacts, cause: Cause, is_refuted: bool) -> None:
    assert (cause in refuted_by(signs_of(window(facts=facts)))) is is_refuted


@pytest.mark.parametrize(
    ("labels", "is_refuted"),
    [
        pytest.param(NUMBERS, True, id="numbers"),
        pytest.param(NUMBERS.reshape(16, 2), True, id="two-numbers-a-sample"),
        pytest.param(CLASSES, False, id="classes"),
        pytest.param((NUMBERS > 2.7).astype(np.float32), False, id="zeros-and-ones"),
        pytest.param(np.eye(3, dtype=np.float32)[CLASSES], False, id="one-hot-rows"),
        pytest.param(np.arange(32) % 8, True, id="equal-classes"),
        pytest.param(np.eye(4, dtype=np.float32)[np.arange(32) % 4], True, id="equal-one-hot-rows"),
        pytest.param(np.arange(32).reshape(4, 8), False, id="tokens"),
    ],
)
def test_only_classes_can_be_unequal(labels: Any, is_refuted: bool) -> None:
    run = window(labels={"CrossEntropyLoss_input_1": dict.fromkeys(range(0, 100, 10), labels)})
    assert (Cause.CLASS_IMBALANCE in refuted_by(signs_of(run))) is is_refuted


RANDOM = np.random.default_rng(0)


def of_inputs(rows: Any, *, noise: float = 1.0) -> Mapping[str, Any]:
    return {"Net_input_0": {step: rows + noise * RANDOM.normal(size=rows.shape) for step in (0, 50)}}


ROWS = of_inputs(np.zeros((32, 4)))
TELLING = of_inputs(np.eye(8)[np.arange(32) % 8], noise=0.1)


@pytest.mark.parametrize(
    ("run", "answer"),
    [
        pytest.param(stuck(ROWS), True, id="inputs-differ-and-weights-move"),
        pytest.param(stuck(TELLING), False, id="inputs-tell-the-labels"),
        pytest.param(stuck({"Net_input_0": {0: np.arange(128).reshape(32, 4)}}), None, id="words"),
        pytest.param(stuck({"Net_input_0": {0: RANDOM.normal(size=(8, 4))}}), None, id="fewer-inputs-than-labels"),
        pytest.param(stuck(of_inputs(np.ones((32, 4)), noise=0.0)), False, id="inputs-are-alike"),
        pytest.param(stuck({}), None, id="no-inputs-were-saved"),
        pytest.param(stuck(ROWS, labels=np.arange(32)), None, id="labels-are-places-in-the-batch"),
        pytest.param(stuck(ROWS, ratio=1e-6), False, id="hardly-a-step"),
        pytest.param(stuck(ROWS, ratio=0.9), False, id="wild-steps"),
        pytest.param(stuck(ROWS, losses=falling(2.3, 0.2, 101)), False, id="it-learns"),
    ],
)
def test_labels_that_do_not_belong_to_the_inputs(run: Window, answer: bool | None) -> None:
    found = QUESTIONS["labels-unlearned"](Known(run))
    assert found is answer if answer is not True else isinstance(found, str)


def test_nothing_is_refuted_by_what_is_unknown() -> None:
    assert refuted_by(signs_of(RuleCase("an old run", {"mine": {0: 1.0}}).window)) == frozenset()


def test_the_opinions_of_rules_are_evidence() -> None:
    measured, mere = Suspicion(Cause.DEAD_UNITS, "half of them"), Suspicion(Cause.WRONG_LABELS)
    assert list(signs_of_rules([("dead-relu", [measured, mere]), ("overfit", [mere])])) == [
        Sign("found:dead-relu"),
        Sign("found:overfit"),
        Sign("shown:dead-units", because="half of them"),
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["rate-rose"], {Cause.LEARNING_RATE_TOO_HIGH: Cause.LEARNING_RATE_SCHEDULE}, id="one"),
        pytest.param(
            ["worse-than-guessing", "gradient-fades"],
            {Cause.WRONG_LABELS: Cause.VANISHING_GRADIENTS},
            id="an-outranked-cause-is-no-sign",
        ),
        pytest.param(
            ["zero-gradients", "died-by-steps"],
            {
                Cause.LEARNING_RATE_TOO_LOW: Cause.LEARNING_RATE_TOO_HIGH,
                Cause.CLIPPING_TOO_LOW: Cause.LEARNING_RATE_TOO_HIGH,
                Cause.DEAD_UNITS: Cause.LEARNING_RATE_TOO_HIGH,
            },
            id="a-sign-of-a-sign",
        ),
        pytest.param(
            ["labels-differ"], {Cause.OVERFITTING: Cause.WRONG_LABELS}, id="rare-in-training-alone-is-imbalance-still"
        ),
        pytest.param(["loss-fell", "frozen"], {}, id="evidence-that-explains-nothing"),
    ],
)
def test_a_sign_gives_way_to_its_cause(names: list[str], expected: Mapping[Cause, Cause]) -> None:
    assert explained_by([Sign(name) for name in names]) == expected
