"""Promises about many things: each is checked, and all that break one are named."""

from __future__ import annotations

import pytest

from tests.for_each import for_each


def test_all_that_break_the_promise_are_named_with_the_reason() -> None:
    seen: list[int] = []

    @for_each({name: (number,) for number, name in enumerate(["zero", "one", "two"])})
    def test_it_is_even(number: int) -> None:
        seen.append(number)
        if number == 2:
            raise KeyError("lost")
        assert number % 2 == 0, "odd"

    with pytest.raises(pytest.fail.Exception) as caught:
        test_it_is_even()
    assert seen == [0, 1, 2]
    text = str(caught.value)
    assert text.startswith("2 of 3: one, two\n")
    assert "AssertionError: odd" in text
    assert "KeyError: 'lost'" in text
    assert __file__ in text, "the place of each"
    assert test_it_is_even.__name__ == "test_it_is_even"


def test_a_kept_promise_is_silent() -> None:
    for_each({"one": (1,)})(lambda number: None)()


def test_a_promise_about_nothing_is_broken() -> None:
    with pytest.raises(AssertionError, match="nothing to check"):
        for_each({})(lambda: None)()
