"""`trackside runs`: the runs of this machine, or of a bucket."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.progress import shown, shown_waiting
from trackside.cli.terminal.reading import MOST_DAMAGE_NAMED, regex_option
from trackside.cli.terminal.rows import print_csv, print_json, print_json_lines
from trackside.contracts.errors import RunNotFoundError, TracksideError
from trackside.contracts.name_pattern import name_pattern

if TYPE_CHECKING:
    from trackside.runs.run_summary import RunSummary
    from trackside.storage.store import Store

RUNS_AT_ONCE = 16
_LAST_COLUMNS = (
    "worst_severity",
    "judged",
    "recovered",
    "job",
    "node",
    "user",
)  # of the CSV; a new one goes to the end


@click.command("runs")
@click.argument("where", required=False)
@format_option("table", "json", "jsonl", "csv")
@regex_option("Runs whose name this regular expression finds.")
@shared_options
def command(*, where: str | None, output: str, regex: str | None) -> None:
    """List the runs of this folder, or of WHERE.

    WHERE is a folder that holds runs, or s3://bucket/prefix; without it, .trackside/runs. Newest first (by name): name,
    state, steps saved, issues. In S3 the end of the command is not recorded: a run is `ended` once its end marker
    exists, and `open` before. A run that cannot be read is named on stderr, and the others are listed.

    \b
    Example:
      trackside runs
      trackside runs s3://bucket/jobs --regex digits --format csv
    """
    from trackside.runs.run_listing import runs_in, stores_in

    with shown_waiting("looking for runs"):
        found = runs_in(where)
    pattern = name_pattern(regex or "")
    chosen = [uri for uri in reversed(found) if pattern.search(uri.rpartition("/")[2])]
    summaries = _summaries(chosen, stores_in(where))
    rows = [_plain(run) for run in summaries]
    if output == "json":
        print_json({"runs": rows})
    elif output == "jsonl":
        print_json_lines(rows)
    elif output == "csv":
        header = ("name", "uri", "state", "started_at", "command", "steps_saved", "issues", *_LAST_COLUMNS)
        print_csv(header, ([_csv_cell(row[name]) for name in header] for row in rows))
    elif summaries:
        _print_table(summaries)
    elif regex and found:
        click.echo(f"None of {len(found)} runs has a name that --regex {regex} finds.", err=True)
    else:
        _print_none(where)


def _summaries(found: Sequence[str], stores: Callable[[str], Store]) -> list[RunSummary]:
    """Return the summaries of these locations.

    Name unreadable ones on stderr, and skip S3 prefixes that are no runs.
    """
    chunks = [found[first : first + RUNS_AT_ONCE] for first in range(0, len(found), RUNS_AT_ONCE)]
    summaries = []
    unread = 0
    for some in shown(chunks, "reading runs"):
        for uri, summary in zip(some, _summarized(some, stores), strict=True):
            if isinstance(summary, TracksideError):
                unread += 1
                if unread <= MOST_DAMAGE_NAMED:
                    _warn(uri, summary)
            elif summary is not None:
                summaries.append(summary)
    if unread > MOST_DAMAGE_NAMED:
        click.echo(f"Warning: and {unread - MOST_DAMAGE_NAMED} more runs.", err=True)
    return summaries


def _summarized(some: Sequence[str], stores: Callable[[str], Store]) -> list[RunSummary | TracksideError | None]:
    from trackside.trial.parallel import in_parallel

    return in_parallel(stores(some[0]), partial(_summary, stores=stores), some)


def _summary(uri: str, *, stores: Callable[[str], Store]) -> RunSummary | TracksideError | None:
    from trackside.runs.run_summary import summarize

    try:
        return summarize(uri, stores=stores)
    except RunNotFoundError:
        return None
    except TracksideError as error:
        return error


def _warn(uri: str, error: TracksideError) -> None:
    from trackside.cli.terminal.text import printable

    first = str(error).partition("\n")[0]
    click.echo(f"Warning: left out what cannot be read: {printable(uri)}: {printable(first)}", err=True)


def _print_none(where: str | None) -> None:
    from trackside.cli.terminal.text import printable
    from trackside.runs.run_folder import RUNS

    if where is None:
        click.echo(f"No run yet in {RUNS}. Start one: trackside run -- python train.py", err=True)
    else:
        click.echo(f"No run lies right below {printable(where)}. Name the folder that holds the runs.", err=True)


def _plain(run: RunSummary) -> dict[str, Any]:
    from trackside.runs.command_end import exit_code_of, signal_of

    return {
        "name": run.name,
        "uri": run.uri,
        "state": run.state.value,
        "started_at": run.started_at,
        "command": list(run.command),
        "steps_saved": run.steps_saved,
        "issues": run.issues,
        "recovered": run.recovered,
        "worst_severity": run.worst_severity.value if run.worst_severity else None,
        "judged": run.judged.is_judged,
        "not_judged": run.judged.not_judged,
        "reservation": run.judged.reservation,
        "exit_code": None if run.status is None else exit_code_of(run.status),
        "signal": signal_of(run.status) or None,
        "scheduler": run.job.scheduler or None,
        "job": run.job.id or None,
        "node": run.job.node or None,
        "user": run.job.user or None,
        "array_index": run.job.array_index,
        "restarts": run.job.restarts,
    }


def _csv_cell(value: object) -> object:
    if isinstance(value, list):
        return shlex.join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


def _print_table(runs: Sequence[RunSummary]) -> None:
    """Print the table, on a narrow console without the numbers of saved steps, then without times."""
    from rich.text import Text

    from trackside.cli.terminal.console import data_console, safe
    from trackside.cli.terminal.layout import columns

    console = data_console(color=wants_color())
    table = {
        "run": [run.name for run in runs],
        "state": [run.state_in_words for run in runs],
        "started": [_shown_time(run.started_at) for run in runs],
        "saved": [str(run.steps_saved) for run in runs],
        "issues": [_issues(run) for run in runs],
        "job": [run.job.id for run in runs],
    }
    if not any(table["job"]):
        del table["job"]
    if all(run.started_at is None for run in runs):
        del table["started"]
    for name in ("saved", "started", "job"):
        if _width(table) > console.width:
            table.pop(name, None)
    rows = [[Text(safe(console, text)) for text in row] for row in zip(*table.values(), strict=True)]
    for line in columns(console, rows, header=tuple(table), whole=0):
        console.print(line, soft_wrap=True)


def _width(table: Mapping[str, Sequence[str]]) -> int:
    return sum(max(map(len, (name, *cells))) + 2 for name, cells in table.items()) - 2


def _shown_time(seconds: float | None) -> str:
    """Return a moment in local time: of this year without the year."""
    if seconds is None:
        return "unknown"
    then = time.localtime(seconds)
    return time.strftime("%m-%d %H:%M" if then.tm_year == time.localtime().tm_year else "%Y-%m-%d %H:%M", then)


def _issues(run: RunSummary) -> str:
    worst = run.worst_severity.value if run.worst_severity else ""
    standing = f"{run.issues} ({worst})" if run.issues else run.judged.no_issue
    return f"{standing}, {run.recovered} recovered" if run.recovered else standing
