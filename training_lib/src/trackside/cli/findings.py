"""`trackside findings`: the verdicts of the rules on a run."""

from __future__ import annotations

import click

from trackside.cli.terminal.failure import FINDINGS, NOT_JUDGED
from trackside.cli.terminal.options import format_option, shared_options
from trackside.cli.terminal.reports import REPORTS, report_text
from trackside.cli.terminal.rows import print_json, print_json_lines
from trackside.cli.terminal.views.run_cards import FAIL_ON, print_cards
from trackside.runs.run_document import run_document, verdict_document


@click.command("findings")
@click.argument("run")
@format_option("table", "json", "jsonl", *REPORTS)
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="never",
    show_default=True,
    help="Exit with 1 if an issue is at least this severe, with 8 if the run was not judged.",
)
@shared_options
def command(run: str, output: str, fail_on: str) -> None:
    """Show the verdicts of the rules on RUN.

    RUN is a folder, s3://bucket/prefix, the name of a run below .trackside/runs, or `latest`. For continuous
    integration: `github` prints annotations of a workflow, `sarif` a log for code scanning, `junit` a test report.

    \b
    Example:
      trackside findings latest
      trackside findings s3://bucket/digits-7 --fail-on critical
      trackside findings latest --format sarif > trackside.sarif
    """
    from trackside.runs.recorded_run import read_run
    from trackside.runs.run_folder import find_run

    recorded = read_run(find_run(run))
    if output == "json":
        print_json(run_document(recorded))
    elif output == "jsonl":
        print_json_lines(map(verdict_document, recorded.verdicts))
    elif output in REPORTS:
        click.echo(report_text(recorded, output), nl=False)
    else:
        print_cards(recorded)
    if recorded.judged.reservation:
        click.echo(f"trackside: {recorded.judged.reservation}", err=True)
    threshold, worst = FAIL_ON[fail_on], recorded.worst_severity
    if threshold and worst and worst.rank >= threshold.rank:
        click.get_current_context().exit(FINDINGS)
    if threshold and not recorded.judged.is_judged:
        click.get_current_context().exit(NOT_JUDGED)
