"""The removal of runs, with a question before it: what goes, and how large it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.failure import FINDINGS
from trackside.cli.terminal.options import wants_color
from trackside.cli.terminal.rows import print_json
from trackside.contracts.english import size_of

if TYPE_CHECKING:
    from trackside.local.run_removal import RunToRemove

_DAY = 86400.0


def remove_runs(runs: Sequence[RunToRemove], *, is_agreed: bool, is_rehearsal: bool, output: str) -> None:
    """Show the runs, ask, and remove them. Exit with 1 if the user does not agree.

    Args:
        runs: The runs.
        is_agreed: True: do not ask.
        is_rehearsal: True: only show the runs.
        output: "table" or "json".
    """
    from trackside.local.run_removal import remove

    total = f"{len(runs)} run{'' if len(runs) == 1 else 's'}, {size_of(sum(run.size_bytes for run in runs))}"
    if output == "table":
        _print(runs)
    if not runs:
        click.echo("No run fits: nothing is removed.", err=True)
    elif is_rehearsal:
        click.echo(f"Would remove {total}.", err=True)
    elif not is_agreed and not _agrees(total):
        click.echo("Nothing was removed. --yes removes without a question.", err=True)
        click.get_current_context().exit(FINDINGS)
    else:
        for run in runs:
            remove(run)
        click.echo(f"Removed {total}.", err=True)
    if output == "json":
        print_json({"removed": not is_rehearsal, "runs": [_plain(run) for run in runs]})


def _agrees(total: str) -> bool:
    try:
        return click.confirm(f"Remove {total}, for good?", err=True)
    except click.Abort:  # stdin is closed: no answer can come
        return False


def _print(runs: Sequence[RunToRemove]) -> None:
    from trackside.cli.terminal.rows import print_table

    rows = [(run.folder.name, run.state.value, _age(run.age_seconds), size_of(run.size_bytes)) for run in runs]
    if rows:
        print_table(("run", "state", "age", "size"), rows, color=wants_color())


def _age(seconds: float) -> str:
    if seconds >= _DAY:
        return f"{seconds / _DAY:.0f} d"
    return f"{seconds / 3600:.0f} h" if seconds >= 3600 else f"{max(0.0, seconds) / 60:.0f} min"


def _plain(run: RunToRemove) -> dict[str, Any]:
    return {
        "name": run.folder.name,
        "uri": str(run.folder),
        "state": run.state.value,
        "age_seconds": round(run.age_seconds, 3),
        "size_bytes": run.size_bytes,
    }
