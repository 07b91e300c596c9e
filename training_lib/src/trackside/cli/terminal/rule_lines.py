"""The states of a run's rules, one line each: symbol, word, name and reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from trackside.cli.terminal.console import safe
from trackside.cli.terminal.layout import columns
from trackside.local.rule_state import RuleState, RuleStatus

_LOOKS = {
    RuleState.ISSUE: ("✖", "X", "bold red"),
    RuleState.RECOVERED: ("✔", "+", "yellow"),
    RuleState.OK: ("✔", "+", "green"),
    RuleState.RUNNING: ("▶", ">", "cyan"),
    RuleState.NOT_ENOUGH_DATA: ("◌", "?", "yellow"),
    RuleState.NOT_APPLICABLE: ("–", "-", "dim"),
    RuleState.ERROR: ("⚠", "!", "bold magenta"),
}

_ORDER = (
    RuleState.ISSUE,
    RuleState.ERROR,
    RuleState.RECOVERED,
    RuleState.NOT_ENOUGH_DATA,
    RuleState.RUNNING,
    RuleState.OK,
    RuleState.NOT_APPLICABLE,
)

MOST_FINE_RULES = 4  # that have a line each


def rule_lines(console: Console, rules: Sequence[RuleStatus]) -> Iterator[Text]:
    """Yield one line a rule on a wide console: first rules that need a look.

    Many rules without an issue share one line.
    """
    rows: list[list[Text]] = []
    for state in _ORDER:
        these = [rule for rule in rules if rule.state is state]
        if state is RuleState.OK and len(these) > MOST_FINE_RULES:
            through = max(rule.judged_through for rule in these)
            names = ", ".join(rule.name for rule in these)
            statuses = [(f"{len(these)} rules", f"No issue found up to step {through} by {names}.")]
        else:
            statuses = [(rule.name, rule.detail) for rule in these]
        rows += [[_state(console, state), *(Text(safe(console, text)) for text in row)] for row in statuses]
    return columns(console, rows)


def _state(console: Console, state: RuleState) -> Text:
    symbol, ascii_symbol, style = _LOOKS[state]
    return Text(f"{ascii_symbol if console.options.ascii_only else symbol} {state.value}", style=style)
