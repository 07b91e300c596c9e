"""A log as it was read: named series of numbers, and facts about their making."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from trackside.imported.points import Gathering, Points

MOST_SERIES = 2000  # of one log; what comes later is left out, and counted
MOST_TENSORS = 1500  # statistics of histograms of one log, as `MOST_SERIES`; of each:
_MOST_OF_TENSOR = 2048  # points, and twice as many while it is read
MOST_DAMAGE = 20

_COUNTERS = frozenset(
    {
        *("step", "steps", "global_step", "globalstep", "trainer/global_step", "_step", "iter", "iters", "iteration"),
        *(
            "iterations",
            "epoch",
            "epochs",
            "round",
            "rounds",
            "batch",
            "update",
            "updates",
            "num_updates",
            "_timestamp",
        ),
        *("timestamp", "time", "wall_time", "_runtime", "it", "n_iter", "train/epoch", "train/global_step"),
    }
)


@dataclass(frozen=True)
class Log:
    """One log.

    name         name of the run that it becomes
    source       its file or folder, as a user would write it
    format       the format, for users: `TensorBoard event files`
    series       numbers by their names in the log, in the order of their first appearance
    has_steps    True if `Points.steps` are steps of the training; False if they are numbers of rows, from 1
    framework    the library that wrote it, by the form of the log: `xgboost`; "" if that is not known
    hides_nan    True if the writer replaces a loss that is not finite by an older one
    damage       what could not be read, a sentence each
    left_out     number of series beyond `MOST_SERIES`
    tensors      numbers of histograms, by the name in the log and the statistic (`histograms.STATISTICS`)
    """

    name: str
    source: str
    format: str
    series: Mapping[str, Points]
    has_steps: bool = False
    framework: str = ""
    hides_nan: bool = False
    damage: tuple[str, ...] = ()
    left_out: int = 0
    tensors: Mapping[tuple[str, str], Points] = field(default_factory=dict)


@dataclass
class Series:
    """The series of a log that is being read, by name. A log that grows is read on where its reader stopped.

    damage    what could not be read, a sentence each
    rows      number of rows so far, for formats with rows
    is_over   the log grows no more: an end that is not whole is read, or is damage
    ends      by file, the first byte that is not read yet
    known     by file, what its reader must know of what it read before
    counted   number of damaged parts, by the words for one and for several
    """

    damage: list[str] = field(default_factory=list)
    rows: int = 0
    left_out: set[str] = field(default_factory=set)
    is_over: bool = True
    ends: dict[str, int] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    _gathered: dict[str, Gathering] = field(default_factory=dict)
    _tensors: dict[tuple[str, str], Gathering] = field(default_factory=dict)

    def of(self, name: str) -> Gathering | None:
        """Return the series of this name; None beyond `MOST_SERIES`."""
        found = self._gathered.get(name)
        if found is None:
            if len(self._gathered) >= MOST_SERIES:
                self.left_out.add(name) if len(self.left_out) < MOST_SERIES else None
                return None
            found = self._gathered[name] = Gathering(counts=is_counter(name))
        return found

    def add_row(self, numbers: Iterable[tuple[str, float]], *, time: float = 0.0) -> None:
        """Add one row of numbers."""
        self.rows += 1
        for name, value in numbers:
            own = self._gathered.get(name) or self.of(name)
            if own is not None:
                own.add(self.rows, value, time)

    def extend(self, name: str, steps: ArrayLike, values: ArrayLike, times: ArrayLike | None = None) -> None:
        """Add points of one series; each argument has the shape (n,)."""
        if (own := self.of(name)) is not None:
            own.extend(steps, values, times)

    def extend_tensor(self, key: tuple[str, str], steps: ArrayLike, values: ArrayLike, times: ArrayLike) -> None:
        """Add points of one statistic of a histogram, by its tag and its name; each argument has the shape (n,)."""
        own = self._tensors.get(key)
        if own is None:
            if len(self._tensors) >= MOST_TENSORS:
                self.left_out.add(key[0])
                return
            own = self._tensors[key] = Gathering(most=_MOST_OF_TENSOR)
        own.extend(steps, values, times)

    def add_rows(self, columns: Sequence[str], table: np.ndarray) -> None:
        """Add rows of numbers, shape (rows, columns)."""
        numbers = np.arange(self.rows + 1, self.rows + 1 + len(table))
        self.rows += len(table)
        for place, name in enumerate(columns):
            self.extend(name, numbers, table[:, place])

    def note(self, damage: str) -> None:
        """Note damage, up to a bound."""
        if len(self.damage) < MOST_DAMAGE and damage not in self.damage:
            self.damage.append(damage)

    def unread(self, file: LogFile, *, size: int = 4 << 20) -> Iterator[bytes]:
        """Yield what is not read of a file yet, in parts."""
        return file.chunks(start=self.ends.get(file.name, 0), size=size)

    def has_read(self, file: LogFile, count: int) -> None:
        """Note that so many more bytes of a file are read."""
        self.ends[file.name] = self.ends.get(file.name, 0) + count

    def count(self, number: int, one: str, several: str) -> None:
        """Count damaged parts: `1 line is no JSON object`, `2 lines are no JSON object`."""
        if number:
            self.counted[one, several] += number

    def all_damage(self) -> tuple[str, ...]:
        """Return what could not be read so far, a sentence each."""
        counted = [f"{number:,} {one if number == 1 else several}" for (one, several), number in self.counted.items()]
        return (*self.damage, *counted)

    def points(self) -> dict[str, Points]:
        """Return the points of each series that has any."""
        found = {name: own.points() for name, own in self._gathered.items()}
        return {name: points for name, points in found.items() if len(points)}

    def tensor_points(self) -> dict[tuple[str, str], Points]:
        """Return the points of each statistic of a histogram."""
        return {key: own.points() for key, own in self._tensors.items()}


class LogFile(Protocol):
    """A file with a log, on this machine or in a bucket."""

    @property
    def name(self) -> str:
        """The path below the given folder, with `/`; of a single file its name."""

    @property
    def where(self) -> str:
        """The location as a user would write it."""

    @property
    def size(self) -> int:
        """The size in bytes, at the moment of the listing."""

    def chunks(self, *, start: int = 0, size: int = 4 << 20) -> Iterator[bytes]:
        """Yield the content from a byte on, in parts, up to its present end."""

    def head(self) -> bytes:
        """Return the first 64 KiB."""

    def path(self) -> str:
        """Return the path of a file on this machine with the content."""


def is_counter(name: str) -> bool:
    """Return True for the name of a column that counts: steps, epochs, seconds."""
    return name.lower() in _COUNTERS
