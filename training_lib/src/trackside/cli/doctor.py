"""`trackside doctor`: checks of the installation, and of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.failure import FINDINGS
from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.progress import shown

if TYPE_CHECKING:
    from rich.console import Console

    from trackside.cli.health.installation import Check


@click.command("doctor")
@click.argument("run", required=False)
@click.option("--all-files", is_flag=True, help="Read every file of RUN to its end, to find all that is damaged.")
@format_option("table", "json")
@shared_options
def command(*, run: str | None, all_files: bool, output: str) -> None:
    """Check the installation and, if named, a RUN.

    The TRACKSIDE_* variables that are set are checked, too. RUN is named as for `trackside tensors`. Exits with 1 if
    it finds a problem, and names a cure for it.

    \b
    Example:
      trackside doctor
      trackside doctor latest --all-files
    """
    from trackside.cli.health.installation import State, check_installation
    from trackside.cli.terminal.rows import print_json
    from trackside.environment import inherited

    if all_files and run is None:
        raise click.UsageError("--all-files reads the files of a run: name one.")
    checks = [*check_installation(inherited()), *(_run_checks(run, all_files=all_files) if run is not None else ())]
    problems = sum(check.state is State.PROBLEM for check in checks)
    if output == "json":
        print_json(
            {"problems": problems, "checks": [{**asdict(check), "state": check.state.value} for check in checks]}
        )
    else:
        _print(checks, problems)
    if problems:
        click.get_current_context().exit(FINDINGS)


def _run_checks(run: str, *, all_files: bool) -> tuple[Check, ...]:
    from trackside.cli.health.run_check import check_run
    from trackside.cli.terminal.reading import open_run

    def read(keys: Sequence[str]) -> Iterable[str]:
        return shown(keys, "reading event files")

    return check_run(run, open_run=open_run, read=read if all_files else None)


def _print(checks: Sequence[Check], problems: int) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import data_console, safe
    from trackside.cli.terminal.layout import columns

    console = data_console(color=wants_color())
    rows = [
        [
            Text(safe(console, text), style=style)
            for text, style in ((check.state.value, _style(check)), (check.name, ""))
        ]
        + [Text(safe(console, check.found))]
        for check in checks
    ]
    for line in columns(console, rows, header=("state", "what", "found")):
        console.print(line)
    _print_fixes(console, checks)
    console.print()
    text = "All is well." if not problems else f"{problems} problem{'' if problems == 1 else 's'}."
    console.print(Text(text, style="bold"))


def _print_fixes(console: Console, checks: Sequence[Check]) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import safe
    from trackside.cli.terminal.layout import wrapped

    for check in checks:
        if check.fix:
            console.print()
            for line in wrapped(console, Text(safe(console, f"{check.name}: {check.fix}")), console.width):
                console.print(line)
            for command in check.commands:
                console.print(Text(f"  {command}"), soft_wrap=True)


def _style(check: Check) -> str:
    return {"ok": "green", "note": "yellow", "problem": "bold red"}[check.state.value]
