"""`trackside findings`: what the rules said about a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.failure import FINDINGS
from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.contracts.verdict import Severity, Verdict

if TYPE_CHECKING:
    from trackside.local.recorded_run import RecordedRun

SCHEMA_VERSION = 1
FAIL_ON = {"never": None, "warning": Severity.WARNING, "critical": Severity.CRITICAL}


@click.command("findings")
@click.argument("run")
@format_option("table", "json", "jsonl")
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="never",
    show_default=True,
    help="Exit with 1 if an issue is at least this severe.",
)
@shared_options
def command(run: str, output: str, fail_on: str) -> None:
    """Show what the rules said about RUN.

    RUN is a folder, s3://bucket/prefix, the name of a run below .trackside/runs, or `latest`.

    \b
    Example:
      trackside findings latest
      trackside findings s3://bucket/digits-7 --fail-on critical
    """
    from trackside.local.recorded_run import read_run
    from trackside.local.rule_state import worst_severity
    from trackside.local.run_folder import find_run

    recorded = read_run(find_run(run))
    if output == "json":
        click.echo(json.dumps(_document(recorded), indent=2))
    elif output == "jsonl":
        for verdict in recorded.verdicts:
            click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **_plain(verdict)}))
    else:
        _print_cards(recorded)
    threshold, worst = FAIL_ON[fail_on], worst_severity(recorded.verdicts)
    if threshold and worst and worst.rank >= threshold.rank:
        click.get_current_context().exit(FINDINGS)


def _document(recorded: RecordedRun) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "run": recorded.location.uri,
        "has_ended": recorded.has_ended,
        "steps_saved": len(recorded.steps),
        "rules": [
            {
                "name": rule.name,
                "rule": rule.rule_id,
                "state": rule.state.value,
                "detail": rule.detail,
                "steps_judged": rule.judged,
            }
            for rule in recorded.rules
        ],
        "findings": [_plain(verdict) for verdict in recorded.issues],
    }


def _plain(verdict: Verdict) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(verdict.to_json())
    return fields


def _print_cards(recorded: RecordedRun) -> None:
    from rich.text import Text

    from trackside.cli.terminal.card import VerdictCard
    from trackside.cli.terminal.console import data_console, safe
    from trackside.cli.terminal.rule_lines import rule_lines

    console = data_console(color=wants_color())
    state = "ended" if recorded.has_ended else "running"
    count = len(recorded.steps)
    heading = f"{recorded.location.name}: {state}, {count} step{'' if count == 1 else 's'} saved"
    console.print(Text(safe(console, heading), style="bold"))
    console.print()
    for verdict in recorded.issues:
        console.print(VerdictCard(verdict))
        console.print()
    for line in rule_lines(console, recorded.rules):
        console.print(line)
