"""`trackside drill`: proves that a deployment finds a fault, notifies its owners and stops the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.failure import FINDINGS
from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.table_option import environment_option

if TYPE_CHECKING:
    from trackside.cloud.drill import Drill, Report

# On this machine nothing takes minutes, and each look takes processor time from what it looks at.
LOCAL_PACE_SECONDS, LOCAL_POLL_SECONDS = 0.05, 0.5


@click.command("drill")
@click.option("--local", is_flag=True, help="In a local account of its own: nothing leaves this machine.")
@environment_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask before it begins in a real account.")
@click.option(
    "--instance-type", default="ml.m5.large", show_default=True, metavar="TYPE", help="Of the training job's instance."
)
@click.option(
    "--timeout-minutes",
    default=30.0,
    show_default=True,
    metavar="MINUTES",
    type=click.FloatRange(min=0, min_open=True),
    help="Time limit; the training job ends then, too.",
)
@format_option("text", "json")
@shared_options
def command(
    *, local: bool, environment: str, yes: bool, instance_type: str, timeout_minutes: float, output: str
) -> None:
    """Prove that a deployment finds a fault and acts.

    Starts a small training job that goes wrong on purpose, and waits for the verdict, the message, the
    metric, the alarm and the stop. Then it removes all that it made. It needs a deployment with
    `-c trackside:drills=true`, in the account and region of the credentials.

    \b
    Example:
      trackside drill --local
      trackside drill --yes
    """
    from trackside.cloud.calls import Calls
    from trackside.cloud.drill import Drill, DrillSettings

    settings = DrillSettings(instance_type=instance_type, timeout_seconds=60 * timeout_minutes)
    with _local_account() if local else nullcontext(None) as client:
        drill = Drill(Calls(client), settings, environment=environment)
        if drill.is_local:
            drill.settings = replace(settings, pace_seconds=LOCAL_PACE_SECONDS, poll_seconds=LOCAL_POLL_SECONDS)
        elif not yes:
            click.echo(_announcement(drill, minutes=timeout_minutes), err=True)
            if not _is_agreed():
                click.echo("Nothing was begun. --yes begins without asking.", err=True)
                click.get_current_context().exit(FINDINGS)
        report = _carried_out(drill)
    _show(report, output=output)
    if not report.passed or report.left:
        click.get_current_context().exit(FINDINGS)


def _is_agreed() -> bool:
    try:
        return click.confirm("Begin?", err=True)
    except click.Abort:  # stdin is closed: no answer can come
        return False


@contextmanager
def _local_account() -> Iterator[Callable[[str], Any]]:
    from trackside.cli.terminal.console import progress_console
    from trackside.cloud.drill_stage import drill_stage

    with progress_console(color=wants_color()).status("Trackside is deployed into a local account"):
        stage = drill_stage()
        client = stage.__enter__()
    try:
        yield client
    finally:
        stage.__exit__(None, None, None)


def _carried_out(drill: Drill) -> Report:
    """Run the drill and return its report.

    Afterwards, also after Ctrl-C, remove what it made and report what is left.
    """
    from trackside.cli.terminal.console import progress_console

    console = progress_console(color=wants_color())
    report = None
    try:
        with console.status("the training job is started") as status:
            drill.begin()
            report = drill.follow(lambda _: None, lambda effect: status.update(f"waiting: {effect}"))
    finally:
        with console.status("what it made is removed"):
            cleaned, left = drill.clean_up()
        if report is None:
            click.echo(
                "\n".join(["The drill was broken off.", *cleaned, *(f"NOT removed: {one}" for one in left)]), err=True
            )
    return replace(report, cleaned=cleaned, left=left)


def _announcement(drill: Drill, *, minutes: float) -> str:
    return "\n".join(
        [
            f"A drill in account {drill.account}, {drill.region}:",
            f"  - starts a training job on one {drill.settings.instance_type}, and what judges it beside it;",
            f"    both are paid by the second, usually for about 10 minutes, at most {minutes:g}",
            "  - notifies all subscribers of the topic of issues, and raises the",
            "    alarm on issues, as a real fault would: warn who is on call",
            "  - removes what it made; the table of runs keeps its record",
        ]
    )


def _show(report: Report, *, output: str) -> None:
    from trackside.cli.terminal.views.drill_card import DrillCard, as_document

    if output == "json":
        from trackside.cli.terminal.rows import print_json

        print_json(as_document(report))
        return
    from trackside.cli.terminal.console import data_console

    data_console(color=wants_color()).print(DrillCard(report))
