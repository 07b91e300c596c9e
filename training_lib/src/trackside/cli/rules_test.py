"""`trackside rules test`: what rules would have said about recorded runs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.run import parse_rule
from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import PRESETS, RuleConfiguration, RuleRequest

if TYPE_CHECKING:
    from trackside.evaluation.backtest import Backtest

SCHEMA_VERSION = 1


@click.command("test")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="ID[:NAME=VALUE,...]",
    help="Test this rule, or your own: FILE.py:CLASS. Repeat for more. Default: all.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the one --rule.")
@click.option("--preset", type=click.Choice(PRESETS), default=PRESETS[0], show_default=True, help="In whose sense.")
@format_option("table", "json", "jsonl")
@shared_options
def command(runs: tuple[str, ...], rules: tuple[str, ...], settings: tuple[str, ...], preset: str, output: str) -> None:
    """Say what rules would have found in recorded RUNs.

    It names the steps, and how many of them a stop would have saved. Nothing is written and nobody is told.

    \b
    Example:
      trackside rules test latest
      trackside rules test run-1 run-2 --rule overfit --set ratio_threshold=0.2
    """
    from trackside.evaluation.backtest import backtest
    from trackside.local.run_folder import find_run

    configurations = _configurations(rules, settings, preset)
    tested = [(run, backtest(find_run(run), configurations, clock=time.time)) for run in runs]
    if output == "json":
        click.echo(
            json.dumps({"schema_version": SCHEMA_VERSION, "runs": [_plain(run, b) for run, b in tested]}, indent=2)
        )
    elif output == "jsonl":
        for run, found in tested:
            click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **_plain(run, found)}))
    else:
        _print_table(tested, configurations)


def _configurations(rules: Sequence[str], settings: Sequence[str], preset: str) -> list[RuleConfiguration]:
    catalogue = built_in_catalogue()
    problems: list[Problem] = []
    chosen = [one for text in rules if (one := _rule(text, problems)) is not None]
    if settings and len(rules) != 1:
        problems.append(Problem("--set", "needs one --rule whose parameter it sets.", "Write --rule ID:NAME=VALUE,..."))
    if not rules:
        offered = [rule for rule in catalogue.usual if catalogue.rules[rule].in_sense_of(preset) is not None]
        chosen = [RuleConfiguration(rule_id) for rule_id in offered]
    parameters = dict(_pair(text, problems) for text in settings)
    chosen = [replace(one, parameters={**one.parameters, **parameters}) for one in chosen]
    chosen = [one if one.custom else replace(one, preset="" if preset == PRESETS[0] else preset) for one in chosen]
    if problems:
        raise ConfigurationError(problems, subject="The command line")
    catalogue.check(RuleRequest(tuple(chosen)))
    return chosen


def _rule(text: str, problems: list[Problem]) -> RuleConfiguration | None:
    try:
        return parse_rule(text)
    except ValueError as error:
        problems.append(Problem(f"--rule {text}", str(error)))
        return None


def _pair(text: str, problems: list[Problem]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        problems.append(Problem(f"--set {text}", "is not NAME=VALUE."))
    return name.strip(), value.strip()


def _plain(run: str, found: Backtest) -> dict[str, Any]:
    return {
        "run": run,
        "last_step": found.last_step,
        "stop_step": found.stop_step,
        "saved_steps": found.saved_steps,
        "judged": found.judged,
        "findings": [json.loads(verdict.to_json()) for verdict in found.issues],
    }


def _print_table(tested: Sequence[tuple[str, Backtest]], rules: Sequence[RuleConfiguration]) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import data_console
    from trackside.cli.terminal.layout import columns

    console = data_console(color=wants_color())
    rows = []
    for run, found in tested:
        for verdict in found.issues:
            lead = verdict.lead
            texts = (
                run,
                verdict.configuration_name,
                verdict.severity.value,
                str(verdict.step),
                str(verdict.since_step),
                lead.comparison if lead else verdict.message,
            )
            rows.append([Text(text) for text in texts])
    if rows:
        for line in columns(console, rows, header=("run", "rule", "severity", "step", "since", "observed")):
            console.print(line)
        console.print()
    for run, found in tested:
        console.print(Text(f"{run}: {_summary(found, len(rules))}"), soft_wrap=True)


def _summary(found: Backtest, rules: int) -> str:
    if found.last_step < 0:
        return "holds no step."
    issues = len(found.issues)
    said = f"{issues} issue{'' if issues == 1 else 's'} by {rules} rule{'' if rules == 1 else 's'}"
    if found.stop_step is None:
        return f"{said}; nothing would have stopped it in its {found.last_step + 1} steps."
    steps, saved = found.last_step + 1, found.saved_steps
    return f"{said}; stopped at step {found.stop_step}, {saved} of {steps} steps saved ({saved / steps:.0%})."
