"""A promise about many things as one test: what breaks it is listed by name, and costs no case of its own."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

import pytest

Check = Callable[..., None]
MOST_SHOWN = 5  # in full; of the others the last line


def for_each(things: Mapping[str, tuple[Any, ...]]) -> Callable[[Check], Callable[[], None]]:
    """Turn a check of one thing into one test of all of them.

    A thing takes part in the next ones' check whatever becomes of it, so one run lists all that break the promise.

    Args:
        things: The arguments of the check by the name of the thing.
    """

    def decorate(check: Check) -> Callable[[], None]:
        def test() -> None:
            assert things, "there is nothing to check"
            broken = {name: error for name, arguments in things.items() if (error := _error_of(check, arguments))}
            if broken:
                pytest.fail(_message(broken, len(things)), pytrace=False)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate


def _error_of(check: Check, arguments: tuple[Any, ...]) -> BaseException | None:
    try:
        check(*arguments)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - any is listed, as pytest would
        return error
    return None


def _message(broken: Mapping[str, BaseException], count: int) -> str:
    lines = [f"{len(broken)} of {count}: {', '.join(broken)}"]
    for number, (name, error) in enumerate(broken.items()):
        told = traceback.format_exception(error) if number < MOST_SHOWN else traceback.format_exception_only(error)
        lines.append(f"--- {name}\n{''.join(told)}")
    return "\n".join(lines)
