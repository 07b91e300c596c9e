"""Patterns for names: the answers of `re`, in a bounded time."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trackside.contracts import name_pattern as bounds
from trackside.contracts.name_pattern import NamePattern, PatternRefusedError, name_pattern, problem_of

NAMES = (
    "",
    "weight",
    "conv1.weight",
    "gradient/conv1.weight",
    "Loss_output_0",
    "loss_input_0",
    "model.layers.11.self_attn.q_proj.weight",
    "model.layers.11.mlp.bias\nrelu",
    "CONV1_relu_output_12",
    "aab ab 7_7 ß É é",
)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("", id="empty"),
        pytest.param("relu_output", id="plain text"),
        pytest.param(r"^(?!gradient).*weight", id="smdebug's weights"),
        pytest.param(r"[Ll]oss_(?!input).*output", id="smdebug's losses"),
        pytest.param(r"model\.layers\.\d+\.(self_attn|mlp)\..*(weight|bias)$", id="a layer of a transformer"),
        pytest.param(r".*layers.*self.*proj.*weight", id="four repeats"),
        pytest.param(r"(?i)conv\d+(?-i:_relu)+", id="letters of any case, in a part"),
        pytest.param(r"(?i)é É", id="no ASCII"),
        pytest.param(r"(?a:\w) \w", id="ASCII in a part"),
        pytest.param(r"(?m)^relu$|^x$", id="lines"),
        pytest.param(r"(?s)bias.relu", id="a point that takes a line's end"),
        pytest.param(r"\Aweight\Z|\bab\b|\Bv1", id="anchors"),
        pytest.param(r"(?<=conv1\.)w(?=ei(?!x))", id="lookarounds in lookarounds"),
        pytest.param(r"(?<!conv1\.)weight", id="not behind"),
        pytest.param(r"(?:a|b?)*?c|(?:\b|a){2,3}b", id="empty repetitions"),
        pytest.param(r"(?:a{0,2}b?){2}\s(?:7_?){1,}7*", id="counted repeats"),
        pytest.param(r"[^\W\d_]{4,}\d|[]x-z-]q", id="sets"),
        pytest.param(r"(?!)|zzz", id="never"),
        pytest.param(r"(?x) conv \d  # a comment", id="verbose"),
        pytest.param(r"(?P<layer>conv)(\d)", id="named groups"),
    ],
)
def test_both_ways_of_search_find_the_names_that_re_finds(pattern: str) -> None:
    compiled, found = NamePattern(pattern), [name for name in NAMES if re.search(pattern, name)]
    assert [name for name in NAMES if compiled.search(name)] == found
    assert [name for name in NAMES if compiled.automaton.search(name)] == found


def test_the_automaton_answers_as_cpythons_own_tests_of_re_say() -> None:
    """The regression tests of CPython's `re`, written by its authors."""
    cases = pytest.importorskip("test.re_tests", reason="this Python is installed without its tests").tests
    judged, refused = 0, []
    for pattern, text, *_ in cases:
        if not isinstance(pattern, str):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                is_found = re.search(pattern, text) is not None
            except re.error:
                continue
            try:
                compiled = NamePattern(pattern)
            except PatternRefusedError:
                refused.append(pattern)
                continue
        judged += 1
        assert (compiled.search(text), compiled.automaton.search(text)) == (is_found, is_found), (pattern, text)
    assert judged > 300
    assert all("\\" in pattern or "(?P=" in pattern for pattern in refused)  # back-references, no others


_ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "(?=a)", "(?!b)", "(?<=a)", "(?<!ab)", ""]
)
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{0,2}?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        inner.map(lambda one: f"(?={one})"),
        inner.map(lambda one: f"(?!{one})"),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(_PATTERNS, st.text("ab\n", max_size=7))
def test_the_automaton_answers_as_re_does(pattern: str, name: str) -> None:
    assume("{" not in pattern or pattern.count("{") < 3)  # `re` itself would be slow
    assert NamePattern(pattern).automaton.search(name) == (re.search(pattern, name) is not None)


# Patterns of names as people write them. What is tested is the bound, made small, and never a pattern that hangs.
MANY_CHOICES = [
    pytest.param(r".*conv\d+_output", id="two repeats"),
    pytest.param(r".*layers.*self.*proj.*weight", id="four repeats"),
    pytest.param(r"^(?:conv|fc|norm)\.(?:weight|bias)\.(?:max|min)$", id="alternatives"),
    pytest.param(r"\d{0,8}_\d{0,8}_output", id="counted repeats"),
    pytest.param(r"(?=.*weight).*output", id="in a lookahead"),
    pytest.param(r"(?:layers\.\d,?){3}weight", id="optional letters"),
]
FEW_VISITS, MANY_VISITS = 50, 10**11


