from __future__ import annotations

import pytest

from trackside.contracts.errors import ConfigurationError
from trackside.trial.steps.selection import StepRange, parse_mode, parse_regex

Steps = StepRange | slice | range | int | str | None


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(None, range(30), id="none-is-all"),
        pytest.param("20", [20], id="one"),
        pytest.param(20, [20], id="one-number"),
        pytest.param("10:20:5", [10, 15], id="text-end-left-out"),
        pytest.param("25:", range(25, 30), id="open-end"),
        pytest.param(":3", range(3), id="open-start"),
        pytest.param("::10", [0, 10, 20], id="stride-alone"),
        pytest.param(range(10, 20, 5), [10, 15], id="range"),
        pytest.param(slice(None, 4, 2), [0, 2], id="slice"),
        pytest.param("20:10", [], id="empty"),
        pytest.param(StepRange(28), [28, 29], id="itself"),
    ],
)
def test_steps(steps: Steps, expected: range | list[int]) -> None:
    chosen = StepRange.of(steps)
    assert [step for step in range(30) if step in chosen] == list(expected)


@pytest.mark.parametrize(
    "steps", ["", "x", "-5", "1:2:3:4", "1:2:0", "1.5", -1, True, slice(-3, None), range(9, 0, -1)]
)
def test_what_names_no_steps_is_refused_with_an_example(steps: Steps) -> None:
    with pytest.raises(ConfigurationError, match="10:200:10"):
        StepRange.of(steps)


def test_modes_are_written_as_one_likes() -> None:
    assert (parse_mode("train"), parse_mode("EVAL"), parse_mode(None)) == ("TRAIN", "EVAL", None)
    with pytest.raises(ConfigurationError, match="TRAIN, EVAL"):
        parse_mode("training")


def test_a_broken_regex_says_where() -> None:
    assert parse_regex("a.c").search("abc")
    with pytest.raises(ConfigurationError, match="position 0"):
        parse_regex("*")
