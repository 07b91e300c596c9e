"""`trackside report`: one HTML file about a run, for a colleague, an e-mail, a ticket."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from trackside.cli.terminal.failure import write_lines
from trackside.cli.terminal.options import shared_options
from trackside.cli.terminal.reading import open_run


@click.command("report")
@click.argument("run", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown"]),
    default="html",
    show_default=True,
    help="A page of all, or the findings in short.",
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="File to write; - for the standard output.  [default: NAME-report.html; - for markdown]",
)
@shared_options
def command(*, run: str, form: str, output: str | None) -> None:
    """Write a report of RUN: one HTML file, readable offline.

    RUN is named as for `trackside findings`; without it, the latest run. The file holds all that it shows: findings
    with causes and advice, curves of loss, learning rate, gradients and pace, layers over steps, the state of each
    rule. It loads nothing, sends nothing, and prints well. As Markdown, it is for a pull request or a job's summary.

    \b
    Example:
      trackside report
      trackside report s3://bucket/digits-7 --output digits-7.html
      trackside report latest --format markdown >> "$GITHUB_STEP_SUMMARY"
    """
    from trackside.contracts.errors import ConfigurationError, Problem
    from trackside.local.run_folder import find_run
    from trackside.report.gathered import gather
    from trackside.report.markdown import markdown_of
    from trackside.report.page import page_of

    uri = find_run(run)
    data = gather(uri, open_run(run), clock=time.time)
    page = page_of(data) if form == "html" else markdown_of(data)
    if output == "-" or (output is None and form == "markdown"):
        click.echo(page, nl=False)
        return
    target = Path(output or f"{data.recorded.location.name}-report.html")
    try:
        _write(target, page)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}."
        raise ConfigurationError(
            [Problem("--output", f"{target} {reason} Name a file in a folder that exists.")]
        ) from error
    how = " Open it in a browser." if form == "html" else ""
    write_lines([f"{target}: {len(page) / 1e3:,.0f} kB.{how}"], sys.stdout)


def _write(target: Path, page: str) -> None:
    """Write the file whole or not at all."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_text(page, "utf-8")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
