"""data-leakage: a column of the inputs gives the answer away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, OptimizerFacts
from trackside.contracts.observations import SEES_AHEAD
from trackside.contracts.run.recorded_names import ATTENTION_AHEAD
from trackside.rules.models.data_leakage import DataLeakage
from trackside.situation.leaks import correlated_with, explained_by, following, separates_all_classes
from trackside.testing.rule_case import RuleCase, assert_case, replay

X, Y = "Net_input_0", "CrossEntropyLoss_input_1"
RANDOM = np.random.default_rng(0)
TWO = ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam"), OptimizerFacts("Adam_1", "Adam")))
Batch = tuple[Any, Any]


def case(
    name: str,
    batch: Callable[[], Batch],
    *,
    fires: bool = False,
    batches: int = 3,
    facts: ModelFacts | None = None,
    ahead: float | None = None,
) -> RuleCase:
    drawn = [batch() for _ in range(batches)]
    return RuleCase(
        name,
        {
            X: {50 * number: inputs for number, (inputs, _) in enumerate(drawn)},
            Y: {50 * number: labels for number, (_, labels) in enumerate(drawn)},
        },
        collections={"model_inputs": (f"^{X}$",), "labels": (f"^{Y}$",)},
        recorded={} if ahead is None else {ATTENTION_AHEAD: {"mean": {50 * n: ahead for n in range(batches)}}},
        fires=(X,) if fires else (),
        facts=facts,
    )


def noise(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def classes(count: int, *, size: int = 48) -> np.ndarray:
    return RANDOM.integers(0, count, size=size)


def with_column(inputs: np.ndarray, values: np.ndarray, place: int = 3) -> np.ndarray:
    inputs[..., place] = values
    return inputs


def leaky(count: int, size: int = 48) -> Batch:
    labels = classes(count, size=size)
    return with_column(noise(size, 8), (labels - 1) * 0.7), labels


def one_hot_beside(*, without: int | None = None) -> Batch:
    labels = np.arange(48) % 4
    inputs = noise(48, 8)
    inputs[:, :4] = np.eye(4)[labels]
    if without is not None:
        inputs[:, without:4] = noise(48, 4 - without)
    return inputs, labels


def regressed(share_of_noise: float) -> Batch:
    target = noise(48, 1)
    return with_column(noise(48, 8), target[:, 0] + share_of_noise * noise(48)), target


def walk() -> Batch:
    values = 100 + np.cumsum(noise(48, 25), axis=1)
    return values[:, :-1, None], values[:, -1:]


def tokens() -> Batch:
    labels = classes(4)
    return with_column(RANDOM.integers(5, 800, size=(48, 20)), labels, place=0), labels


def separated() -> Batch:
    labels = classes(2)
    return with_column(noise(48, 8), 3.0 * labels + noise(48)), labels


def zeros_and_ones() -> Batch:
    inputs, labels = leaky(2)
    return inputs, labels.astype(np.float32)[:, None]


def a_pixel() -> Batch:
    inputs, labels = leaky(3)
    return inputs.reshape(-1, 1, 2, 4), labels


def a_word_somewhere() -> Batch:
    labels = classes(3)
    words = RANDOM.integers(5, 800, size=(48, 20))
    words[np.arange(48), RANDOM.integers(0, 20, size=48)] = 900 + labels
    return words, labels


def a_word_in_most() -> Batch:
    words, labels = a_word_somewhere()
    words[:4] = 7
    return words, labels


def few_of_each_class() -> Batch:
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 3])
    return with_column(RANDOM.integers(5, 800, size=(8, 20)), labels), labels


BOTH_WAYS = ModelFacts(
    modules=(ModuleFacts("Net", "Net"), ModuleFacts("rnn", "LSTM", "recurrent", observed={SEES_AHEAD: True}))
)
ONE_WAY = ModelFacts(modules=(ModuleFacts("Net", "Net"), ModuleFacts("rnn", "LSTM", "recurrent")))


def next_words(*, ignored: int = 0, is_turned: bool = False, shorter: int = 0) -> Batch:
    words = RANDOM.integers(0, 40, size=(16, 21))
    inputs, labels = words[:, :-1], words[:, 1 : 21 - shorter].copy()
    labels[:, :ignored] = -100
    return (inputs.T, labels.T.ravel()) if is_turned else (inputs, labels.ravel())


def same_words() -> Batch:
    words = RANDOM.integers(0, 40, size=(16, 20))
    return words, words.ravel()


def shifted(ahead: int, *, is_turned: bool = False) -> Batch:
    words = RANDOM.integers(0, 40, size=(16, 24))
    inputs, labels = words[:, 2:22], words[:, 2 + ahead : 22 + ahead]
    return (inputs.T, labels.T.ravel()) if is_turned else (inputs, labels.ravel())


def hidden_words() -> Batch:
    words, labels = same_words()
    return np.where(RANDOM.random(words.shape) < 0.15, 40, words), labels


def half_said_again() -> Batch:
    words, labels = same_words()
    return words, np.where(RANDOM.random(labels.shape) < 0.5, labels, RANDOM.integers(0, 40, labels.shape))


SAME = noise(48, 8)
CASES = [
    case("a column is the class", lambda: leaky(3), fires=True),
    case("a column is the answer to a yes-or-no question", lambda: leaky(2), fires=True),
    case(
        "zeros and ones in floating point",
        zeros_and_ones,
        fires=True,
    ),
    case("a column for each class", one_hot_beside, fires=True),
    case("the number to regress, scaled", lambda: regressed(0.0), fires=True),
    case("a word that stands for the class", tokens, fires=True),
    case("a pixel", a_pixel, fires=True),
    case("a word at any place", a_word_somewhere, fires=True),
    case("batches of eight", lambda: leaky(2, size=8), fires=True),
    case("single samples of some classes", few_of_each_class, fires=True, batches=4),
    case("the next word, read both ways", next_words, fires=True, facts=BOTH_WAYS),
    case("the same, some of it ignored", lambda: next_words(ignored=5), fires=True, facts=BOTH_WAYS),
    case("the same, places first", lambda: next_words(is_turned=True), fires=True, facts=BOTH_WAYS),
    case("the same, the last place left out", lambda: next_words(shorter=1), fires=True, facts=BOTH_WAYS),
    case("the next word, seen by attention", next_words, fires=True, facts=ONE_WAY, ahead=1.0),
    case("the next word, seen by attention of a prefix alone", next_words, facts=ONE_WAY, ahead=0.4),
    case("the next word, masked", next_words, facts=ONE_WAY, ahead=0.0),
    case("hidden words, seen by attention", hidden_words, facts=ONE_WAY, ahead=1.0),
    case("the next word, read forwards", next_words, facts=ONE_WAY),
    case("the next word, of a model of which nothing is known", next_words),
    case("labels that were not shifted", same_words, fires=True, facts=ONE_WAY),
    case("labels that were not shifted, read both ways", same_words, fires=True, facts=BOTH_WAYS),
    case("labels that were shifted the wrong way", lambda: shifted(-1), fires=True),
    case("the same, places first", lambda: shifted(-1, is_turned=True), fires=True),
    case("labels that were not shifted, in one batch", same_words, batches=1),
    case("words of which some are hidden", hidden_words, facts=BOTH_WAYS),
    case("the word after the next", lambda: shifted(2)),
    case("some of the words", lambda: (same_words()[0], shifted(3)[1])),
    case("words that are said again half of the time", half_said_again),
    case("one word, again and again", lambda: (np.full((16, 20), 7), np.full(320, 7))),
    case("classes of words, read both ways", lambda: (same_words()[0], classes(3, size=320)), facts=BOTH_WAYS),
    case("the next word, in one batch", next_words, batches=1, facts=BOTH_WAYS),
    case("noise", lambda: (noise(48, 8), classes(3))),
    case("classes that lie apart", separated),
    case("nearly the number to regress", lambda: regressed(0.1)),
    case("a random walk: the next is much like the last", walk),
    case("what tells one class from the others alone", lambda: one_hot_beside(without=1)),
    case("one batch", lambda: leaky(3), batches=1),
    case("two batches of eight", lambda: leaky(2, size=8), batches=2),
    case("batches of four", lambda: leaky(2, size=4), batches=6),
    case("a word that most texts of a class hold", a_word_in_most),
    case("a GAN with labels", lambda: leaky(3), facts=TWO),
    case("an autoencoder", lambda: (SAME, SAME)),
    case("one class", lambda: (noise(48, 8), np.zeros(48, np.int64))),
    case("a constant column", lambda: (with_column(noise(48, 8), np.zeros(48)), classes(2))),
]

test_cases = every_case(DataLeakage(), CASES)


def test_what_it_says() -> None:
    findings = assert_case(DataLeakage(), CASES[0])
    assert set(findings[0].statistics) == {"feature_3"}
    assert findings[0].observed == pytest.approx(1.0)
    assert [s.cause for s in DataLeakage().suspicions(findings, CASES[0].window)] == [Cause.DATA_LEAKAGE]


def test_the_layer_that_sees_the_next_word_is_named() -> None:
    foretold = case("", next_words, fires=True, facts=BOTH_WAYS)
    (suspicion,) = DataLeakage().suspicions(assert_case(DataLeakage(), foretold), foretold.window)
    assert suspicion.cause is Cause.DATA_LEAKAGE
    assert "rnn" in suspicion.because


def test_attention_is_named_where_no_layer_is_known() -> None:
    foretold = case("", next_words, fires=True, ahead=1.0)
    (suspicion,) = DataLeakage().suspicions(assert_case(DataLeakage(), foretold), foretold.window)
    assert "its attention" in suspicion.because


def test_a_word_is_told_as_a_word() -> None:
    findings = assert_case(DataLeakage(), case("", a_word_somewhere, fires=True))
    assert set(findings[0].statistics) == {"holds_word_900", "holds_word_901", "holds_word_902"}


def test_it_is_told_with_the_second_batch() -> None:
    (finding,) = replay(DataLeakage(), CASES[0].trial)
    assert finding.step == 50


def test_another_column_in_each_batch_is_chance() -> None:
    places = iter((1, 2, 3))

    def batch() -> Batch:
        labels = classes(2)
        return with_column(noise(48, 8), labels, place=next(places)), labels

    assert_case(DataLeakage(), case("", batch))


def test_what_it_lacks() -> None:
    assert DataLeakage().lacks(RuleCase("no labels", {"Loss_output_0": {0: 1.0}}).window)


@pytest.mark.parametrize(("mode", "is_judged"), [("TRAIN", True), ("EVAL", False), ("PREDICT", False)])
def test_batches_of_an_evaluation_are_no_sign_of_a_recovery(mode: str, *, is_judged: bool) -> None:
    saved = replace(case("", lambda: leaky(2), fires=True), mode=mode)
    assert bool(DataLeakage().lacks(saved.window)) is not is_judged


@given(seed=st.integers(0, 2**16), factor=st.floats(0.01, 100), shift=st.floats(-10, 10), count=st.integers(2, 4))
def test_scale_and_shift_of_a_column_change_nothing(seed: int, factor: float, shift: float, count: int) -> None:
    random = np.random.default_rng(seed)
    labels = np.arange(40) % count
    inputs = random.normal(size=(40, 5))
    inputs[:, 2] = labels * factor + shift
    assert following(inputs, labels, explained=0.999).keys() == {2}
    assert separates_all_classes(inputs, labels, (2,))


@given(seed=st.integers(0, 2**16), size=st.integers(16, 60))
def test_shares_lie_between_nothing_and_all(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(size, 4)) * 10.0 ** random.integers(-6, 6)
    for share in (explained_by(rows, random.integers(0, 3, size)), correlated_with(rows, random.normal(size=size))):
        assert ((share >= 0) & (share <= 1 + 1e-9)).all()
