"""Several actions for one event: one that fails hides none after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from lambdas.shared.decisions import Done, Nothing

T = TypeVar("T")


def each(things: Iterable[T], act: Callable[[T], Iterable[Done | Nothing]]) -> Iterator[Done | Nothing]:
    """Yield the answers of `act` for each.

    Errors: the first of `act`'s, once all were tried. The message then comes again, and finished actions are not
    repeated.
    """
    failed: list[Exception] = []
    yield from each_of(things, act, failed)
    if failed:
        raise failed[0]


def each_of(
    things: Iterable[T], act: Callable[[T], Iterable[Done | Nothing]], failed: list[Exception]
) -> Iterator[Done | Nothing]:
    """Yield the answers of `act` for each, and put errors into `failed`, for the caller to raise later."""
    for thing in things:
        try:
            yield from act(thing)
        except Exception as error:  # noqa: BLE001 - the owner of the list raises it
            failed.append(error)
