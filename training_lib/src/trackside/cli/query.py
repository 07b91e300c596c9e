"""`trackside query`: questions in SQL about all runs of a folder or a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, is_quiet, quiet_option, shared_options, wants_color
from trackside.cli.terminal.progress import shown_waiting
from trackside.cli.terminal.rows import json_value, print_csv, print_json, print_json_lines, print_table
from trackside.contracts.english import counted
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean

if TYPE_CHECKING:
    from trackside.contracts.errors import TracksideError
    from trackside.views.query.database import Answer
    from trackside.views.query.tables import RunTables

MOST_UNREAD_NAMED = 3


@click.command("query")
@click.argument("question", required=False)
@click.argument("where", required=False)
@format_option("table", "json", "jsonl", "csv")
@click.option(
    "--write",
    "folder",
    metavar="PLACE",
    help="Write the tables there as Parquet by date: a folder, or s3://bucket/prefix.",
)
@quiet_option("Print nothing but the answer.")
@shared_options
def command(*, question: str | None, where: str | None, output: str, folder: str | None) -> None:
    """Ask QUESTION, in SQL or by a name, about the runs of WHERE.

    WHERE is a folder that holds runs, or s3://bucket/prefix; without it, .trackside/runs. DuckDB answers, on this
    machine. The tables are runs, rules, findings and statistics; without QUESTION their columns are listed, and the
    questions that have a name.

    \b
    Example:
      trackside query
      trackside query rules-that-fire
      trackside query "SELECT run, message FROM findings" s3://bucket/jobs
      trackside query --write s3://bucket/fleet s3://bucket/jobs
    """
    if question is None and folder is None:
        _print_tables()
        return
    if folder is not None and where is None and question is not None and _is_place(question):
        question, where = None, question
    sql = _sql_of(question) if question is not None else None
    from trackside.views.query.tables import run_tables

    with shown_waiting("reading runs"):
        found = run_tables(where)
    _warn("left out, for it cannot be read", found.unread)
    if folder is not None:
        _write(found, folder)
    if sql is not None:
        _answer(found, sql, output)


def _is_place(text: str) -> bool:
    """Return True for the only word beside --write if it is no question."""
    from trackside.contracts.questions.saved import QUESTIONS

    return " " not in text.strip() and text not in QUESTIONS


def _sql_of(question: str) -> str:
    from trackside.contracts.questions.saved import QUESTIONS

    if question in QUESTIONS:
        return QUESTIONS[question].sql
    if " " not in question.strip():
        fix = did_you_mean(question, QUESTIONS)
        problem = Problem("QUESTION", f"{question!r} is neither SQL nor the name of a question.", fix)
        raise ConfigurationError([problem], subject="The command line")
    return question


def _answer(found: RunTables, sql: str, output: str) -> None:
    from trackside.views.query.database import RunDatabase, as_documents

    with RunDatabase(found) as database:
        answer = database.answer(sql)
        _warn("without statistics", database.without_statistics)
    if output == "json":
        print_json({"rows": [_plain(row) for row in as_documents(answer)]})
    elif output == "jsonl":
        print_json_lines(_plain(row) for row in as_documents(answer))
    elif output == "csv":
        print_csv(answer.columns, ([_cell(value) for value in row] for row in answer.rows))
    else:
        _print_answer(answer)


def _print_answer(answer: Answer) -> None:
    if not answer.rows:
        click.echo("No row.", err=True)
        return
    print_table(answer.columns, [[_shown(value) for value in row] for row in answer.rows], color=wants_color())


def _print_tables() -> None:
    from trackside.contracts.questions.saved import QUESTIONS
    from trackside.contracts.questions.tables import STATISTICS, STATISTICS_COLUMNS, TABLES

    for name, columns in TABLES.items():
        click.echo(f"{name}: {', '.join(columns)}")
    click.echo(f"{STATISTICS}: {', '.join(STATISTICS_COLUMNS)}")
    click.echo("")
    rows = [[name, question.text] for name, question in QUESTIONS.items()]
    print_table(("name", "question"), rows, color=wants_color())


def _write(found: RunTables, folder: str) -> None:
    from trackside.cli.terminal.text import printable
    from trackside.views.query.tables import write_run_tables

    with shown_waiting("writing tables"):
        written = write_run_tables(found, folder)
    _warn("without statistics", written.without_statistics)
    for name, place in written.places.items():
        if not is_quiet():
            rows = written.rows.get(name)
            what = "the statistics" if rows is None else counted(rows, "row")
            click.echo(f"Wrote {what} below {printable(place)}", err=True)


def _warn(what: str, some: tuple[tuple[str, TracksideError], ...]) -> None:
    from trackside.cli.terminal.text import printable

    for name, error in some[:MOST_UNREAD_NAMED]:
        first = str(error).partition("\n")[0]
        click.echo(f"Warning: {what}: {printable(name)}: {printable(first)}", err=True)
    if len(some) > MOST_UNREAD_NAMED:
        click.echo(f"Warning: {what}: {len(some) - MOST_UNREAD_NAMED} more runs.", err=True)


def _plain(row: Any) -> dict[str, Any]:
    return {name: json_value(_text_of_moment(value)) for name, value in row.items()}


def _cell(value: Any) -> Any:
    value = _text_of_moment(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else value


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "-" if value is None else str(_cell(value))


def _text_of_moment(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
