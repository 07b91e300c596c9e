"""Rows of data on stdout: as a table, JSON, JSON lines or CSV. Tables show text made safe; the others escape it."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from trackside.cli.terminal.text import printable
from trackside.contracts.fields import write_number

SCHEMA_VERSION = 1
_UNLIMITED = 100_000


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document. Its values are already plain: see `json_value`."""
    click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2, allow_nan=False))


def print_json_lines(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print one JSON document a line."""
    for row in rows:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **row}, allow_nan=False))


def print_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a header and rows, quoted by RFC 4180, with line feeds and numbers in full precision."""
    for cells in itertools.chain((header,), rows):
        _write_data(_csv_line(cells))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, color: bool, whole: int | None = None) -> None:
    """Print a table. On a terminal the last column wraps; in a pipe every row is one line, for `grep`.

    `whole` is the number of a column that never wraps; see `columns`.
    """
    from rich.text import Text

    from trackside.cli.terminal.console import data_console, safe
    from trackside.cli.terminal.layout import columns

    console = data_console(color=color)
    cells = [[Text(safe(console, cell)) for cell in row] for row in rows]
    if not console.is_terminal:
        console.width = _UNLIMITED
    for line in columns(console, cells, header=header, whole=whole):
        console.print(line, soft_wrap=True)


def json_value(value: Any) -> Any:
    """Return a value of a tensor, or nested lists of them, for JSON: non-finite and complex numbers as words."""
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, float):
        return write_number(value)
    return value if isinstance(value, bool | int | str) or value is None else str(value)


def _write_data(line: str) -> None:
    """Write a line: unchanged to a file or a pipe, to a terminal without characters that it would obey."""
    stream = sys.stdout
    if stream is not None and stream.isatty():
        line = printable(line.rstrip("\n"), encoding=stream.encoding) + "\n"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    click.echo(line.encode(encoding, "backslashreplace").decode(encoding), nl=False, color=True)


def _csv_line(cells: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([repr(cell) if isinstance(cell, float) else cell for cell in cells])
    return line.getvalue()
