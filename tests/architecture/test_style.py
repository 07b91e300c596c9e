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


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("def judge(pending_step): return pending_step", [], id="plain"),
        pytest.param("there = 1", ["'there' in 'there'"], id="variable"),
        pytest.param("def f(told): ...", ["'told' in 'told'"], id="argument"),
        pytest.param("f = lambda said: 1", ["'said' in 'said'"], id="argument of a lambda"),
        pytest.param("def give_last_words(): ...", ["'last_words' in 'give_last_words'"], id="two words"),
        pytest.param("last_word = words[-1]", ["'last_word' in 'last_word'"], id="one of them"),
        pytest.param("class OwnerTold: ...", ["'told' in 'OwnerTold'"], id="class"),
        pytest.param("WHO_ASKS = 1", ["'asks' in 'WHO_ASKS'"], id="constant"),
        pytest.param("self._hops = ()", ["'hops' in '_hops'"], id="attribute"),
        pytest.param("import numpy as whose", ["'whose' in 'whose'"], id="import"),
        pytest.param("for hop, step in path: ...", ["'hop' in 'hop'"], id="loop"),
        pytest.param("if (asked := f()): ...", ["'asked' in 'asked'"], id="walrus"),
        pytest.param("here.there", [], id="read, not defined: may be another package's"),
        pytest.param("f(there=1)", [], id="keyword of another's function"),
        pytest.param(
            "asking_price, therefore, shop, heart_rate, task, saying = 1, 2, 3, 4, 5, 6",
            ["asking", "saying"],
            id="parts",
        ),
        pytest.param("is_asked_for = True", [], id="allowed"),
        pytest.param("was_asked_for = True", ["'asked' in 'was_asked_for'"], id="like an allowed one"),
    ],
)
def test_names(source: str, found: list[str]) -> None:
    assert [each.kind for each in style.check_source(source, module="trackside.x", is_public=False)] == ["name"] * len(
        found
    )
    texts = [each.text for each in style.check_source(source, module="trackside.x", is_public=False)]
    assert all(part in text for part, text in zip(found, texts, strict=True))


@pytest.mark.parametrize(
    ("module", "is_found"),
    [
        pytest.param("lambdas.stop_training.whose", True, id="module"),
        pytest.param("trackside.hops.journal", True, id="package"),
        pytest.param("trackside.evaluation.worker_lease", False, id="plain"),
        pytest.param("trackside.testing.telling_apart", True, id="part of it"),
    ],
)
def test_names_of_modules(module: str, is_found: bool) -> None:
    assert [each.kind for each in style.check_source("", module=module, is_public=False)][:1] == ["name"] * is_found


def test_allowed_names_have_a_reason_and_are_needed() -> None:
    defined = {
        name for source in style.SOURCES for path in (ROOT / source).rglob("*.py") for name in style.names_of(path)
    }
    assert all(style.ALLOWED_NAMES.values())
    assert set(style.ALLOWED_NAMES) <= defined


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
    assert {"trackside.rules.rule", "trackside.views.drawn_trial", "trackside.contracts.errors"} <= public
