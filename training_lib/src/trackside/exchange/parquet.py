"""A run's scalars and statistics as one long table in a Parquet file.

A row is one tensor of one worker at one step. Columns: `run`, `tensor`, `collection`, `worker`, `mode`, `step`,
`mode_step`, `value` (of tensors with one element) and statistics. A number that the
run does not hold is null; a NaN is a NaN. More in docs/exporting.md.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from trackside.contracts.errors import ConfigurationError, Problem, StorageError
from trackside.exchange.statistic_tables import (
    Progress,
    StatisticTable,
    check_statistics,
    file_name,
    first_collections,
    one_number_names,
    run_name,
    selected,
    statistic_tables,
    untracked,
)
from trackside.extras import missing_extra
from trackside.trial.series import TensorSeries
from trackside.trial.tensors.statistics import STATISTICS
from trackside.trial.trial import Trial

FORMAT_VERSION = "1"
SUFFIX = ".parquet"
VALUE = "mean"  # of a tensor of one element it is the element
ROW_GROUP_ROWS = 1 << 16


@dataclass(frozen=True)
class ParquetExport:
    """The result of an export.

    path             the file
    rows             number of rows
    tensors          number of tensors with rows
    without_numbers  tensors without a row: texts, or tensors that cannot be read
    size_bytes       size of the file
    """

    path: Path
    rows: int
    tensors: int
    without_numbers: tuple[str, ...]
    size_bytes: int


def export_parquet(
    trial: Trial,
    path: str | os.PathLike[str],
    *,
    tensors: Sequence[TensorSeries] | None = None,
    statistics: Sequence[str] = tuple(STATISTICS),
    run: str | None = None,
    progress: Progress[TensorSeries] = untracked,
    row_group_rows: int = ROW_GROUP_ROWS,
) -> ParquetExport:
    """Write a run's scalars and statistics into a Parquet file, which is replaced whole.

    One row group is in memory at a time, beside a few hundred bytes a row that the trial itself keeps.

    Args:
        trial: The run.
        path: A file that ends in `.parquet`, or a folder, which gets `<run>.parquet`.
        tensors: Tensors from `Trial.tensors`; None: all.
        statistics: Columns beside the description: names of `trackside.trial.tensors.statistics`, and others that the
            run records.
        run: Value of the column `run`; None: the run's name.
        progress: Wraps the list of tensors, to show progress.
        row_group_rows: Least number of rows in a row group.

    Raises:
        ConfigurationError: pyarrow is not installed, or a statistic is unknown.
        TensorNotSavedError: No tensor is selected.
        StorageError: The file cannot be written, or the run cannot be read.
    """
    arrow = _arrow()
    name = run_name(trial.uri) if run is None else run
    target = _target(path, name)
    chosen = selected(trial, tensors)
    rows, with_rows = 0, set[str]()
    check_statistics(trial, chosen, statistics)
    tables = _tables(trial, chosen, (VALUE, *statistics), progress)
    schema = _schema(arrow, statistics, trial.uri)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.{secrets.token_hex(6)}.tmp")
        try:
            described = _Described(name, tuple(statistics), one_number_names(trial, chosen), first_collections(trial))
            settings = {"compression": "zstd", "write_statistics": bounded_columns(arrow, schema)}
            with import_module("pyarrow.parquet").ParquetWriter(partial, schema, **settings) as writer:
                for group in _groups(tables, row_group_rows):
                    table = _arrow_table(arrow, schema, group, described)
                    writer.write_table(table, row_group_size=row_group_rows)
                    rows += table.num_rows
                    with_rows.update(part.tensor for part in group)
            size_bytes = partial.stat().st_size
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except StorageError:  # the run could not be read, as the error states
        raise
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"Cannot write {target}. {reason}.", advice="the export to another place") from error
    without = tuple(series.name for series in chosen if series.name not in with_rows)
    return ParquetExport(target, rows, len(with_rows), without, size_bytes)


def bounded_columns(arrow: Any, schema: Any) -> list[str]:
    """Return the columns that a file of Parquet may have the least and the largest value of.

    Those of numbers with NaN leave it out, and DuckDB then finds no row with it.

    Args:
        arrow: The module pyarrow.
        schema: The schema of the file.
    """
    return [field.name for field in schema if not arrow.types.is_floating(field.type)]


@dataclass(frozen=True)
class _Described:
    """The values of a tensor's rows beside its numbers."""

    run: str
    statistics: tuple[str, ...]
    one_number: frozenset[str]
    collections: dict[str, str]


