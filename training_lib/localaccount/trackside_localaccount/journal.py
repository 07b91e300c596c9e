"""The journal of a local account: what happened, in order, for a person to read and for a test to wait on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from trackside_localaccount.start_time import LEAST_LIMIT_SECONDS, is_late


@dataclass(frozen=True)
class JournalEntry:
    """One thing that happened at `at` (seconds since the epoch): its kind, and the names that identify it."""

    at: float
    kind: str
    names: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.kind} " + " ".join(f"{name}={value}" for name, value in self.names.items())


class Journal:
    """Append-only. Any thread may write and read."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: list[JournalEntry] = []
        self._changed = threading.Condition()

    def write(self, kind: str, /, **names: object) -> None:
        """Add an entry that happens now."""
        entry = JournalEntry(self._clock(), kind, {name: str(value) for name, value in names.items()})
        with self._changed:
            self._entries.append(entry)
            self._changed.notify_all()

    def __iter__(self) -> Iterator[JournalEntry]:
        return iter(self.find())

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, kind: str | None = None, /, **names: object) -> tuple[JournalEntry, ...]:
        """Return the entries of that kind with those names, oldest first."""
        with self._changed:
            return tuple(entry for entry in self._entries if _is(entry, kind, names))

    def after(self, position: int, *, within_seconds: float) -> tuple[JournalEntry, ...]:
        """Return the entries beyond the first `position`, as soon as one exists; none if the time is over first."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._entries) > position, timeout=within_seconds)
            return tuple(self._entries[position:])

    def wait_for(
        self, kind: str, /, *, count: int = 1, within_seconds: float | None = None, **names: object
    ) -> tuple[JournalEntry, ...]:
        """Wait for `count` such entries, and return them. Errors: `TimeoutError`, which lists the newest.

        `within_seconds`: None sets a limit that fits this machine (`start_time.is_late`).
        """
        began = time.monotonic()
        read = 0
        while len(found := self.find(kind, **names)) < count:
            seconds = time.monotonic() - began
            if is_late(seconds) if within_seconds is None else seconds >= within_seconds:
                newest = "\n".join(f"  {entry}" for entry in list(self)[-20:])
                raise TimeoutError(f"not {count} of {kind} {names} within {seconds:.3g} s; newest:\n{newest}")
            left = LEAST_LIMIT_SECONDS if within_seconds is None else within_seconds - seconds
            read += len(self.after(read, within_seconds=left))
        return found


def _is(entry: JournalEntry, kind: str | None, names: Mapping[str, object]) -> bool:
    if kind is not None and entry.kind != kind:
        return False
    return all(entry.names.get(name) == str(value) for name, value in names.items())
