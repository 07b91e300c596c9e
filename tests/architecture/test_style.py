"""docs/contributing/style.md, as far as `.ci/check_style.py` holds it."""

from __future__ import annotations

import pytest

from tests.architecture.scripts import ROOT, load

style = load("check_style")


def kinds(source: str, *, is_public: bool = False) -> list[str]:
    return [each.kind for each in style.check_source(source, module="trackside.x.y", is_public=is_public)]


def test_nothing_breaks_the_style() -> None:
    assert [f"{each.place}: {each.kind}: {each.text}" for each in style.find_offences(ROOT)] == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param("Return the workers that saved `step`.", [], id="verb and object"),
        pytest.param("The recorded state of a job.", [], id="noun"),
        pytest.param("Return the name `said`.", [], id="a banned word as code"),
        pytest.param("Assemble the pages.", [], id="begins like a banned word"),
        pytest.param("Stores the rows.", ["opening"], id="third person"),
        pytest.param("Pass the rows on.", [], id="a verb that ends with s"),
        pytest.param("Into the log.", ["opening"], id="fragment"),
        pytest.param("What there is of a step.", ["opening", "word"], id="clause and word"),
        pytest.param("None for those who speak.", ["opening", "word"], id="the review's"),
        pytest.param("The last step whose rows are stored.", ["word"], id="whose"),
        pytest.param("Tells how far a worker is.", ["opening", "word"], id="verb of speech"),
    ],
)
def test_first_lines(line: str, found: list[str]) -> None:
    assert kinds(f'def f():\n    """{line}"""\n') == found
    assert kinds(f'def f():\n    """{line}\n\n    As is said below.\n    """\n') == found, "only the first line counts"


ARGUMENTS = '    """Store it.\n\n    Args:\n        key: The key.\n    """\n'


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param(f"def put(key):\n{ARGUMENTS}", [], id="with its section"),
        pytest.param('def put(key):\n    """Store it under `key`."""\n', ["section"], id="without"),
        pytest.param('def put():\n    """Store it."""\n', [], id="nothing to explain"),
        pytest.param('def _put(key):\n    """Store it."""\n', [], id="private"),
        pytest.param('class A:\n    @property\n    def b(self):\n        """The b."""\n', [], id="property"),
        pytest.param('def put():\n    """Store it. Errors: `OSError`."""\n', ["section"], id="Errors for Raises"),
    ],
)
def test_sections_are_for_public_api(source: str, found: list[str]) -> None:
    assert kinds(source, is_public=True) == found
    assert kinds(source) == []


def test_public_modules_are_those_of_the_page_and_of_the_package() -> None:
    public = style.public_modules(ROOT)
    assert {"trackside.rules.rule", "trackside.trial.trial", "trackside.contracts.errors"} <= public
