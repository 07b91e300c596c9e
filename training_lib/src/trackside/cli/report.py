"""`trackside report`: one HTML file about a run, for a colleague, an e-mail, a ticket."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.failure import write_lines
from trackside.cli.terminal.options import format_option, shared_options
from trackside.cli.terminal.reading import open_run

if TYPE_CHECKING:
    from trackside.views.report.gathered import ReportData

_ENDINGS = {"html": ".html", "notebook": ".ipynb"}


@click.command("report")
@click.argument("run", default="latest")
@format_option("html", "markdown", "json", "notebook")
@click.option(
    "--output",
    "-o",
    "target",
    metavar="FILE",
    help="File to write; - for the standard output.  [default: NAME-report.html or .ipynb; - for markdown and json]",
)
@shared_options
def command(*, run: str, output: str, target: str | None) -> None:
    """Write a report of RUN: one HTML file, readable offline.

    RUN is named as for `trackside findings`; without it, the latest run. The file holds all that it shows: findings
    with causes and advice, curves of loss, learning rate, gradients and pace, layers over steps, the state of each
    rule. It loads nothing, sends nothing, and prints well. As Markdown, it is for a pull request or a job's summary;
    as JSON it holds each number, text and table of the page; as a notebook for Jupyter its cells read the run anew.

    \b
    Example:
      trackside report
      trackside report s3://bucket/digits-7 --output digits-7.html
      trackside report latest --format markdown >> "$GITHUB_STEP_SUMMARY"
      trackside report latest --format json > report.json
      trackside report latest --format notebook
    """
    from trackside.contracts.errors import ConfigurationError, Problem
    from trackside.runs.run_folder import find_run
    from trackside.views.report.gathered import gather
    from trackside.views.report.markdown import markdown_of
    from trackside.views.report.notebook import notebook_of
    from trackside.views.report.page import page_of

    uri = find_run(run)
    data = gather(uri, open_run(run), clock=time.time)
    made = {"html": page_of, "markdown": markdown_of, "json": _json, "notebook": notebook_of}[output](data)
    if target == "-" or (target is None and output not in _ENDINGS):
        click.echo(made, nl=False)
        return
    path = Path(target or f"{data.recorded.location.name}-report{_ENDINGS.get(output, '')}")
    try:
        _write(path, made)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}."
        raise ConfigurationError(
            [Problem("--output", f"{path} {reason} Name a file in a folder that exists.")]
        ) from error
    how = {"html": " Open it in a browser.", "notebook": " Open it in Jupyter."}.get(output, "")
    write_lines([f"{path}: {len(made) / 1e3:,.0f} kB.{how}"], sys.stdout)


def _json(data: ReportData) -> str:
    from trackside.views.report.json_document import VERSION, report_document

    return f"{json.dumps({'schema_version': VERSION, **report_document(data)}, allow_nan=False)}\n"


def _write(target: Path, page: str) -> None:
    """Write the file whole or not at all."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_text(page, "utf-8")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
