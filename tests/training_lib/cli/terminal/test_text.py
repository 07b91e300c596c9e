from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.cli.terminal.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("gradient/MLP_layers.0.weight", "gradient/MLP_layers.0.weight", id="a-name"),
        pytest.param("größe ≥ 3 →", "größe ≥ 3 →", id="letters-and-signs-of-any-language"),
        pytest.param("[bold]x[/bold]", "[bold]x[/bold]", id="markup-is-text"),
        pytest.param("a\x1b[31mred", "a\\x1b[31mred", id="escape-sequence"),
        pytest.param("a\rb\x07\x08", "a\\rb\\x07\\x08", id="control"),
        pytest.param("a\nb", "a b", id="newline"),
        pytest.param("a\u202eb", "a\\u202eb", id="right-to-left-override"),
        pytest.param("a\x9b31m", "a\\x9b31m", id="c1-control"),
        pytest.param("a\udcff", "a\\udcff", id="lone-surrogate"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_what_the_encoding_cannot_say_is_an_escape() -> None:
    assert printable("größe →", encoding="ascii") == "gr\\xf6\\xdfe \\u2192"


@given(st.text(), st.sampled_from(["utf-8", "ascii", "latin-1", "cp1252"]))
def test_any_text_can_be_printed_and_obeys_nothing(text: str, encoding: str) -> None:
    shown = printable(text, encoding=encoding)
    shown.encode(encoding)
    assert not any(unicodedata.category(character).startswith("C") for character in shown)
