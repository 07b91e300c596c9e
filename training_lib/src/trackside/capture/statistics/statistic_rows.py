"""Rows of the always-on statistics: readings of optimizers turned into columns and values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from trackside.capture.ground.values import Flags, Numbers, Values
from trackside.capture.statistics.statistics_log import StatisticsLog, StatisticsTable
from trackside.contracts.run.recorded_names import OVERHEAD
from trackside.records.statistics_segment import BIT, Schema, StatisticColumn

MOST_TENSORS_A_ROW = 190  # with a norm each: a row has at most 1 KB
MOST_FLAGS_A_ROW = 1000  # tensors; beyond it even two bits for each are too much
MOST_GROUPS = 100
MOST_TABLES = 16  # each holds memory


@dataclass(frozen=True, eq=False)
class Watched:
    """The values that one optimizer updates: `parameters` and learning `rates` by name, all different.

    This worker sees its own part of a sharded parameter. Its statistics are those of that part, and are marked.
    """

    parameters: tuple[str, ...]
    rates: tuple[str, ...] = ()
    is_sharded: tuple[bool, ...] = ()
    gradients: tuple[str, ...] = field(init=False)
    groups: Mapping[str, tuple[int, ...]] = field(init=False)  # of many: group -> places in `parameters`
    group_of: NDArray[np.intp] = field(init=False)

    @property
    def identity(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[bool, ...]]:
        """The names and marks. Two objects with equal ones share their tables."""
        return self.parameters, self.rates, self.is_sharded

    def __post_init__(self) -> None:
        gradients = tuple(f"gradient/{name}" for name in self.parameters)
        groups = _grouped(gradients, MOST_GROUPS) if len(gradients) > MOST_TENSORS_A_ROW else {}
        group_of = np.zeros(len(gradients) if groups else 0, np.intp)
        for number, places in enumerate(groups.values()):
            group_of[list(places)] = number
        for name, value in (("gradients", gradients), ("groups", groups), ("group_of", group_of)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class DearReading:
    """Dear statistics of `count` parameters, counted from `first`.

    `values` holds the `DEAR_KINDS` one after the other, `count` numbers of each. A negative number was not measured.
    """

    first: int
    count: int
    values: Values
    has_gradient: Flags | None = None  # shape (count,); None: all have one


DEAR_KINDS = ("weight l2", "update l2", "gradient abs_mean", "gradient zero_share", "gradient abs_max")


@dataclass(eq=False)  # one is made at every step, and a frozen one takes three times as long to make
class Reading:
    """The numbers of one step of one optimizer.

    `norms` holds the L2 norm of each gradient, and any number for a parameter without a gradient.
    """

    watched: Watched
    rates: list[float] | Values
    norms: Values | None = None
    has_gradient: Flags | None = None  # of each parameter; None: all have one
    dear: DearReading | None = None
    counts: Mapping[tuple[str, str], float] = field(default_factory=dict)  # exact ones of tensors that are not finite
    total: float | None = None  # the L2 of all gradients together, where that is known at once
    is_skipped: Values | None = (
        None  # on its way: whether the optimizer skipped the step, so only `rates` mean anything
    )

    def is_here(self) -> bool:
        """Return True if all numbers have arrived."""
        if not isinstance(self.rates, list) and not self.rates.is_here():
            return False
        if self.norms is not None and not self.norms.is_here():
            return False
        if self.is_skipped is not None and not self.is_skipped.is_here():
            return False
        return self.dear is None or self.dear.values.is_here()

    def of_a_made_step(self) -> Reading:
        """Return the reading, and of a skipped step its rates alone: nothing used its gradients. All must be here."""
        if self.is_skipped is None or not self.is_skipped.get().any():
            return self
        return Reading(self.watched, self.rates)


class Marks(TypedDict):
    """The numbers of a step."""

    step: int
    mode: str
    mode_step: int
    wall_time: float


_Kind = tuple[Watched, bool]  # of an optimizer's part of a row: whether it has norms


class StatisticRows:
    """The tables of a log, each made with its first row."""

    def __init__(self, log: StatisticsLog) -> None:
        self._log = log
        self._cheap: dict[Any, tuple[_CheapRow, StatisticsTable]] = {}
        self._dear: dict[Any, StatisticsTable] = {}
        self._loss_names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._numbers: dict[tuple[tuple[str, str], ...], StatisticsTable] = {}

    def record_mixed(self, values: Mapping[tuple[str, str], float], marks: Marks) -> None:
        """Record a row of a few numbers that occur now and then."""
        self._log.record(values, **marks)

    def record_numbers(self, values: Mapping[tuple[str, str], float | Values], marks: Marks) -> None:
        """Record a row of numbers that most steps have."""
        row = [value if isinstance(value, float) else value.get()[0] for value in values.values()]
        self._numbers_table(tuple(values)).record(np.array(row), **marks)

    def record_losses(self, losses: Sequence[tuple[str, float]], marks: Marks) -> None:
        """Record a row of losses alone, as of a validation step."""
        values: dict[tuple[str, str], float] = {}
        names = self._names(tuple([name for name, _ in losses]))
        for name, (_, loss) in zip(names, losses, strict=True):
            values[name, "mean"] = loss
            values[name, "nonfinite_count"] = float(not math.isfinite(loss))
        self._log.record(values, **marks)

    def record_step(
        self, losses: Sequence[tuple[str, float]], readings: Sequence[Reading], overhead: float | None, marks: Marks
    ) -> float | None:
        """Record the cheap row of a training step, and dear ones if it has any.

        Return the L2 of all gradients together, if taken.
        """
        readings = [reading.of_a_made_step() for reading in readings]
        kinds = [(reading.watched, reading.norms is not None) for reading in readings]
        row, table = self._cheap_table(tuple([name for name, _ in losses]), kinds)
        values, measured, total = row.filled([loss for _, loss in losses], readings, overhead)
        table.record(values, measured=measured, **marks)
        for reading in readings:
            if reading.dear is not None:
                self._record_dear(reading, reading.dear, marks)
        return total

    def _numbers_table(self, key: tuple[tuple[str, str], ...]) -> StatisticsTable:
        table = self._numbers.get(key)
        if table is None:
            if len(self._numbers) == MOST_TABLES:
                _retire(self._numbers.pop(next(iter(self._numbers))))
            columns = tuple(StatisticColumn(tensor, statistic) for tensor, statistic in key)
            table = self._numbers[key] = self._log.open_table(Schema(columns))
        return table

    def _cheap_table(self, names: tuple[str, ...], kinds: Sequence[_Kind]) -> tuple[_CheapRow, StatisticsTable]:
        key = (names, *kinds)
        found = self._cheap.get(key)
        if found is not None:
            return found
        row = _CheapRow(self._names(names), kinds)
        if len(self._cheap) == MOST_TABLES:
            _retire(self._cheap.pop(next(iter(self._cheap)))[1])
        self._cheap[key] = row, self._log.open_table(row.schema)
        return self._cheap[key]

    def _record_dear(self, reading: Reading, dear: DearReading, marks: Marks) -> None:
        key = (reading.watched, dear.first, dear.count)
        table = self._dear.get(key)
        if table is None:
            if len(self._dear) == MOST_TABLES:
                _retire(self._dear.pop(next(iter(self._dear))))
            table = self._dear[key] = self._log.open_table(_dear_schema(reading.watched, dear))
        values, measured = _dear_row(reading, dear)
        table.record(values, measured=measured, **marks)

    def _names(self, losses: tuple[str, ...]) -> tuple[str, ...]:
        """Return the recorded names of the losses of a step: the k-th of one name is `<name>_output_<k>`."""
        found = self._loss_names.get(losses)
        if found is None:
            counts: dict[str, itertools.count[int]] = {}
            found = tuple(f"{name}_output_{next(counts.setdefault(name, itertools.count()))}" for name in losses)
            if len(self._loss_names) < 1000:  # a script that names its losses anew each time costs no memory
                self._loss_names[losses] = found
        return found


def _retire(table: StatisticsTable) -> None:
    table.is_retired = True


class _CheapRow:
    """The every-step row of one shape: its losses, its optimizers, with norms or without."""

    def __init__(self, losses: Sequence[str], kinds: Sequence[_Kind]) -> None:
        self._losses = losses
        wide: list[StatisticColumn] = [StatisticColumn(name, "mean", "f8") for name in losses]
        wide += [StatisticColumn(rate, "mean", "f8") for watched, _ in kinds for rate in watched.rates]
        norms = [StatisticColumn(OVERHEAD, "mean", "f4")]  # our time on the training thread over the step's other time
        bits = [StatisticColumn(name, "nonfinite_count", BIT) for name in losses]
        groups: dict[str, tuple[str, ...]] = {}
        for watched in [watched for watched, has_norms in kinds if has_norms]:
            normed, flagged = _normed(watched), _flagged(watched)
            norms += [StatisticColumn(name, "l2", "f4") for name in normed]
            bits += [StatisticColumn(n, kind, BIT) for kind in ("nonfinite_count", "is_present") for n in flagged]
            bits += [StatisticColumn(n, "is_sharded", BIT) for n in _sharded(watched)]
            groups |= {g: tuple([watched.gradients[p] for p in places]) for g, places in watched.groups.items()}
        self._numbers = len(wide) + 1  # losses, rates, our share: every row begins with them
        self._row = np.zeros(len(wide) + len(norms) + len(bits))
        self._plain_bits = np.array([column.statistic != "nonfinite_count" for column in bits], np.float64)
        self._has_plain_bits = False  # the row's bits: all finite, all present
        # Two optimizers may update one parameter: the later one's numbers hold.
        columns = [*wide, *norms, *bits]
        last = {(column.tensor, column.statistic): place for place, column in enumerate(columns)}
        self._kept = None if len(last) == len(columns) else np.array(sorted(last.values()))
        kept = columns if self._kept is None else [columns[place] for place in self._kept]
        self.schema = Schema(tuple(kept), groups)

    def filled(
        self, losses: list[float], readings: Sequence[Reading], overhead: float | None
    ) -> tuple[Numbers, Flags | None, float | None]:
        """Return values and flags of the measured ones, in the schema's order, and the L2 of all gradients together.

        The array is the same one each time. Most steps write to a few slices of it, because each further call of NumPy
        would be felt in a training of a thousand steps a second.
        """
        row = self._row
        numbers = list(losses)
        for reading in readings:
            numbers += reading.rates if isinstance(reading.rates, list) else reading.rates.get().tolist()
        numbers.append(overhead or 0.0)
        end = self._numbers
        row[:end] = numbers
        norms = [(reading, _present_norms(reading, reading.norms)) for reading in readings if reading.norms is not None]
        is_whole = overhead is not None
        is_plain = math.isfinite(sum(losses))
        squares = 0.0
        for reading, of_each in norms:
            if reading.has_gradient is not None:
                is_whole = is_plain = False
            squares += float(of_each @ of_each)
            watched = reading.watched
            count = len(watched.groups) or len(of_each)
            row[end : end + count] = _group_norms(watched, of_each) if watched.groups else of_each
            end += count
        if not is_plain or not math.isfinite(squares):
            row[end:] = np.concatenate([_broken(losses), *[flag for pair in norms for flag in _flags(*pair)]])
            self._has_plain_bits = False
        elif not self._has_plain_bits:
            row[end:] = self._plain_bits
            self._has_plain_bits = True
        measured = None if is_whole else self._measured(readings, overhead)
        total = math.sqrt(squares) if norms else None
        if self._kept is None:
            return row, measured, total
        return row[self._kept], None if measured is None else measured[self._kept], total

    def _measured(self, readings: Sequence[Reading], overhead: float | None) -> Flags:
        rates = sum(len(reading.watched.rates) for reading in readings)
        parts = [np.ones(len(self._losses) + rates, np.bool_), np.array([overhead is not None])]
        bits = [np.ones(len(self._losses), np.bool_)]
        for reading in readings:
            if reading.norms is not None:
                watched = reading.watched
                has_gradient = reading.has_gradient
                gradient_mask = np.ones(len(watched.parameters), np.bool_) if has_gradient is None else has_gradient
                parts.append(_any_of(watched, gradient_mask) if watched.groups else gradient_mask)
                flags = _any_of(watched, gradient_mask) if _flags_groups(watched) else gradient_mask
                bits += [flags, np.ones(len(flags) + len(_sharded(watched)), np.bool_)]
        return np.concatenate([*parts, *bits])


def _flags_groups(watched: Watched) -> bool:
    return len(watched.parameters) > MOST_FLAGS_A_ROW


def _normed(watched: Watched) -> Sequence[str]:
    return tuple(watched.groups) or watched.gradients


def _flagged(watched: Watched) -> Sequence[str]:
    return tuple(watched.groups) if _flags_groups(watched) else watched.gradients


def _sharded(watched: Watched) -> Sequence[str]:
    """Return the names of sharded gradients; none for a model so wide that a bit for each costs too much."""
    if watched.groups:
        return ()
    pairs = zip(watched.gradients, watched.is_sharded, strict=False)
    return [name for name, is_sharded in pairs if is_sharded]


def _present_norms(reading: Reading, norms: Values) -> Numbers:
    """Return the norm of each gradient; 0 for a parameter without one."""
    of_each = norms.get()
    return of_each if reading.has_gradient is None else np.where(reading.has_gradient, of_each, 0.0)


def _broken(numbers: Sequence[float]) -> Flags:
    return np.array([not math.isfinite(number) for number in numbers], np.bool_)


def _flags(reading: Reading, norms: Numbers) -> list[Flags]:
    """Return the flags not finite, present, and sharded: a bit for each tensor, or group."""
    watched, gradient_mask = reading.watched, reading.has_gradient
    if gradient_mask is None:
        gradient_mask = np.ones(len(norms), np.bool_)
    broken = ~np.isfinite(norms) & gradient_mask
    if _flags_groups(watched):
        broken, gradient_mask = _any_of(watched, broken), _any_of(watched, gradient_mask)
    return [broken, gradient_mask, np.ones(len(_sharded(watched)), np.bool_)]


def _group_norms(watched: Watched, norms: Numbers) -> Numbers:
    return np.sqrt(np.bincount(watched.group_of, weights=norms * norms, minlength=len(watched.groups)))


def _any_of(watched: Watched, flags: Flags) -> Flags:
    return np.bincount(watched.group_of, weights=flags, minlength=len(watched.groups)) > 0


def _dear_schema(watched: Watched, dear: DearReading) -> Schema:
    part = slice(dear.first, dear.first + dear.count)
    weights, gradients = watched.parameters[part], watched.gradients[part]
    columns = [StatisticColumn(n, kind) for kind in ("l2", "update_l2", "update_ratio") for n in weights]
    columns += [StatisticColumn(n, kind) for kind in ("abs_mean", "zero_share", "abs_max") for n in gradients]
    if watched.groups:
        columns += [StatisticColumn(name, "l2") for name in gradients]
    columns += [StatisticColumn(name, "nonfinite_count", BIT) for name in weights]
    pairs = zip(weights, watched.is_sharded[part], strict=False)
    columns += [StatisticColumn(name, "is_sharded", BIT) for name, is_sharded in pairs if is_sharded]
    return Schema(tuple(columns))


def _dear_row(reading: Reading, dear: DearReading) -> tuple[Numbers, Flags | None]:
    watched, count = reading.watched, dear.count
    part = slice(dear.first, dear.first + count)
    values = dear.values.get().astype(np.float64).reshape(len(DEAR_KINDS), count)
    weight_l2, update_l2 = values[0], values[1]
    with np.errstate(all="ignore"):  # 0 / 0 is left out below, and a NaN is what it is
        ratio = update_l2 / weight_l2
    sharded = sum(watched.is_sharded[part])
    pieces = [weight_l2, update_l2, ratio, *values[2:]]
    if watched.groups:
        pieces.append(reading.norms.get()[part].astype(np.float64) if reading.norms else np.full(count, -1.0))
    row = np.concatenate([*pieces, ~np.isfinite(weight_l2), np.ones(sharded)])
    measured = ~(row < 0)
    measured[2 * count : 3 * count] &= (weight_l2 != 0) & measured[count : 2 * count]
    if dear.has_gradient is not None:
        for first in range(3 * count, len(pieces) * count, count):
            measured[first : first + count] &= dear.has_gradient
    return row, None if measured.all() else measured


def _grouped(names: Sequence[str], most: int) -> dict[str, tuple[int, ...]]:
    """Return groups of tensors of one module, as deep as `most` groups allow; else groups of neighbours."""
    paths = [name.split(".")[:-1] or [name] for name in names]
    for depth in range(max(map(len, paths)), 0, -1):
        groups: dict[str, list[int]] = {}
        for place, path in enumerate(paths):
            groups.setdefault("group/" + ".".join(path[:depth]), []).append(place)
        if len(groups) <= most:
            return {name: tuple(places) for name, places in groups.items()}
    size = -(-len(names) // most)
    return {
        f"group/part_{k}": tuple(range(k * size, min((k + 1) * size, len(names))))
        for k in range(-(-len(names) // size))
    }
