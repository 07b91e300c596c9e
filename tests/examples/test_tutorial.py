"""The tutorial: its commands do what the page shows of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from docs import tutorial


def test_its_commands_print_what_it_shows() -> None:
    page = tutorial.PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:  # a short name: a long one is broken into lines
        now = tutorial.written_again(page, Path(folder))
    assert tutorial.shape(now) == tutorial.shape(page), "python -m docs.tutorial"


PAGE = """<!-- file: a.py -->
```python
print("one", 1)
```
<!-- replace: a.py: "one" by "two" -->
<!-- runs -->
```console
$ python a.py
{output}
```
"""


@pytest.mark.parametrize(
    ("shown", "is_current"),
    [
        pytest.param("two 1", True, id="what-it-prints"),
        pytest.param("two 2", True, id="another-number"),
        pytest.param("one 1", False, id="before-the-change"),
        pytest.param("two 1\nand more", False, id="more"),
    ],
)
def test_a_page_that_shows_something_else_is_out_of_date(tmp_path: Path, shown: str, is_current: bool) -> None:
    now = tutorial.written_again(PAGE.format(output=shown), tmp_path)
    assert now == PAGE.format(output="two 1")
    assert (tutorial.shape(now) == tutorial.shape(PAGE.format(output=shown))) == is_current


def test_of_a_watched_run_the_last_line_counts() -> None:
    shown = "```console\n$ trackside run -- python a.py\nat first\ntrackside: 1 problem\n$ trackside runs\na\n```\n"
    assert tutorial.shape(shown) == tutorial.shape(shown.replace("at first\n", "a card\n\nand another\n"))
    assert tutorial.shape(shown) != tutorial.shape(shown.replace("1 problem", "no issue"))
