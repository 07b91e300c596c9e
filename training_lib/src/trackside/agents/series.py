"""Series of a run for agents: the names, and the values of one, thinned so that the extremes stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trackside.agents.answers import Number, SeriesLine, SeriesPage, Values
from trackside.agents.paging import fitting, position
from trackside.agents.runs import Runs
from trackside.agents.text import by_shown_name, one_line, shown_name
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.fields import write_number
from trackside.trial.tensors.statistics import STATISTICS
from trackside.trial.trial import Trial
from trackside.trial.window import Column

MOST_POINTS = 100
SERIES_AT_ONCE = 60  # whose last values are read for a page
LOSSES = "losses"


def series_page(runs: Runs, run: str, *, contains: str, cursor: str) -> SeriesPage:
    """Return the names of a run's series, losses first, with the last value of each.

    Args:
        runs: The runs.
        run: The name of the run.
        contains: Text that the names hold, in any case; "" for all.
        cursor: Of the page before; "" for the first.
    """
    trial = runs.trial(run)
    losses = frozenset(trial.tensor_names(collection=LOSSES))
    names = [
        name for name in sorted(trial.names, key=lambda name: (name not in losses, name)) if _holds(name, contains)
    ]
    begin = position(cursor, most=len(names))
    lines = [_line(trial, name) for name in names[begin : begin + SERIES_AT_ONCE]]
    end = begin + fitting(lines)
    return SeriesPage(
        shown_name(runs.name(run)), tuple(lines[: end - begin]), len(names), "" if end >= len(names) else str(end)
    )


def values(
    runs: Runs, run: str, name: str, *, statistic: str, steps: tuple[int | None, int | None], worker: str, most: int
) -> Values:
    """Return one statistic of one series over steps.

    Args:
        runs: The runs.
        run: The name of the run.
        name: The name of the series; "" for its first loss.
        statistic: One of `STATISTICS`; "" for the one that is known at most steps.
        steps: First and last step; None for an open end.
        worker: The process; "" for the first one.
        most: The largest number of points.

    Raises:
        ConfigurationError: There is no such series, statistic or process.
    """
    trial = runs.trial(run)
    real = _real_name(trial, name)
    if statistic and statistic not in STATISTICS:
        raise _unknown("statistic", statistic, tuple(STATISTICS))
    series = trial.tensor(real)
    chosen = statistic or series.fullest_statistic()
    columns = series.columns(chosen)
    column = _column(columns, worker)
    where = np.ones(len(column.steps), bool)
    for limit, compare in zip(steps, (np.greater_equal, np.less_equal), strict=True):
        if limit is not None:
            where &= compare(column.steps, limit)
    numbers, at = column.values[where], column.steps[where]
    kept = thinned(numbers, most)
    finite = numbers[np.isfinite(numbers)]
    return Values(
        run=shown_name(runs.name(run)),
        name=shown_name(real),
        statistic=chosen,
        worker=shown_name(column.worker),
        workers=len(columns),
        recorded=len(numbers),
        first_step=int(at[0]) if len(at) else None,
        last_step=int(at[-1]) if len(at) else None,
        least=_number(finite.min()) if len(finite) else None,
        most=_number(finite.max()) if len(finite) else None,
        points=tuple((int(at[place]), _number(numbers[place])) for place in kept),
        thinned=len(kept) < len(numbers),
    )


def thinned(numbers: NDArray[np.float64], most: int) -> list[int]:
    """Return the places to keep, ascending: all, or the first, the last and the extremes of equal parts.

    The first number that is not finite is kept, too.

    Args:
        numbers: Shape (n,).
        most: The largest number of places, at least 5.
    """
    count = len(numbers)
    if count <= most:
        return list(range(count))
    kept = {0, count - 1}
    broken = np.flatnonzero(~np.isfinite(numbers))
    if len(broken):
        kept.add(int(broken[0]))
    for part in np.array_split(np.arange(count), max(1, (most - len(kept)) // 2)):
        some = numbers[part]
        if np.isfinite(some).any():
            kept |= {int(part[np.nanargmin(_bounded(some))]), int(part[np.nanargmax(_bounded(some))])}
    return sorted(kept)


def _bounded(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _line(trial: Trial, name: str) -> SeriesLine:
    series = trial.tensor(name)
    statistic = series.fullest_statistic()
    columns = series.columns(statistic)
    numbers = columns[0].values if columns else np.empty(0)
    return SeriesLine(shown_name(name), statistic, len(numbers), _number(numbers[-1]) if len(numbers) else None)


def _real_name(trial: Trial, name: str) -> str:
    names = trial.names
    if not name:
        losses = trial.tensor_names(collection=LOSSES)
        if losses:
            return losses[0]
        raise ConfigurationError([Problem("name", "is missing: the run recorded no loss.", "See list_series.")])
    if name in names:
        return name
    known = by_shown_name(names)
    if name in known:
        return known[name]
    raise _unknown("name", name, tuple(known))


def _column(columns: tuple[Column, ...], worker: str) -> Column:
    if not columns:
        raise ConfigurationError([Problem("name", "has no such number at any step.", "Try another statistic.")])
    known = {shown_name(column.worker): column for column in columns}
    if worker and worker not in known:
        raise _unknown("worker", worker, tuple(known))
    return known[worker] if worker else columns[0]


def _unknown(what: str, given: str, known: tuple[str, ...]) -> ConfigurationError:
    near = did_you_mean(given, known[:500])
    fix = near if near.startswith("Did") else f"There are: {', '.join(known[:5])}" + (" …" if len(known) > 5 else "")
    return ConfigurationError([Problem(what, f"Unknown: {one_line(given, 100)!r}.", fix)], subject="The call")


def _holds(name: str, contains: str) -> bool:
    return contains.lower() in name.lower()


def _number(value: np.floating | float) -> Number:
    """Return a number with six digits: more are noise to a reader."""
    return write_number(float(f"{float(value):.6g}"))
