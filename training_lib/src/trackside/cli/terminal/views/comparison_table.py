"""Two runs side by side, for people."""

from __future__ import annotations

from rich.text import Text

from trackside.cli.terminal.console import data_console, safe
from trackside.cli.terminal.layout import columns, wrapped
from trackside.contracts.run_layout import RunLocation
from trackside.speed.performance.step_time_gate import Gate
from trackside.views.comparing.comparison import Comparison
from trackside.views.comparing.comparison_text import (
    cure_lines,
    facts_in_order,
    gate_lines,
    issue_lines,
    loss_lines,
    pace_line,
    speed_lines,
    verdict_line,
)

MOST_FACTS = 20
MOST_CELL = 24  # characters of a fact, in a column of 80


def print_comparison(found: Comparison, *, color: bool) -> None:
    """Print the comparison: the verdict, settings, losses, pace, issues."""
    console = data_console(color=color)

    def show(line: str, style: str = "") -> None:
        for part in wrapped(console, Text(safe(console, line), style=style), console.width):
            console.print(part)

    show(f"A  {RunLocation(found.a).name}", "bold")
    show(f"B  {RunLocation(found.b).name}", "bold")
    show(verdict_line(found), "bold")
    show("")
    facts = [*facts_in_order(found.facts)]
    if facts:
        rows = [
            [Text(safe(console, _cut(f.a))), Text(safe(console, _cut(f.b))), Text(safe(console, f.fact))]
            for f in facts[:MOST_FACTS]
        ]
        for row in columns(console, rows, header=("A", "B", "setting")):
            console.print(row)
        if len(facts) > MOST_FACTS:
            show(f"and {len(facts) - MOST_FACTS} more settings: --format json")
    else:
        show("No recorded setting differs.")
    show("")
    for line in loss_lines(found):
        show(line)
    show(pace_line(found))
    for line in speed_lines(found):
        show(line)
    show("")
    for line in issue_lines(found):
        show(line)
    for number, line in enumerate(cure_lines(found)):
        show(line, "" if number else "bold")


def print_gate(found: Gate, *, color: bool) -> None:
    """Print the verdict on the time of steps, and the runs that it is about."""
    console = data_console(color=color)
    console.print()
    for number, line in enumerate(gate_lines(found)):
        for part in wrapped(console, Text(safe(console, line), style="" if number else "bold"), console.width):
            console.print(part)


def _cut(text: str) -> str:
    if not text:
        return "-"
    return text if len(text) <= MOST_CELL else f"{text[: MOST_CELL - 1]}…"
