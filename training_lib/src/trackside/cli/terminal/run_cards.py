"""The verdicts on a run: as cards for people, or as a document for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trackside.cli.terminal.options import wants_color
from trackside.contracts.verdict import Severity, Verdict

if TYPE_CHECKING:
    from trackside.local.recorded_run import RecordedRun

FAIL_ON = {"never": None, "warning": Severity.WARNING, "critical": Severity.CRITICAL}


def run_document(recorded: RecordedRun) -> dict[str, Any]:
    """Return the run, the state of each rule, and the issues, as plain JSON values."""
    return {
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
        "findings": [verdict_document(verdict) for verdict in recorded.issues],
    }


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict in its form in `verdicts.jsonl`."""
    fields: dict[str, Any] = json.loads(verdict.to_json())
    return fields


def print_cards(recorded: RecordedRun, *, state: str = "") -> None:
    """Print a heading, a card for each issue, and a line for each rule.

    `state` replaces the run's state in the heading.
    """
    from rich.text import Text

    from trackside.cli.terminal.card import VerdictCard
    from trackside.cli.terminal.console import data_console, safe
    from trackside.cli.terminal.rule_lines import rule_lines

    console = data_console(color=wants_color())
    state = state or ("ended" if recorded.has_ended else "running")
    count = len(recorded.steps)
    heading = f"{recorded.location.name}: {state}, {count} step{'' if count == 1 else 's'} saved"
    console.print(Text(safe(console, heading), style="bold"))
    console.print()
    for verdict in recorded.issues:
        console.print(VerdictCard(verdict))
        console.print()
    for line in rule_lines(console, recorded.rules):
        console.print(line)
