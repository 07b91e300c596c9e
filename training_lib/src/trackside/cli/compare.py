"""`trackside compare`: what differs between two runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.failure import FINDINGS
from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.reading import open_run
from trackside.cli.terminal.rows import json_value, print_json

if TYPE_CHECKING:
    from trackside.local.comparison import ComparedRun, Comparison

FAIL_ON: dict[str, Callable[[Comparison], bool]] = {
    "never": lambda found: False,
    "loss": lambda found: found.losses_part,
    "bitwise": lambda found: found.differs_in_any_bit,
    "issue": lambda found: bool(found.issues_b),
}


@click.command("compare")
@click.argument("a")
@click.argument("b")
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="never",
    show_default=True,
    help="Exit with 1 if the losses part beyond their noise, if any loss differs in a bit, or if B has an issue more.",
)
@format_option("table", "json")
@shared_options
def command(*, a: str, b: str, fail_on: str, output: str) -> None:
    """Show the differences between runs A and B.

    Settings (command, optimizers, losses, program, model) that differ; losses side by side, the first step at which
    they differ in a bit, and the first from which they differ by more than the noise of their steps; steps a second;
    issues that only one of them has. Steps are training steps, without evaluations. Runs are named as for
    `trackside tensors`.

    The exit code is 0 whatever differs, unless --fail-on is given.

    \b
    Example:
      trackside compare latest s3://bucket/digits-7
      trackside compare good-run latest --fail-on loss
    """
    from trackside.local.comparison import compare

    found = compare(_opened(a), _opened(b), now=time.time())
    if output == "json":
        print_json({name: _plain(value) for name, value in asdict(found).items()})
    else:
        from trackside.cli.terminal.comparison_table import print_comparison

        print_comparison(found, color=wants_color())
    if FAIL_ON[fail_on](found):
        click.get_current_context().exit(FINDINGS)


def _opened(run: str) -> ComparedRun:
    from trackside.local.comparison import ComparedRun
    from trackside.local.recorded_run import read_run
    from trackside.local.run_folder import find_run, read_record

    uri = find_run(run)
    return ComparedRun(
        recorded=read_run(uri), trial=open_run(run), record=None if "://" in uri else read_record(Path(uri))
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else json_value(value)
