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
            [f"{JOB[:57]}  InProgress  dead-relu", JOB[57:]],
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


RUN = "20261122-075818-healthy-580-with-a-long-name-of-its-script-5806"


@pytest.mark.parametrize(
    ("cells", "lines"),
    [
        pytest.param((RUN[:28], "failed", "none"), [f"{RUN[:28]}  failed  none"], id="room"),
        pytest.param((RUN, "failed", "2 (warning)"), [RUN, "  failed  2 (warning)"], id="no-room"),
        pytest.param((RUN * 2, "failed", "none"), [RUN * 2, "  failed  none"], id="wider-than-the-terminal"),
    ],
)
def test_a_name_that_users_copy_is_never_broken(cells: tuple[str, ...], lines: list[str]) -> None:
    found = columns(Console(width=80), [[Text(cell) for cell in cells]], whole=0)
    assert [line.plain for line in found] == lines
