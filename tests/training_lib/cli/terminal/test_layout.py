"""Columns fit the terminal, whatever stands in them."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.text import Text

from trackside.cli.terminal.layout import columns

JOB = "tuning-digits-with-a-long-name-20261121-0204-017-3f2a9b7c-final"


@pytest.mark.parametrize(
    ("cells", "width", "lines"),
    [
        pytest.param(("digits", "InProgress", "dead-relu"), 80, ["digits  InProgress  dead-relu"], id="short"),
        pytest.param(
            (JOB, "InProgress", "dead-relu"),
            80,
            [f"{JOB[:50]}  InProgress  dead-relu", JOB[50:]],
            id="a long name is folded",
        ),
        pytest.param(
            (JOB, "InProgress", "overfit, dead-relu"),
            200,
            [f"{JOB}  InProgress  overfit, dead-relu"],
            id="where there is room it is not",
        ),
    ],
)
def test_rows(cells: tuple[str, ...], width: int, lines: list[str]) -> None:
    found = columns(Console(width=width), [[Text(cell) for cell in cells]])
    assert [line.plain for line in found] == lines