@pytest.mark.parametrize("pattern", MANY_CHOICES)
def test_a_name_beyond_the_bound_is_not_left_to_re(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_VISITS", FEW_VISITS)
    beyond = NamePattern(pattern)
    assert beyond.longest_for_backtracking == 0
    assert not beyond.search("model.layers.11.self_attn.q_proj.bias")
    assert "automaton" in vars(beyond), "it was made, and searched with"
    monkeypatch.setattr(bounds, "MOST_VISITS", MANY_VISITS)
    within = NamePattern(pattern)
    assert not within.search("model.layers.11.self_attn.q_proj.bias")
    assert "automaton" not in vars(within)


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        pytest.param("relu_output", 4096, id="plain text"),
        pytest.param(r"^(?!gradient).*weight", 4096, id="smdebug's weights"),
        pytest.param(r".*conv\d+_output", 64, id="two repeats"),
        pytest.param(r"(weight|bias)$", 4096, id="alternatives"),
    ],
)
def test_usual_patterns_are_left_to_re(pattern: str, length: int) -> None:
    assert NamePattern(pattern).longest_for_backtracking >= length


class Visits:
    """A backtracking search of our own that counts the items it visits, and tries all choices as for a failed match."""

    def __init__(self, name: str, most: int) -> None:
        self.name, self.most, self.count = name, most, 0

    def of(self, pattern: NamePattern) -> int:
        """Return the visits from each place of the name; counting ends beyond `most`."""
        tree = list(pattern._tree)
        for start in range(len(self.name) + 1):
            for _ in self._sequence(tree, start):
                if self.count > self.most:
                    return self.count
        return self.count

    def _sequence(self, items: list[Any], place: int) -> Iterator[int]:
        if not items:
            yield place
            return
        for after in self._item(items[0], place):
            yield from self._sequence(items[1:], after)

    def _item(self, item: tuple[Any, Any], place: int) -> Iterator[int]:
        self.count += 1
        name, arguments = str(item[0]), item[1]
        if self.count > self.most:
            return
        if name in {"MAX_REPEAT", "MIN_REPEAT"}:
            yield from self._repeat(arguments[0], arguments[1], list(arguments[2]), place)
        elif name == "BRANCH":
            for branch in arguments[1]:
                yield from self._sequence(list(branch), place)
        elif name == "SUBPATTERN":
            yield from self._sequence(list(arguments[3]), place)
        elif name in {"ASSERT", "ASSERT_NOT"}:
            direction, inner = arguments
            begin = place - (inner.getwidth()[0] if direction < 0 else 0)
            holds = begin >= 0 and any(True for _ in self._sequence(list(inner), begin))
            yield from (place,) if holds is (name == "ASSERT") else ()
        else:
            found = bounds._compiled([item], 0).match(self.name, place)
            yield from (found.end(),) if found else ()

    def _repeat(self, least: int, most: Any, body: list[Any], place: int) -> Iterator[int]:
        if least <= 0:
            yield place
        if most > 0:
            for after in self._sequence(body, place):
                if after > place or least > 0:  # `re` repeats nothing but what takes a letter
                    yield from self._repeat(least - 1, most - 1, body, after)


@settings(max_examples=300, deadline=None)
@given(_PATTERNS, st.text("ab\n", max_size=7))
def test_the_bound_is_never_below_the_visits_of_a_backtracking_search(pattern: str, name: str) -> None:
    compiled = NamePattern(pattern)
    bound = compiled.most_visits(len(name))
    assert Visits(name, min(bound, 50_000)).of(compiled) <= bound


@pytest.mark.parametrize("pattern", MANY_CHOICES)
@pytest.mark.parametrize("name", ["layers.1,layers.2,layers.3,weight", "11111_11111_", "conv.weight.max_output"])
def test_the_bound_holds_for_patterns_of_names(pattern: str, name: str) -> None:
    compiled = NamePattern(pattern)
    bound = compiled.most_visits(len(name))
    assert Visits(name, min(bound, 50_000)).of(compiled) <= bound


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        pytest.param(r"(conv)\1", r"is refused: back-references (\1) need", id="back-reference"),
        pytest.param(r"(?P<x>a)(?P=x)", "is refused: back-references", id="named back-reference"),
        pytest.param(r"(a)?(?(1)b|c)", "is refused: conditions", id="condition"),
        pytest.param("(" * 60 + ")" * 60, "is refused: its groups are nested", id="deep"),
        pytest.param("(" * 1000 + ")" * 1000, "is refused: its groups are nested", id="deeper than Python recurses"),
        pytest.param("a{99999999999}", "is refused: a number in it is too large", id="too large a number"),
        pytest.param("(?:conv){2001}", "is refused: with its repeats written out", id="too many parts"),
        pytest.param("(?:){60000}" * 3, "is refused: with its repeats written out", id="nothing, often"),
        pytest.param("a" * 10_001, "is refused: it has 10001 characters", id="long"),
        pytest.param("(", "is no regular expression: missing )", id="a bracket"),
        pytest.param("*", "is no regular expression: nothing to repeat", id="nothing to repeat"),
    ],
)
def test_what_has_no_bound_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(re.error) as caught:
        name_pattern(pattern)
    assert problem_of(caught.value).startswith(problem)


def test_a_long_list_of_names_is_a_pattern() -> None:
    names = [f"encoder.layer.{number}.attention.weight" for number in range(200)]
    pattern = name_pattern("|".join(map(re.escape, names)))
    assert pattern.search(names[-1])
    assert not pattern.search("encoder.layer.200.attention.weight")
