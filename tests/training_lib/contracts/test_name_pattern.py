"""Patterns for names: the answers of `re`, in a bounded time."""

from __future__ import annotations

import re
import time
import warnings

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trackside.contracts.name_pattern import MOST_VISITS, NamePattern, PatternRefusedError, name_pattern, problem_of

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
        pytest.param(r"(?:a|b*)*?c|(?:\b|a){2,3}b", id="empty repetitions"),
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


# From the literature: Crosby 2003; OWASP; Davis et al., "The impact of regular expression denial of service", 2018.
@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        pytest.param(r"(a+)+!$", "a" * 40, id="a repeat in a repeat"),
        pytest.param(r"^([a-zA-Z]+)*$", "a" * 60 + "!", id="a set"),
        pytest.param(r"(a|aa)+$", "a" * 60 + "!", id="alternatives that overlap"),
        pytest.param(r"(a|a?)+b$", "a" * 60 + "!", id="alternatives, one of them optional"),
        pytest.param(r"(.*a){20}b", "a" * 60, id="a counted repeat"),
        pytest.param("a?" * 40 + "a" * 40 + "b", "a" * 60, id="optional letters"),
        pytest.param(f"^{'(a|a)' * 40}b", "a" * 60, id="alternatives without a repeat"),
        pytest.param(r"(x+x+)+y", "x" * 200, id="two repeats in a repeat"),
        pytest.param(r".*.*.*.*.*=", "x" * 500, id="a polynomial"),
        pytest.param(r"(?=(a+)+$)b", "a" * 60 + "!", id="in a lookahead"),
        pytest.param(r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60, id="OWASP: Java class name"),
        pytest.param(
            r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}", "a" * 60 + "!", id="OWASP: address"
        ),
    ],
)
def test_a_catastrophic_pattern_is_not_left_to_re(pattern: str, name: str) -> None:
    compiled = NamePattern(pattern)
    assert compiled.longest_for_backtracking < len(name)
    assert not compiled.search(name)


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


@pytest.mark.parametrize(
    ("pattern", "letter"),
    [
        pytest.param(r"[^x]*[^x]*y", "a", id="two repeats"),
        pytest.param(r".*.*.*y", "a", id="three repeats"),
        pytest.param("a?" * 12 + "b", "a", id="optional letters"),
        pytest.param(f"^{'(?:a|a)' * 20}b", "a", id="alternatives"),
        pytest.param(r"(?:(?:ab)*(?:ab)*)y|(?:\w\w)*(?:\w\w)*y", "ab", id="longer bodies"),
    ],
)
def test_the_bound_holds_where_re_is_trusted(pattern: str, letter: str) -> None:
    """`MOST_VISITS` are some 50 ms; a wrong bound would be orders of magnitude off."""
    compiled = NamePattern(pattern)
    longest = compiled.longest_for_backtracking
    began = time.process_time()
    assert not compiled.search((letter * longest)[:longest])
    assert time.process_time() - began < MOST_VISITS * 200e-9


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        pytest.param(r"(conv)\1", r"is refused: back-references (\1) need", id="back-reference"),
        pytest.param(r"(?P<x>a)(?P=x)", "is refused: back-references", id="named back-reference"),
        pytest.param(r"(a)?(?(1)b|c)", "is refused: conditions", id="condition"),
        pytest.param("(" * 60 + ")" * 60, "is refused: its groups are nested", id="deep"),
        pytest.param("(" * 4000 + ")" * 4000, "is refused: its groups are nested", id="deeper than the stack"),
        pytest.param("a{99999999999}", "is refused: a number in it is too large", id="too large a number"),
        pytest.param("((a{100}){100}){100}", "is refused: with its repeats written out", id="too many parts"),
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
