"""What every rule has from its base: parameters by preset, and a memory that survives a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ProgramFacts
from trackside.contracts.observations import CLIPPINGS, ClippingFacts
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import FoldingRule, Rule, is_rule, parameter
from trackside.rules.tensors.exploding_gradient import ExplodingGradient
from trackside.rules.tensors.loss_not_decreasing import LossNotDecreasing
from trackside.rules.tensors.loss_spike import LossSpike
from trackside.rules.tensors.overfit import Overfit
from trackside.rules.tensors.vanishing_gradient import VanishingGradient
from trackside.testing.rule_case import RuleCase
from trackside.trial.window import Window


class Colour(IntEnum):
    RED = 0
    BLUE = 1


@dataclass(frozen=True)
class Part:
    """A dataclass within a state."""

    step: int
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Memory:
    """Everything that a state may hold."""

    count: int = 0
    level: float = 0.0
    word: str = ""
    is_sure: bool = False
    steps: tuple[int, ...] = ()
    points: tuple[tuple[int, float, str], ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)


@dataclass(frozen=True)
class Counts(FoldingRule):
    """It counts to two."""

    rule_id = "counts"
    watches = ("losses",)
    save_interval = 10
    severity = Severity.WARNING
    since = "0.1"
    what_to_do = ()
    likely_causes = (Cause.STALLED, Cause.CONVERGED)
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    preset_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {AWS_SDK: {"limit": 20}}

    limit: int = parameter(2, "how far", minimum=1, maximum=99)
    name: str = parameter("", "of what")

    def start(self) -> Memory:
        return Memory(word="start")

    def fold(self, state: Memory, window: Window) -> tuple[Memory, Iterable[Finding]]:
        count = state.count + 1
        finding = Finding("steps", window.step, 0, "count", count, ">", self.limit - 1)
        return Memory(count=count), [finding] if count >= self.limit else []


words = st.text(max_size=6)
integers = st.integers(-(10**15), 10**15)
floats = st.floats(allow_nan=False)


@given(
    state=st.builds(
        Memory,
        count=integers,
        level=floats,
        word=words,
        is_sure=st.booleans(),
        steps=st.lists(integers, max_size=4).map(tuple),
        points=st.lists(st.tuples(integers, floats, words), max_size=3).map(tuple),
        counts=st.dictionaries(words, integers, max_size=3),
        series=st.dictionaries(words, st.lists(floats, max_size=3).map(tuple), max_size=3),
        parts=st.dictionaries(words, st.builds(Part, step=integers, colour=st.sampled_from(Colour)), max_size=3),
    )
)
def test_a_state_is_read_as_it_was_written(state: Memory) -> None:
    rule = Counts()
    assert rule.load(rule.dump(state)) == state


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="cut-off"),
        pytest.param("3", id="a-number"),
        pytest.param("[]", id="a-list"),
        pytest.param('{"no_such_field": 1}', id="of-another-version"),
        pytest.param('{"count": 1, "gone": 2}', id="a-field-too-many"),
        pytest.param("[" * 100_000, id="too-deep"),
        pytest.param('{"count": "7"}', id="a-text-for-a-number"),
        pytest.param('{"count": 7.5}', id="a-broken-number-for-a-whole-one"),
        pytest.param('{"count": true}', id="a-truth-value-for-a-number"),
        pytest.param('{"count": null}', id="nothing-for-a-number"),
        pytest.param('{"is_sure": 1}', id="a-number-for-a-truth-value"),
        pytest.param('{"word": ["a"]}', id="a-list-for-a-text"),
        pytest.param('{"steps": 3}', id="a-number-for-a-list"),
        pytest.param('{"steps": [1, "2"]}', id="a-text-among-numbers"),
        pytest.param('{"points": [[1, 2.0]]}', id="a-point-too-short"),
        pytest.param('{"points": [[1, 2.0, 3]]}', id="a-point-of-numbers-only"),
        pytest.param('{"counts": [1]}', id="a-list-for-a-mapping"),
        pytest.param('{"series": {"a": [null]}}', id="nothing-in-a-series"),
        pytest.param('{"parts": {"a": [3, 1]}}', id="a-list-for-a-part"),
        pytest.param('{"parts": {"a": {"step": "3"}}}', id="a-text-in-a-part"),
        pytest.param('{"parts": {"a": {"colour": 1}}}', id="a-part-that-lacks-a-field"),
        pytest.param('{"parts": {"a": {"step": 3, "colour": 9}}}', id="an-unknown-word-in-a-part"),
    ],
)
def test_a_state_that_cannot_be_read_is_that_of_the_start(text: str) -> None:
    assert Counts().load(text) == Memory(word="start")


@given(text=st.text(max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    assert isinstance(Counts().load(text), Memory)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param('{"count": -7}', Memory(count=-7, word="start"), id="a-number"),
        pytest.param('{"level": 2}', Memory(level=2, word="start"), id="a-whole-number-for-any"),
        pytest.param('{"level": NaN}', None, id="no-number-for-any"),
        pytest.param(
            '{"parts": {"a": {"step": 3, "colour": 1}}}',
            Memory(parts={"a": Part(3, Colour.BLUE)}, word="start"),
            id="a-part",
        ),
        pytest.param('{"steps": [], "word": ""}', Memory(), id="empty-ones"),
        pytest.param('{"points": [[1, 2, "a"]]}', Memory(points=((1, 2, "a"),), word="start"), id="a-point"),
        pytest.param('{"series": {"a": [1, 2.5]}}', Memory(series={"a": (1, 2.5)}, word="start"), id="a-series"),
    ],
)
def test_a_state_of_the_right_types_is_taken(text: str, state: Memory | None) -> None:
    loaded = Counts().load(text)
    assert loaded == state if state is not None else loaded.level != loaded.level


def test_a_state_whose_types_only_a_type_checker_knows_is_taken_as_it_is() -> None:
    @dataclass(frozen=True)
    class Strange:
        when: NoSuchType = 0  # type: ignore[name-defined]  # noqa: F821  an import for type checkers only

    class Waits(Counts):
        def start(self) -> Any:
            return Strange()

    assert Waits().load('{"when": 3}') == Strange(when=3)


def test_a_state_of_fewer_fields_keeps_the_defaults_of_the_others() -> None:
    assert Counts().load('{"count": 7}') == Memory(count=7, word="start")


def test_checked_by_itself_it_sees_one_step() -> None:
    window = RuleCase("one loss", {"Loss_output_0": {0: 1.0, 1: 1.0}}).window
    assert list(Counts().check(window)) == []
    assert [finding.observed for finding in Counts(limit=1).check(window)] == [1]


def test_the_suspicions_are_the_likely_causes() -> None:
    window = RuleCase("one loss", {"Loss_output_0": {0: 1.0}}).window
    assert Counts().suspicions((), window) == (Suspicion(Cause.STALLED), Suspicion(Cause.CONVERGED))


@pytest.mark.parametrize(
    ("preset", "texts", "expected"),
    [
        pytest.param(CALIBRATED, {}, 2, id="ours"),
        pytest.param(AWS_DOCS, {}, 2, id="the-docs-have-the-class's-own"),
        pytest.param(AWS_SDK, {}, 20, id="the-sdk-has-another"),
        pytest.param(AWS_SDK, {"limit": "7"}, 7, id="what-the-user-says-counts"),
    ],
)
def test_defaults_follow_the_preset(preset: str, texts: dict[str, str], expected: int) -> None:
    rule: Any = Counts.from_parameters(texts, preset=preset)
    assert rule.limit == expected
    described = Counts.describe(preset)
    assert described.parameters[0].default == (20 if preset == AWS_SDK else 2)


def test_every_wrong_parameter_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Counts.from_parameters({"limit": "100", "nmae": "x"}, preset=AWS_SDK)
    assert [str(problem) for problem in raised.value.problems] == [
        "counts.limit: must be at most 99, but is '100'.",
        "counts: Unknown parameter 'nmae'. Did you mean 'name'?",
    ]


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        pytest.param(Counts, True, id="a-rule"),
        pytest.param(FoldingRule, False, id="abstract"),
        pytest.param(Counts(), False, id="an-instance"),
        pytest.param(list[float], False, id="a-generic"),
        pytest.param(int, False, id="a-class"),
    ],
)
def test_what_is_a_rule(member: object, expected: bool) -> None:
    assert is_rule(member) is expected


MLP = (ModuleFacts("a", "Linear", "linear"), ModuleFacts("b", "Sigmoid", "activation", activation="sigmoid"))
BERT = (
    ModuleFacts("a", "GELUActivation", "activation", activation="gelu"),
    ModuleFacts("b", "LayerNorm", "normalization"),
)
TREES, SKLEARN, TORCH = (
    ModelFacts(program=ProgramFacts(framework=name)) for name in ("lightgbm", "scikit-learn", "pytorch")
)
CLIPS = ProgramFacts(observed={CLIPPINGS: (ClippingFacts("norm", 1.0, "train.py:9"),)})


@pytest.mark.parametrize(
    ("rule", "facts", "word", "advised"),
    [
        pytest.param(VanishingGradient(), ModelFacts(modules=BERT), "LayerNorm", False, id="it is normalised"),
        pytest.param(VanishingGradient(), ModelFacts(modules=BERT), "GELU", False, id="it has no sigmoid"),
        pytest.param(VanishingGradient(), ModelFacts(modules=BERT), "Initialise", True, id="what is left"),
        pytest.param(VanishingGradient(), ModelFacts(modules=MLP), "LayerNorm", True, id="it is not normalised"),
        pytest.param(VanishingGradient(), ModelFacts(modules=MLP), "GELU", True, id="it has a sigmoid"),
        pytest.param(VanishingGradient(), None, "GELU", True, id="nothing is known"),
        pytest.param(ExplodingGradient(), ModelFacts(modules=MLP, program=CLIPS), "Clip", False, id="it clips"),
        pytest.param(ExplodingGradient(), ModelFacts(modules=MLP), "Clip", True, id="it does not clip"),
        pytest.param(LossSpike(), TREES, "Clip", False, id="trees have no gradients to clip"),
        pytest.param(LossSpike(), TORCH, "Clip", True, id="a loop that does not clip"),
        pytest.param(Overfit(), TREES, "Of trees", True, id="trees"),
        pytest.param(Overfit(), TREES, "dropout", False, id="trees have no dropout"),
        pytest.param(Overfit(), TORCH, "Of trees", False, id="no trees"),
        pytest.param(Overfit(), TORCH, "dropout", True, id="a network"),
        pytest.param(Overfit(), None, "Of trees", False, id="nothing is known of trees"),
        pytest.param(LossNotDecreasing(), SKLEARN, "backward", False, id="an estimator has no backward"),
        pytest.param(LossNotDecreasing(), TORCH, "backward", True, id="a loop by hand has"),
        pytest.param(LossNotDecreasing(), SKLEARN, "learning rate", True, id="an estimator has a rate"),
        pytest.param(LossSpike(), ModelFacts(modules=MLP, program=CLIPS), "learning rate", True, id="more helps"),
    ],
)
def test_advice_fits_the_program(rule: Rule, facts: ModelFacts | None, word: str, advised: bool) -> None:
    assert any(word in text for text in rule.advice(facts)) is advised
