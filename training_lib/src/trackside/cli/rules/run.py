"""`trackside rules run`: recorded runs judged now, with the cards that `trackside run` shows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.chosen_rules import RuleOptions, recorded_rules, rule_options
from trackside.cli.terminal.failure import FINDINGS, RULE_CRASHED
from trackside.cli.terminal.options import format_option, quiet_option, shared_options
from trackside.cli.terminal.rows import print_json, print_json_lines
from trackside.cli.terminal.views.run_cards import FAIL_ON, print_cards
from trackside.runs.run_document import run_document, verdict_document

if TYPE_CHECKING:
    from trackside.runs.judged_now import JudgedRun


@click.command("run")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@rule_options
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="never",
    show_default=True,
    help="Exit with 1 if an issue is at least this severe.",
)
@quiet_option("No line about the choice of the rules, and no progress bar.")
@format_option("table", "json", "jsonl")
@shared_options
def command(
    *,
    runs: tuple[str, ...],
    options: RuleOptions,
    fail_on: str,
    output: str,
) -> None:
    """Judge recorded RUNs by rules of your choice, now.

    It shows a card for each issue, as `trackside run` does, and the state of each rule. Earlier verdicts on a run do
    not count. Nothing is written and nobody is notified. A run that still trains is judged up to its newest step.

    `rules test` judges alike and shows the steps that a stop would have saved: a line for each issue, for comparing
    many runs.

    RUN is a folder, s3://bucket/prefix, the name of a run below .trackside/runs, or `latest`.

    \b
    Example:
      trackside rules run latest --only vanishing-gradient
      trackside rules run s3://bucket/digits-7 --only mine.py:Large:limit=3
    """
    from trackside.cli.terminal.progress import shown_waiting
    from trackside.runs.judged_now import judge_now
    from trackside.runs.run_folder import find_run

    configurations = recorded_rules(options).rules
    uris = [find_run(run) for run in runs]
    judged = []
    for run, uri in zip(runs, uris, strict=True):
        with shown_waiting(f"judging {run}"):
            judged.append(judge_now(uri, configurations, clock=time.time))
    _show(judged, output=output)
    click.get_current_context().exit(_exit_code(judged, fail_on=fail_on))


def _show(judged: Sequence[JudgedRun], *, output: str) -> None:
    if output == "json":
        print_json({"runs": [run_document(run.recorded) for run in judged]})
        return
    for number, run in enumerate(judged):
        if output == "jsonl":
            print_json_lines(map(verdict_document, run.recorded.verdicts))
            continue
        if number:
            click.echo()
        print_cards(run.recorded, state="" if run.found.has_ended else "not ended")
        if run.recorded.judged.reservation:
            click.echo(f"trackside: {run.recorded.judged.reservation}", err=True)


def _exit_code(judged: Sequence[JudgedRun], *, fail_on: str) -> int:
    """Return the exit code. A crash comes first: then not everything was judged."""
    if any(run.found.crashed for run in judged):
        return RULE_CRASHED
    threshold = FAIL_ON[fail_on]
    found = (run.recorded.worst_severity for run in judged)
    return FINDINGS if threshold and any(worst and worst.rank >= threshold.rank for worst in found) else 0
