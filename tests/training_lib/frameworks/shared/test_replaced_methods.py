"""Functions that are replaced for a while, alone and with another library's replacement above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trackside.frameworks.shared.replaced_methods import ReplacedFunction, StepHooks, replace


class Library:
    """A library with one function."""

    def __init__(self) -> None:
        self.kind = type("Kind", (), {"method": lambda self: ["own"]})

    def call(self) -> list[str]:
        return self.kind().method()  # type: ignore[attr-defined, no-any-return]

    def wrap(self, word: str) -> Callable[[], None]:
        before = self.kind.method  # type: ignore[attr-defined]
        self.kind.method = lambda each: [word, *before(each)]  # type: ignore[attr-defined]
        return lambda: setattr(self.kind, "method", before)


def ours(original: Any) -> Any:
    return lambda self: ["ours", *original(self)]


def test_in_and_out_many_times() -> None:
    library = Library()
    hook = ReplacedFunction(library.kind, "method", ours)
    for _ in range(3):
        hook.put_in()
        hook.put_in()
        assert library.call() == ["ours", "own"]
        assert hook.take_out()
        assert hook.take_out()
        assert library.call() == ["own"]


def test_above_one_that_came_while_ours_was_out() -> None:
    library = Library()
    hook = ReplacedFunction(library.kind, "method", ours)
    hook.put_in()
    assert hook.take_out()
    library.wrap("theirs")
    hook.put_in()
    assert library.call() == ["ours", "theirs", "own"]
    assert hook.take_out()
    assert library.call() == ["theirs", "own"]


def test_below_another_it_stays_and_is_never_there_twice() -> None:
    library = Library()
    hook = ReplacedFunction(library.kind, "method", ours)
    hook.put_in()
    unwrap = library.wrap("theirs")
    for _ in range(2):
        assert not hook.take_out()
        hook.put_in()
        assert library.call() == ["theirs", "ours", "own"]
    unwrap()
    assert hook.take_out()
    assert library.call() == ["own"]


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_together(is_wrapped: bool) -> None:
    libraries = [Library(), Library()]
    hooks = StepHooks([ReplacedFunction(each.kind, "method", ours) for each in libraries])
    hooks.put_in()
    if is_wrapped:
        libraries[1].wrap("theirs")
    assert hooks.take_out() is not is_wrapped
    assert libraries[0].call() == ["own"], "one that stays keeps no other in"


def test_replaced_for_good_until_undone() -> None:
    library = Library()
    undo = replace([(library.kind, "method")], ours)
    assert library.call() == ["ours", "own"]
    undo()
    assert library.call() == ["own"]
