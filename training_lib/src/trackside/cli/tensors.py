"""`trackside tensors`: the tensors of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.progress import shown_waiting
from trackside.cli.terminal.reading import (
    Filters,
    damage_of,
    filter_options,
    open_run,
    print_damage,
    print_nothing_selected,
)
from trackside.cli.terminal.rows import print_csv, print_json, print_json_lines, print_table

if TYPE_CHECKING:
    from trackside.trial.series import TensorSeries
    from trackside.trial.trial import Trial


@dataclass(frozen=True)
class TensorRow:
    """One tensor of a run.

    shape, dtype  None if only reductions were saved or nothing can be read
    steps         number of steps with the tensor; 0 if only statistics are recorded
    last_step     the newest of them; None without any
    """

    name: str
    collections: tuple[str, ...]
    shape: tuple[int, ...] | None
    dtype: str | None
    steps: int
    last_step: int | None
    workers: tuple[str, ...]


@click.command("tensors")
@click.argument("run")
@format_option("table", "json", "jsonl", "csv")
@filter_options
@shared_options
def command(
    *,
    run: str,
    output: str,
    filters: Filters,
) -> None:
    """List the tensors of RUN.

    RUN is a folder, s3://bucket/prefix, the name of a run below .trackside/runs, or `latest`; a folder that
    smdebug wrote will do. Files that cannot be read are named on stderr, the rest is listed. The table leaves out
    Trackside's own numbers, unless --regex names them: --regex ^trackside/

    \b
    Example:
      trackside tensors latest
      trackside tensors s3://bucket/digits-7 --collection gradients --format csv
    """
    trial = open_run(run)
    with shown_waiting("reading shapes"):
        rows = _rows(trial, filters.choose_to_show(trial) if output == "table" else filters.choose(trial))
    if output == "json":
        tensors = [_plain(row) for row in rows]
        print_json(
            {"run": trial.uri, "has_ended": trial.has_ended, "tensors": tensors, "damaged": damage_of(trial)},
        )
    elif output == "jsonl":
        print_json_lines(_plain(row) for row in rows)
    elif output == "csv":
        names = ("name", "collections", "shape", "dtype", "steps", "last_step", "workers")
        print_csv(names, (_csv_cells(row) for row in rows))
    elif rows:
        header = ("shape", "dtype", "steps", "last", "collection", "tensor")
        print_table(header, [_table_cells(row) for row in rows], color=wants_color())
    else:
        print_nothing_selected(trial, filters)
    print_damage(trial, color=wants_color())


def _rows(trial: Trial, found: Sequence[TensorSeries]) -> list[TensorRow]:
    heads, members = trial.parts.heads(found), trial.collections
    rows = []
    for series in found:
        head, saved = heads.get(series.name), trial.parts.saved.saved(series.name, series.selection)
        row = TensorRow(
            name=series.name,
            collections=tuple(name for name, names in members.items() if series.name in names),
            shape=head.shape if head else None,
            dtype=head.dtype if head else None,
            steps=len({one.step for one in saved}),
            last_step=max((one.step for one in saved), default=None),
            workers=tuple(sorted({one.worker for one in saved})),
        )
        rows.append(row)
    return rows


def _plain(row: TensorRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "collections": list(row.collections),
        "shape": None if row.shape is None else list(row.shape),
        "dtype": row.dtype,
        "steps": row.steps,
        "last_step": row.last_step,
        "workers": list(row.workers),
    }


def _csv_cells(row: TensorRow) -> tuple[object, ...]:
    shape = "" if row.shape is None else "x".join(map(str, row.shape))
    last = "" if row.last_step is None else row.last_step
    return row.name, " ".join(row.collections), shape, row.dtype or "", row.steps, last, " ".join(row.workers)


def _table_cells(row: TensorRow) -> tuple[str, ...]:
    shape = "-" if row.shape is None else "x".join(map(str, row.shape)) or "scalar"
    last = "-" if row.last_step is None else str(row.last_step)
    collections = ", ".join(row.collections) or "-"
    return shape, row.dtype or "-", str(row.steps), last, collections, row.name
