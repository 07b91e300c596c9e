from __future__ import annotations

import pytest

from trackside.contracts.english import every, ordinal


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0th"), (1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"),
     (21, "21st"), (22, "22nd"), (101, "101st"), (111, "111th"), (1003, "1,003rd")],
)  # fmt: skip
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


@pytest.mark.parametrize(("number", "text"), [(1, "every"), (2, "every 2nd"), (8, "every 8th")])
def test_intervals(number: int, text: str) -> None:
    assert every(number) == text
