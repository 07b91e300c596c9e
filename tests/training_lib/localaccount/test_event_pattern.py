"""Tables after the AWS documentation (see the module), and properties."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside_localaccount.event_pattern import PatternError, check_pattern, matches


def _row(name: str, pattern: dict[str, Any], event: dict[str, Any]) -> Any:
    return pytest.param(pattern, event, id=name)


FIRES = [
    _row("exact text", {"a": ["x", "y"]}, {"a": "y"}),
    _row("every field of the pattern", {"a": ["x"], "b": {"c": [1]}}, {"a": "x", "b": {"c": 1}, "more": 0}),
    _row("one element of a list", {"a": ["x"]}, {"a": ["w", "x"]}),
    _row("number", {"a": [300]}, {"a": 300}),
    _row("number, with and without a fraction", {"a": [300]}, {"a": 300.0}),
    _row("a dot in the pattern's key", {"d": {"s.t": ["x"]}}, {"d": {"s": {"t": "x"}}}),
    _row("a dot in the event's key", {"d": {"s": {"t": ["x"]}}}, {"d": {"s.t": "x", "s": {"u": 1}}}),
    _row("true", {"a": [True]}, {"a": True}),
    _row("null", {"a": [None]}, {"a": None}),
    _row("empty text", {"a": [""]}, {"a": ""}),
    _row("prefix", {"a": [{"prefix": "us-"}]}, {"a": "us-east-1"}),
    _row("prefix, any case", {"a": [{"prefix": {"equals-ignore-case": "EventB"}}]}, {"a": "EVENTBridge"}),
    _row("suffix", {"a": [{"suffix": ".png"}]}, {"a": "cat.png"}),
    _row("suffix, any case", {"a": [{"suffix": {"equals-ignore-case": ".PNG"}}]}, {"a": "cat.png"}),
    _row("equals, any case", {"a": [{"equals-ignore-case": "alice"}]}, {"a": "ALICE"}),
    _row("wildcard", {"a": [{"wildcard": "dir/*/*.png"}]}, {"a": "dir/x/y/z.png"}),
    _row("wildcard takes nothing", {"a": [{"wildcard": "dir*"}]}, {"a": "dir"}),
    _row("wildcard, a star itself", {"a": [{"wildcard": r"a\*b*"}]}, {"a": "a*bc"}),
    _row("wildcard, a backslash itself", {"a": [{"wildcard": r"a\\*"}]}, {"a": "a\\b"}),
    _row("wildcard across lines", {"a": [{"wildcard": "a*z"}]}, {"a": "a\nz"}),
    _row("wildcard, dots are dots", {"a": [{"wildcard": "a.c*"}]}, {"a": "a.cd"}),
    _row("anything but text", {"a": [{"anything-but": "x"}]}, {"a": "y"}),
    _row("anything but a list", {"a": [{"anything-but": ["x", "y"]}]}, {"a": "z"}),
    _row("anything but numbers", {"a": [{"anything-but": [1, 2]}]}, {"a": 3}),
    _row("anything but a prefix", {"a": [{"anything-but": {"prefix": "init"}}]}, {"a": "stopped"}),
    _row("anything but prefixes", {"a": [{"anything-but": {"prefix": ["init", "err"]}}]}, {"a": "stopped"}),
    _row("anything but a suffix", {"a": [{"anything-but": {"suffix": ".txt"}}]}, {"a": "a.png"}),
    _row("anything but any case", {"a": [{"anything-but": {"equals-ignore-case": ["x"]}}]}, {"a": "y"}),
    _row("anything but a wildcard", {"a": [{"anything-but": {"wildcard": "*/lib/*"}}]}, {"a": "a/bin/b"}),
    _row("anything but, one of a list", {"a": [{"anything-but": ["x"]}]}, {"a": ["x", "y"]}),
    _row("number equal", {"a": [{"numeric": ["=", 5]}]}, {"a": 5.0}),
    _row("number below", {"a": [{"numeric": ["<", 10]}]}, {"a": 9.99}),
    _row("number in a range", {"a": [{"numeric": [">", 0, "<=", 5]}]}, {"a": 5}),
    _row("exists", {"a": {"b": [{"exists": True}]}}, {"a": {"b": None}}),
    _row("exists not", {"a": {"b": [{"exists": False}]}}, {"a": {}}),
    _row("exists not, parent missing", {"a": {"b": [{"exists": False}]}}, {"c": 1}),
    _row("exists not, an object is no leaf", {"a": [{"exists": False}]}, {"a": {"b": 1}}),
    _row("network", {"a": [{"cidr": "10.0.0.0/24"}]}, {"a": "10.0.0.255"}),
    _row("network, version 6", {"a": [{"cidr": "2001:db8::/32"}]}, {"a": "2001:db8::1"}),
    _row("several matchers", {"a": [{"prefix": "x"}, {"numeric": [">", 3]}, None]}, {"a": 4}),
    _row("or", {"$or": [{"a": [1]}, {"b": [2]}]}, {"b": 2}),
    _row("or and another field", {"s": ["x"], "$or": [{"a": [1]}, {"b": [2]}]}, {"s": "x", "a": 1}),
    _row("or inside", {"d": {"$or": [{"a": [1]}, {"b": {"c": [2]}}]}}, {"d": {"b": {"c": 2}}}),
    _row(
        "a list of objects",
        {"detail": {"DebugRuleEvaluationStatuses": {"RuleEvaluationStatus": ["IssuesFound"]}}},
        {
            "detail": {
                "DebugRuleEvaluationStatuses": [
                    {"RuleEvaluationStatus": "Error"},
                    {"RuleEvaluationStatus": "IssuesFound"},
                ]
            }
        },
    ),
    _row("both fields of one element", {"p": {"a": [1], "b": [2]}}, {"p": [{"a": 1, "b": 3}, {"a": 1, "b": 2}]}),
]

STAYS_SILENT = [
    _row("other text", {"a": ["x"]}, {"a": "X"}),
    _row("absent", {"a": ["x"]}, {"b": "x"}),
    _row("one field does not fit", {"a": ["x"], "b": [2]}, {"a": "x", "b": 3}),
    _row("an empty list", {"a": ["x"]}, {"a": []}),
    _row("true is not 1", {"a": [1]}, {"a": True}),
    _row("1 is not true", {"a": [True]}, {"a": 1}),
    _row("1 is not its text", {"a": ["1"]}, {"a": 1}),
    _row("null is not empty", {"a": [None]}, {"a": ""}),
    _row("null is not absent", {"a": [None]}, {}),
    _row("an object", {"a": ["x"]}, {"a": {"x": "x"}}),
    _row("prefix elsewhere", {"a": [{"prefix": "east"}]}, {"a": "us-east-1"}),
    _row("prefix of a number", {"a": [{"prefix": "1"}]}, {"a": 12}),
    _row("prefix, other case", {"a": [{"prefix": "US-"}]}, {"a": "us-east-1"}),
    _row("suffix elsewhere", {"a": [{"suffix": ".png"}]}, {"a": "cat.png.gz"}),
    _row("equals, any case, of a part", {"a": [{"equals-ignore-case": "al"}]}, {"a": "ALICE"}),
    _row("wildcard must cover all", {"a": [{"wildcard": "dir/*.png"}]}, {"a": "dir/x.png.gz"}),
    _row("wildcard, a star itself", {"a": [{"wildcard": r"a\*b"}]}, {"a": "axb"}),
    _row("wildcard, dots are dots", {"a": [{"wildcard": "a.c*"}]}, {"a": "abcd"}),
    _row("anything but text", {"a": [{"anything-but": "x"}]}, {"a": "x"}),
    _row("anything but a list", {"a": [{"anything-but": ["x", "y"]}]}, {"a": "y"}),
    _row("anything but, absent", {"a": [{"anything-but": ["x"]}]}, {}),
    _row("anything but a prefix", {"a": [{"anything-but": {"prefix": "init"}}]}, {"a": "initializing"}),
    _row("anything but prefixes", {"a": [{"anything-but": {"prefix": ["init", "err"]}}]}, {"a": "error"}),
    _row("anything but a suffix", {"a": [{"anything-but": {"suffix": ".txt"}}]}, {"a": "a.txt"}),
    _row("anything but any case", {"a": [{"anything-but": {"equals-ignore-case": ["x"]}}]}, {"a": "X"}),
    _row("anything but a wildcard", {"a": [{"anything-but": {"wildcard": "*/lib/*"}}]}, {"a": "a/lib/b"}),
    _row("number at an open end", {"a": [{"numeric": [">", 0, "<", 5]}]}, {"a": 5}),
    _row("number as text", {"a": [{"numeric": [">", 0]}]}, {"a": "5"}),
    _row("true is no number", {"a": [{"numeric": [">=", 0]}]}, {"a": True}),
    _row("exists, absent", {"a": [{"exists": True}]}, {"b": 1}),
    _row("exists, an object is no leaf", {"a": [{"exists": True}]}, {"a": {"b": 1}}),
    _row("exists not, null is there", {"a": [{"exists": False}]}, {"a": None}),
    _row("exists not, in one of a list", {"a": {"b": [{"exists": False}]}}, {"a": [{"b": 1}, {"c": 1}]}),
    _row("network, next one", {"a": [{"cidr": "10.0.0.0/24"}]}, {"a": "10.0.1.0"}),
    _row("network, no address", {"a": [{"cidr": "10.0.0.0/24"}]}, {"a": "here"}),
    _row("or, neither", {"$or": [{"a": [1]}, {"b": [2]}]}, {"a": 2, "b": 1}),
    _row("or, but another field", {"s": ["x"], "$or": [{"a": [1]}, {"b": [2]}]}, {"s": "y", "a": 1}),
    _row("a list of objects, none", {"p": {"a": [1]}}, {"p": [{"a": 2}, {"b": 1}]}),
    _row("fields of different elements", {"p": {"a": [1], "b": [2]}}, {"p": [{"a": 1, "b": 3}, {"a": 4, "b": 2}]}),
    _row("an object where text is", {"a": {"b": [1]}}, {"a": "b"}),
    _row("a dot, and another field", {"a.b": [1]}, {"a": {"c": 1}}),
    _row("a dot at the end of a key", {"a": [1]}, {"a.": 1}),
    _row("a number and its text", {"a": [300]}, {"a": "300"}),
]


@pytest.mark.parametrize(("pattern", "event"), FIRES)
def test_matches(pattern: dict[str, Any], event: dict[str, Any]) -> None:
    check_pattern(pattern)

    assert matches(pattern, event)


@pytest.mark.parametrize(("pattern", "event"), STAYS_SILENT)
def test_does_not_match(pattern: dict[str, Any], event: dict[str, Any]) -> None:
    check_pattern(pattern)

    assert not matches(pattern, event)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        pytest.param({}, "at least one field", id="empty"),
        pytest.param([], "JSON object", id="a list"),
        pytest.param({"a": "x"}, "'a' must be an object or an array", id="bare text"),
        pytest.param({"a": {"b": []}}, "'a.b'", id="empty list, and where"),
        pytest.param({"a": {}}, "Empty objects", id="empty object"),
        pytest.param({"a": [["x"]]}, "Match value", id="list in a list"),
        pytest.param({"a": [{"prefx": "x"}]}, "Unrecognized match type prefx", id="unknown operator"),
        pytest.param({"a": [{"prefix": "x", "suffix": "y"}]}, "Only one key", id="two operators"),
        pytest.param({"a": [{"prefix": 5}]}, "cannot take 5", id="prefix of a number"),
        pytest.param({"a": [{"numeric": ["<"]}]}, "numeric", id="half a range"),
        pytest.param({"a": [{"numeric": ["!", 1]}]}, "numeric", id="unknown sign"),
        pytest.param({"a": [{"numeric": [">", 5, "<", 1]}]}, "numeric", id="empty range"),
        pytest.param({"a": [{"numeric": [">", "5"]}]}, "numeric", id="bound as text"),
        pytest.param({"a": [{"exists": "true"}]}, "exists", id="exists text"),
        pytest.param({"a": [{"cidr": "10.0.0.0/99"}]}, "cidr", id="no network"),
        pytest.param({"a": [{"wildcard": "a**b"}]}, "wildcard", id="two stars in a row"),
        pytest.param({"a": [{"anything-but": []}]}, "anything-but", id="anything but nothing"),
        pytest.param({"a": [{"anything-but": {"numeric": ["=", 1]}}]}, "anything-but", id="anything but a range"),
        pytest.param({"a": [{"anything-but": {"prefix": ""}}]}, "anything-but", id="anything but an empty prefix"),
        pytest.param({"a": [{"anything-but": {"suffix": ["x", ""]}}]}, "anything-but", id="an empty suffix of two"),
        pytest.param(
            {"a": [{"anything-but": {"prefix": {"equals-ignore-case": "x"}}}]}, "anything-but", id="two operators deep"
        ),
        pytest.param({"a": [{"wildcard": "*:*:*:*:*:event-bus/*"}]}, "too complex", id="as the service refused it"),
        pytest.param({"a": [{"wildcard": f"*-{n}-*"} for n in range(5)]}, "too complex", id="five of two asterisks"),
        pytest.param(
            {"d": {"a": [{"anything-but": {"wildcard": ["*aaaaaaaaaaa"]}}]}}, "too complex", id="repeated characters"
        ),
        pytest.param({"$or": [{"a": [1]}]}, "two alternatives", id="or of one"),
        pytest.param({"$or": [{"a": [1]}, {"b": 2}]}, "'b'", id="a mistake inside or"),
    ],
)
def test_refuses_what_eventbridge_refuses(pattern: Any, says: str) -> None:
    with pytest.raises(PatternError, match=says):
        check_pattern(pattern)


_texts = st.text(string.ascii_letters + "*\\/.", max_size=8)
_leaves = st.one_of(_texts, st.integers(-5, 5), st.booleans(), st.none())
_events = st.recursive(_leaves, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3), max_leaves=8)
_objects = st.dictionaries(st.sampled_from("abcd"), _events, min_size=1, max_size=4)


def _exact(event: dict[str, Any]) -> dict[str, Any]:
    """The pattern that asks for each leaf of the event as it is."""
    return {name: _exact(value) if isinstance(value, dict) else [value] for name, value in event.items() if value != {}}


@given(event=_objects)
def test_an_event_matches_the_pattern_made_of_it(event: dict[str, Any]) -> None:
    assert matches(_exact(event), event)


@given(event=_objects, more=_events)
def test_another_field_changes_nothing(event: dict[str, Any], more: Any) -> None:
    assert matches(_exact(event), event | {"unasked": more})


@given(event=_objects, name=st.sampled_from("abcd"), leaf=_leaves)
def test_exists_and_exists_not_are_opposites(event: dict[str, Any], name: str, leaf: Any) -> None:
    assert matches({name: [{"exists": True}]}, event) is not matches({name: [{"exists": False}]}, event)


@given(value=_texts, part=_texts)
def test_a_text_operator_and_anything_but_it_are_opposites(value: str, part: str) -> None:
    for operator in ("prefix", "suffix", "equals-ignore-case"):
        positive = matches({"a": [{operator: part}]}, {"a": value})
        assert positive is not matches({"a": [{"anything-but": {operator: part}}]}, {"a": value})


@given(value=st.text(max_size=10))
def test_a_wildcard_without_stars_is_the_text_itself(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace("*", "\\*")

    assert matches({"a": [{"wildcard": escaped}]}, {"a": value})


@given(elements=st.lists(_objects, min_size=1, max_size=4), pattern=_objects.map(_exact))
def test_a_list_of_objects_matches_as_its_best_element(elements: list[dict[str, Any]], pattern: dict[str, Any]) -> None:
    expected = any(matches({"list": pattern}, {"list": element}) for element in elements) if pattern else True

    assert matches({"list": pattern}, {"list": elements}) is expected
