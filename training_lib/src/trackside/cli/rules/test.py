"""`trackside rules test`: backtests of rules on recorded runs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.chosen_rules import RuleOptions, recorded_rules, rule_options
from trackside.cli.terminal.failure import RULE_CRASHED
from trackside.cli.terminal.options import format_option, quiet_option, shared_options, wants_color
from trackside.cli.terminal.rows import print_json, print_json_lines
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Outcome

if TYPE_CHECKING:
    from trackside.evaluation.backtest import Backtest


@click.command("test")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@rule_options
@quiet_option("No line about the choice of the rules, and no progress bar.")
@format_option("table", "json", "jsonl")
@shared_options
def command(
    *,
    runs: tuple[str, ...],
    options: RuleOptions,
    output: str,
) -> None:
    """Backtest rules on recorded RUNs.

    It shows the step of each issue, and the number of steps that a stop would have saved: a line for each issue, for
    comparing runs and thresholds. Nothing is written and nobody is notified. `rules run` judges alike and shows each
    issue as a card.

    \b
    Example:
      trackside rules test latest
      trackside rules test run-1 run-2 --only overfit:ratio_threshold=0.2
    """
    from trackside.cli.terminal.progress import shown_waiting
    from trackside.runs.judged_now import judge_now
    from trackside.runs.run_folder import find_run

    configurations = recorded_rules(options).rules
    uris = [find_run(run) for run in runs]
    tested = []
    for run, uri in zip(runs, uris, strict=True):
        with shown_waiting(f"judging {run}"):
            tested.append((run, judge_now(uri, configurations, clock=time.time).found))
    if output == "json":
        print_json({"runs": [_plain(run, b) for run, b in tested]})
    elif output == "jsonl":
        print_json_lines(_plain(run, found) for run, found in tested)
    else:
        _print_table(tested, configurations)
    if any(backtest.crashed for _, backtest in tested):
        click.get_current_context().exit(RULE_CRASHED)


def _plain(run: str, found: Backtest) -> dict[str, Any]:
    return {
        "run": run,
        "last_step": found.last_step,
        "stop_step": found.stop_step,
        "saved_steps": found.saved_steps,
        "judged": found.judged,
        "crashed": list(found.crashed),
        "findings": [json.loads(verdict.to_json()) for verdict in found.issues],
    }


def _print_table(tested: Sequence[tuple[str, Backtest]], rules: Sequence[RuleConfiguration]) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import data_console
    from trackside.cli.terminal.layout import columns, wrapped

    console = data_console(color=wants_color())
    rows = []
    for run, found in tested:
        for verdict in found.issues:
            lead = verdict.lead
            texts = (
                run,
                verdict.configuration_name,
                verdict.severity.value,
                str(verdict.shown_step),
                str(verdict.shown_since),
                lead.comparison if lead else verdict.message,
            )
            rows.append([Text(text) for text in texts])
    if rows:
        for line in columns(console, rows, header=("run", "rule", "severity", "step", "since", "observed")):
            console.print(line)
        console.print()
    for run, found in tested:
        summary = Text(f"{run}: {_summary(found, len(rules))}")
        for line in wrapped(console, summary, console.width) if console.is_terminal else [summary]:
            console.print(line, soft_wrap=True)


def _summary(found: Backtest, rules: int) -> str:
    if found.last_step < 0:
        return "holds no step."
    issues = len(found.issues)
    sentence = f"{issues} issue{'' if issues == 1 else 's'} by {rules} rule{'' if rules == 1 else 's'}"
    troubles = [f"{', '.join(found.crashed)} crashed"] if found.crashed else []
    silent = {v.configuration_name for v in found.verdicts if v.outcome is Outcome.NOT_EVALUATED} - {*found.crashed}
    troubles += [f"{len(silent)} could not answer"] if silent else []
    sentence += f" ({'; '.join(troubles)})" if troubles else ""
    if found.stop_step is None:
        return f"{sentence}; nothing would have stopped it in its {found.last_step + 1} steps."
    steps, saved = found.last_step + 1, found.saved_steps
    return f"{sentence}; stopped at step {found.stop_step}, {saved} of {steps} steps spared ({saved / steps:.0%})."
