"""`trackside runs`: the runs of this machine."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color

if TYPE_CHECKING:
    from trackside.local.recorded_run import RunSummary

SCHEMA_VERSION = 1


@click.command("runs")
@format_option("table", "json", "jsonl")
@shared_options
def command(output: str) -> None:
    """List the runs of this folder.

    They lie below .trackside/runs. Newest first: name, state, steps saved, issues.

    \b
    Example:
      trackside runs
      trackside runs --format jsonl
    """
    from trackside.local.recorded_run import summarize
    from trackside.local.run_folder import RUNS, local_runs

    summaries = [summarize(folder) for folder in reversed(local_runs())]
    if output == "json":
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "runs": [_plain(run) for run in summaries]}, indent=2))
    elif output == "jsonl":
        for run in summaries:
            click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **_plain(run)}))
    elif summaries:
        _print_table(summaries)
    else:
        click.echo(f"No run yet in {RUNS}. Start one: trackside run -- python train.py", err=True)


def _plain(run: RunSummary) -> dict[str, Any]:
    return {
        "name": run.name,
        "state": run.state.value,
        "started_at": run.started_at,
        "command": list(run.command),
        "steps_saved": run.steps_saved,
        "issues": run.issues,
        "worst_severity": run.worst_severity.value if run.worst_severity else None,
        "judged": run.was_judged,
    }


def _print_table(runs: list[RunSummary]) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import data_console, safe
    from trackside.cli.terminal.layout import columns

    console = data_console(color=wants_color())
    cells = [(r.name, r.state.value, _shown_time(r.started_at), str(r.steps_saved), _issues(r)) for r in runs]
    rows = [[Text(safe(console, text)) for text in row] for row in cells]
    for line in columns(console, rows, header=("run", "state", "started", "steps", "issues")):
        console.print(line)


def _shown_time(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds is not None else "unknown"


def _issues(run: RunSummary) -> str:
    if run.worst_severity:
        return f"{run.issues} ({run.worst_severity.value})"
    return "none" if run.was_judged else "not judged"
