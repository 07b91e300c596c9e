"""Several things to do for one event: one that fails hides none after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from lambdas.shared.decisions import Done, Nothing

T = TypeVar("T")


def each(things: Iterable[T], act: Callable[[T], Iterable[Done | Nothing]]) -> Iterator[Done | Nothing]:
    """What `act` answers for each. Errors: the first of `act`'s, once all were tried; the message comes again then, and
    what was done is not done again."""
    failed: list[Exception] = []
    yield from each_of(things, act, failed)
    if failed:
        raise failed[0]


def each_of(
    things: Iterable[T], act: Callable[[T], Iterable[Done | Nothing]], failed: list[Exception]
) -> Iterator[Done | Nothing]:
    """`each`, for who has more to do before an error is raised: they are put into `failed`."""
    for thing in things:
        try:
            yield from act(thing)
        except Exception as error:  # noqa: BLE001 - whoever gave the list raises it
            failed.append(error)
