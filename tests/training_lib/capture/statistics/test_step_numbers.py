"""Numbers of every step: declared once, sampled at each, explained to users."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackside.capture.statistics.step_numbers import STEP_NUMBERS, StepNumbers

PAGE = Path(__file__).resolve().parents[4] / "docs" / "always-on-statistics.md"


def test_each_is_declared_once_and_says_what_it_is() -> None:
    keys = [number.key for number in STEP_NUMBERS]
    assert len(set(keys)) == len(keys)
    assert all(number.meaning for number in STEP_NUMBERS)


@pytest.mark.parametrize("name", sorted({number.name for number in STEP_NUMBERS}))
def test_the_page_names_it(name: str) -> None:
    further = name.rpartition("_")[2].isdigit() and not name.endswith("_1")  # "and so on"
    is_named = f"`{name}`" in PAGE.read_text(encoding="utf-8")
    assert further or is_named, f"write a row for `{name}` in docs/{PAGE.name}"


def test_a_sample_begins_the_numbers_of_the_next_step() -> None:
    numbers = StepNumbers()
    numbers.added["a", "mean"] = 1.0
    assert numbers.sample()["a", "mean"] == 1.0
    assert ("a", "mean") not in numbers.sample()
