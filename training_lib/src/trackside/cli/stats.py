"""`trackside stats`: statistics of a run's tensors over its steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.progress import shown
from trackside.cli.terminal.reading import (
    Filters,
    damage_of,
    filter_options,
    open_run,
    print_damage,
    print_nothing_selected,
)
from trackside.cli.terminal.rows import json_value, print_csv, print_json, print_json_lines, print_table
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean

if TYPE_CHECKING:
    from trackside.trial.series import TensorSeries

TREND_POINTS = 8


@dataclass(frozen=True)
class StatisticRow:
    """One statistic of one tensor of one worker over steps, ascending; at least one step."""

    tensor: str
    worker: str
    statistic: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@click.command("stats")
@click.argument("run")
@format_option("table", "json", "jsonl", "csv")
@click.option(
    "--statistic",
    "statistics",
    multiple=True,
    metavar="NAME",
    help="Which; repeat for more, `all` for all.  [default: of each tensor the one with most steps]",
)
@filter_options
@shared_options
def command(
    *,
    run: str,
    output: str,
    statistics: tuple[str, ...],
    filters: Filters,
) -> None:
    """Show statistics of the tensors of RUN.

    RUN is named as for `trackside tensors`. The table sums up the steps, losses first; JSON holds every step, and CSV
    has a row for each tensor, statistic, worker and step. Only the steps of --steps are read. Statistics: mean, std,
    min, max, abs_mean, abs_max, l2, zero_share, nonfinite_count, nan_count. Without --statistic, each tensor shows
    the one recorded at most steps: `mean` of a loss is its value. The table leaves out Trackside's own numbers, unless
    --regex names them: --regex ^trackside/

    \b
    Example:
      trackside stats latest
      trackside stats latest --collection gradients
      trackside stats latest --statistic max --steps 10:200:10 --format csv
    """
    names = _checked(statistics)
    trial = open_run(run)
    found = filters.choose_to_show(trial) if output == "table" else filters.choose(trial)
    rows = [row for series in shown(found, "reading tensors") for row in _rows(series, names)]
    if output == "json":
        described = [_plain(row) for row in rows]
        print_json(
            {"run": trial.uri, "has_ended": trial.has_ended, "statistics": described, "damaged": damage_of(trial)}
        )
    elif output == "jsonl":
        print_json_lines(_plain(row) for row in rows)
    elif output == "csv":
        print_csv(("tensor", "worker", "statistic", "step", "value"), _csv_rows(rows))
    elif rows:
        losses = frozenset(trial.tensor_names(collection="losses"))
        _print_table(sorted(rows, key=lambda row: row.tensor not in losses))
    elif found:
        click.echo("No selected tensor holds numbers.", err=True)
    else:
        print_nothing_selected(trial, filters)
    print_damage(trial, color=wants_color())


def _checked(statistics: Sequence[str]) -> tuple[str, ...]:
    from trackside.trial.tensors.statistics import STATISTICS

    if "all" in statistics:
        return tuple(STATISTICS)
    known = (*STATISTICS, "all")
    unknown = [name for name in statistics if name not in known]
    if unknown:
        problems = [Problem("--statistic", f"Unknown: {name!r}.", did_you_mean(name, known)) for name in unknown]
        raise ConfigurationError(problems, subject="The command line")
    return tuple(dict.fromkeys(statistics))


def _rows(series: TensorSeries, statistics: Sequence[str]) -> Iterator[StatisticRow]:
    for statistic in statistics or (series.fullest_statistic(),):
        for column in series.columns(statistic):
            steps, values = tuple(column.steps.tolist()), tuple(column.values.tolist())
            yield StatisticRow(series.name, column.worker, statistic, steps, values)


def _plain(row: StatisticRow) -> dict[str, Any]:
    return {
        "tensor": row.tensor,
        "worker": row.worker,
        "statistic": row.statistic,
        "steps": list(row.steps),
        "values": json_value(list(row.values)),
    }


def _csv_rows(rows: Sequence[StatisticRow]) -> Iterator[tuple[object, ...]]:
    for row in rows:
        for step, value in zip(row.steps, row.values, strict=True):
            yield row.tensor, row.worker, row.statistic, step, value


def _print_table(rows: Sequence[StatisticRow]) -> None:
    """Print the table. A column with the same text in every row is left out: the statistic moves to the heading."""
    from trackside.cli.terminal.console import data_console
    from trackside.cli.terminal.sparkline import sparkline

    ascii_only = data_console(color=False).options.ascii_only
    several_statistics = len({row.statistic for row in rows}) > 1
    several_workers = len({row.worker for row in rows}) > 1
    lead = ["statistic"] if several_statistics else []
    header = [
        *lead,
        "steps",
        "first",
        "last",
        "min",
        "max",
        "trend",
        *(["worker"] if several_workers else []),
        "tensor",
    ]
    cells = [
        [
            *([row.statistic] if several_statistics else []),
            str(len(row.steps)),
            *(f"{value:.3g}" for value in (row.values[0], row.values[-1], _least(row.values), _most(row.values))),
            sparkline(_thinned(row.values), ascii_only=ascii_only),
            *([row.worker] if several_workers else []),
            row.tensor,
        ]
        for row in rows
    ]
    if not several_statistics:
        click.echo(f"{rows[0].statistic}, by tensor")
    print_table(header, cells, color=wants_color(), whole=len(header) - 1)


def _least(values: Sequence[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else min(values)


def _most(values: Sequence[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else max(values)


def _thinned(values: Sequence[float]) -> list[float]:
    """Return at most `TREND_POINTS` of the values, evenly spaced, with the first and the last."""
    if len(values) <= TREND_POINTS:
        return list(values)
    last = len(values) - 1
    return [values[round(place * last / (TREND_POINTS - 1))] for place in range(TREND_POINTS)]
