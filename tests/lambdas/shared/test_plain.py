"""Nothing from outside may look like a line of ours, or hide one."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambdas.shared.plain import plain


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("gradient/fc1.weight", id="a tensor"),
        pytest.param("Verluste über 3 µ — naïve 学習", id="letters of the world"),
        pytest.param("<b>&amp;*_`[x](y)=1+1", id="marks that mean something to others"),
    ],
)
def test_leaves_what_people_write(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\nWhat: all is well", "a?What: all is well", id="a line of its own"),
        pytest.param("a\r\n\tb", "a???b", id="carriage return and tab"),
        pytest.param("a\x1b[2Kb", "a?[2Kb", id="a terminal's escape"),
        pytest.param("gpj.\u202etxt", "gpj.?txt", id="right to left"),
        pytest.param("a\u2028b\u2029c", "a?b?c", id="unicode's ends of lines and paragraphs"),
        pytest.param("pay\u200bpal\ufeff", "pay?pal?", id="invisible"),
        pytest.param("a\x00b\x7fc\x85d", "a?b?c?d", id="nul, delete, next line"),
        pytest.param("\ud800", "?", id="half a character"),
    ],
)
def test_replaces_what_a_reader_would_not_see(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_is_one_line_of_what_can_be_seen(text: str) -> None:
    shown = plain(text)
    assert len(shown) == len(text)
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert plain(shown) == shown
    shown.encode()
