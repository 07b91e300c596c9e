"""`docs/explicit-api.md`: its attributes are those of the hook, and each sample's test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from smdebug import not_offered

from tests.smdebug.test_names import HOOK_ATTRIBUTES

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "explicit-api.md").read_text("utf-8")
NAMED = re.findall(r"`([\w/]+/test_\w+\.py)::(test_\w+)`", PAGE)
(TABLE,) = re.findall(r"What a hook tells of itself:\n\n(.*?)\n\n", PAGE, re.DOTALL)
CELLS = " ".join(line.split(" | ")[0] for line in TABLE.splitlines()[2:])


@pytest.mark.parametrize(("file", "name"), [pytest.param(*named, id=named[1]) for named in NAMED])
def test_the_test_of_a_sample_exists(file: str, name: str) -> None:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_the_samples_of_both_articles() -> None:
    assert len(NAMED) >= 7


@pytest.mark.parametrize("name", re.findall(r"`(\w+)`", CELLS))
def test_an_attribute_of_the_page_is_offered(name: str) -> None:
    assert name in HOOK_ATTRIBUTES
    assert not_offered.reason_for_attribute(name) is None
