"""Values that are computed once for each object, by any thread, and never one after another."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import trackside
from tests.patience import HANGS_SECONDS
from trackside.contracts.cached_property import cached_property

SOURCES = Path(trackside.__file__).parent


@dataclass(frozen=True)
class Slow:
    may_end: threading.Event
    computed: list[str] = field(default_factory=list)

    @cached_property
    def value(self) -> int:
        """Its value."""
        self.computed.append("value")
        assert self.may_end.wait(HANGS_SECONDS)
        return 7


def test_it_is_computed_once_and_described() -> None:
    up = threading.Event()
    up.set()
    slow = Slow(up)
    assert (slow.value, slow.value, slow.computed) == (7, 7, ["value"])
    assert Slow.value.__doc__ == "Its value."


def test_an_object_does_not_wait_for_another_one() -> None:
    up, later = threading.Event(), threading.Event()
    up.set()
    waiting = Slow(later)
    thread = threading.Thread(target=lambda: waiting.value)
    thread.start()
    while not waiting.computed:
        later.wait(0.001)
    assert Slow(up).value == 7, "before the other thread may end"
    later.set()
    thread.join(HANGS_SECONDS)
    assert waiting.value == 7


def test_an_error_is_not_kept() -> None:
    class Fails:
        turns = 0

        @cached_property
        def value(self) -> int:
            self.turns += 1
            return 1 // (self.turns - 1)

    fails = Fails()
    with pytest.raises(ZeroDivisionError):
        _ = fails.value
    assert fails.value == 1


def test_no_module_takes_pythons_own() -> None:
    own = SOURCES / "contracts" / "cached_property.py"
    found = [
        file.relative_to(SOURCES).as_posix()
        for file in SOURCES.rglob("*.py")
        if file != own
        and "functools" in (text := file.read_text(encoding="utf-8"))
        and "cached_property" in text
        and "from trackside.contracts.cached_property import" not in text
    ]
    assert not found
