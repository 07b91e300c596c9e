"""The verdicts on a run: as cards for people, or as a document for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackside.cli.terminal.options import wants_color
from trackside.contracts.verdict import Severity

if TYPE_CHECKING:
    from trackside.runs.recorded_run import RecordedRun

FAIL_ON = {"never": None, "warning": Severity.WARNING, "critical": Severity.CRITICAL}


def print_cards(recorded: RecordedRun, *, state: str = "") -> None:
    """Print a heading, a card for each problem, and a line for each rule.

    `state` replaces the run's state in the heading.
    """
    from rich.text import Text

    from trackside.cli.terminal.console import data_console, safe
    from trackside.cli.terminal.views.card import VerdictCard
    from trackside.cli.terminal.views.rule_lines import rule_lines
    from trackside.runs.source_text import SourceText

    console = data_console(color=wants_color())
    state = state or recorded.state_in_words
    count = len(recorded.steps)
    heading = f"{recorded.location.name}: {state}, {count} step{'' if count == 1 else 's'} saved"
    console.print(Text(safe(console, heading), style="bold"))
    console.print()
    sources = SourceText(recorded.location.uri)
    for group in recorded.groups:
        console.print(VerdictCard(group, sources=sources))
        console.print()
    for line in rule_lines(console, recorded.rules):
        console.print(line)
