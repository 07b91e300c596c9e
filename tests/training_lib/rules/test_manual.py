"""Docstrings become manuals, or say what they lack."""

from __future__ import annotations

import pytest

from trackside.rules.manual import SECTIONS, read_manual
from trackside.rules.rule import Rule

GOOD = """Something is wrong.

    Why it matters:
        It costs.

    How it decides:
        1. Count: this is no heading.
        2. More than `limit` is too many.

    Example:
        ```python
        assert 1 + 1 == 2
        ```

        And in words.

    References:
        - A book.
    """


def rule_with(docstring: str) -> type[Rule]:
    return type("Ruled", (Rule,), {"__doc__": docstring, "what_to_do": ("Less.", "Or more.")})


def test_every_section_is_read() -> None:
    manual = read_manual(rule_with(GOOD))
    assert manual.summary == "Something is wrong."
    headings = [heading for heading, _ in manual.sections]
    assert [heading for heading in headings if heading != "What to do"] == list(SECTIONS)
    assert manual.what_to_do == "1. Less.\n2. Or more."
    assert manual.how_it_decides == "1. Count: this is no heading.\n2. More than `limit` is too many."
    assert manual.code == ("assert 1 + 1 == 2\n",)


@pytest.mark.parametrize(
    ("docstring", "message"),
    [
        pytest.param(GOOD.replace("    References:\n        - A book.\n", ""), "must be", id="a section is missing"),
        pytest.param(GOOD.replace("References:", "What else:"), "What else", id="an unknown section"),
        pytest.param(GOOD.replace("        - A book.\n", ""), "under References", id="an empty section"),
        pytest.param("Only a summary.", "must be", id="no sections at all"),
        pytest.param("", "must be", id="no docstring"),
    ],
)
def test_a_manual_that_lacks_something_is_refused(docstring: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_manual(rule_with(docstring))
