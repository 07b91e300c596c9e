"""`trackside wait`: block until a run has an issue, or has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.failure import ENDED_BADLY, FINDINGS, NOT_JUDGED, TIME_IS_OVER
from trackside.cli.terminal.options import format_option, shared_options
from trackside.cli.terminal.rows import print_json
from trackside.contracts.verdict import Severity

if TYPE_CHECKING:
    from trackside.runs.run_waiting import Waited


@click.command("wait")
@click.argument("run", default="latest")
@click.option(
    "--until",
    type=click.Choice(["issue", "end"]),
    default="issue",
    show_default=True,
    help="The first issue or the end of the run, whichever comes first; or its end.",
)
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="The longest time; 0: look once.",
)
@click.option(
    "--severity",
    type=click.Choice([each.value for each in Severity]),
    default=Severity.WARNING.value,
    show_default=True,
    help="An issue at least this severe counts.",
)
@click.option(
    "--since",
    type=click.IntRange(min=0),
    default=0,
    metavar="CURSOR",
    help="Leave out issues found before: the cursor that an earlier wait printed.",
)
@format_option("table", "json")
@shared_options
def command(*, run: str, until: str, seconds: float, severity: str, since: int, output: str) -> None:
    """Wait until RUN has an issue, or has ended.

    RUN is named as for `trackside findings`; one that does not exist yet may appear while it is waited for. The end is
    the moment at which the rules have judged the run, too. An issue that recovered does not count.

    Exits with 1 for an issue; 0 for the end without one; 8 for the end of a run that nobody judged; 10 for the end of
    a run that failed, was interrupted or was killed, without an issue; 9 if the time is over first.

    \b
    Example:
      trackside wait
      trackside wait runs/digits --until end --timeout 600 --json
      trackside wait runs/digits --since 12
    """
    from trackside.runs.run_folder import find_run
    from trackside.runs.run_waiting import Wait, wait_for

    wait = Wait(until == "issue", seconds, Severity(severity), since)
    waited = wait_for(lambda: find_run(run), wait)
    if waited.recorded is None:
        find_run(run)  # which explains what is missing
    if output == "json":
        from trackside.runs.run_document import waited_document

        print_json(waited_document(waited))
    else:
        _print(waited)
    click.get_current_context().exit(_exit_code(waited))


def _exit_code(waited: Waited) -> int:
    from trackside.runs.run_waiting import EndOfWait

    if waited.problems:
        return FINDINGS
    if waited.ended_by is EndOfWait.TIMEOUT or waited.recorded is None:
        return TIME_IS_OVER
    if not waited.ended_well:
        return ENDED_BADLY
    return 0 if waited.recorded.judged.is_judged else NOT_JUDGED


def _print(waited: Waited) -> None:
    from trackside.cli.terminal.text import printable
    from trackside.runs.problem_text import problems_as_text

    recorded = waited.recorded
    if recorded is None:
        return
    count = len(waited.problems)
    found = f"{count} problem{'' if count == 1 else 's'}" if count else recorded.judged.no_issue
    lines = [f"{recorded.location.name}: {waited.ended_by.value}; {recorded.state_in_words}; issues: {found}"]
    for line in (*lines, *problems_as_text(waited.problems), f"cursor {waited.cursor}"):
        click.echo(printable(line))