def _arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as missing:
        raise missing_extra("parquet") from missing


def _target(path: str | os.PathLike[str], run: str) -> Path:
    text = os.fspath(path)
    if "://" in text:
        problem = Problem(
            text, "The destination must be on this machine.", "Export to a folder, then copy: aws s3 cp FILE s3://..."
        )
        raise ConfigurationError([problem], subject="The export")
    target = Path(text).expanduser()
    return target if target.suffix == SUFFIX and not target.is_dir() else target / f"{file_name(run)}{SUFFIX}"


def _tables(
    trial: Trial, tensors: Sequence[TensorSeries], statistics: Iterable[str], progress: Progress[TensorSeries]
) -> Iterator[StatisticTable]:
    wanted = tuple(dict.fromkeys(statistics))
    for series in progress(tensors, "reading tensors"):
        yield from statistic_tables(trial, series, wanted)


def _groups(tables: Iterable[StatisticTable], rows: int) -> Iterator[list[StatisticTable]]:
    group: list[StatisticTable] = []
    for table in tables:
        group.append(table)
        if sum(len(part.steps) for part in group) >= rows:
            yield group
            group = []
    if group:
        yield group


def _schema(arrow: Any, statistics: Iterable[str], uri: str) -> Any:
    word = arrow.dictionary(arrow.int32(), arrow.string())
    fields = [
        arrow.field("run", word, nullable=False),
        arrow.field("tensor", word, nullable=False),
        arrow.field("collection", word),
        arrow.field("worker", word, nullable=False),
        arrow.field("mode", word, nullable=False),
        arrow.field("step", arrow.int64(), nullable=False),
        arrow.field("mode_step", arrow.int64()),
        arrow.field("value", arrow.float64()),
        *(arrow.field(statistic, arrow.float64()) for statistic in dict.fromkeys(statistics)),
    ]
    return arrow.schema(fields, metadata={"trackside.format": FORMAT_VERSION, "trackside.run": uri})


def _arrow_table(arrow: Any, schema: Any, group: Sequence[StatisticTable], described: _Described) -> Any:
    lengths = [len(table.steps) for table in group]
    mode_steps = np.concatenate([table.mode_steps for table in group])
    words: dict[str, list[str | None]] = {
        "run": [described.run for _ in group],
        "tensor": [table.tensor for table in group],
        "collection": [described.collections.get(table.tensor) for table in group],
        "worker": [table.worker for table in group],
        "mode": [table.mode for table in group],
    }
    columns = {
        **{name: _words(arrow, texts, lengths) for name, texts in words.items()},
        "step": arrow.array(np.concatenate([table.steps for table in group])),
        "mode_step": arrow.array(mode_steps, mask=mode_steps < 0),
        "value": _numbers(arrow, group, VALUE, only=described.one_number),
        **{statistic: _numbers(arrow, group, statistic) for statistic in described.statistics},
    }
    return arrow.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _words(arrow: Any, texts: Sequence[str | None], lengths: Sequence[int]) -> Any:
    known = {text: place for place, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    places = np.repeat(np.array([-1 if text is None else known[text] for text in texts], np.int32), lengths)
    return arrow.DictionaryArray.from_arrays(
        arrow.array(places, mask=places < 0), arrow.array(list(known), arrow.string())
    )


def _numbers(arrow: Any, group: Sequence[StatisticTable], statistic: str, *, only: frozenset[str] | None = None) -> Any:
    values, masks = [], []
    for table in group:
        empty = np.full(len(table.steps), np.nan), np.zeros(len(table.steps), np.bool_)
        is_wanted = only is None or table.tensor in only
        numbers, mask = table.columns.get(statistic, empty) if is_wanted else empty
        values.append(numbers)
        masks.append(mask)
    return arrow.array(np.concatenate(values), mask=~np.concatenate(masks), from_pandas=False)
