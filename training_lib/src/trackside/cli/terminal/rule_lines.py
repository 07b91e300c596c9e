"""The states of a run's rules one below the other: a symbol, a word, a name and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from trackside.cli.terminal.console import safe
from trackside.cli.terminal.layout import columns
from trackside.local.rule_state import RuleState, RuleStatus

_LOOKS = {
    RuleState.ISSUE: ("✖", "X", "bold red"),
    RuleState.OK: ("✔", "+", "green"),
    RuleState.RUNNING: ("▶", ">", "cyan"),
    RuleState.NOT_ENOUGH_DATA: ("◌", "?", "yellow"),
    RuleState.ERROR: ("⚠", "!", "bold magenta"),
}

_ORDER = (RuleState.ISSUE, RuleState.ERROR, RuleState.NOT_ENOUGH_DATA, RuleState.RUNNING, RuleState.OK)

MOST_FINE_RULES = 4  # that have a line each


def rule_lines(console: Console, rules: Sequence[RuleStatus]) -> Iterator[Text]:
    """One line a rule where the console is wide enough; what needs a look comes first, many that are fine share one."""
    fine = [rule for rule in rules if rule.state is RuleState.OK]
    told = [rule for rule in rules if rule.state is not RuleState.OK or len(fine) <= MOST_FINE_RULES]
    rows = [
        [_state(console, rule.state), *(Text(safe(console, text)) for text in (rule.name, rule.detail))]
        for rule in sorted(told, key=lambda rule: _ORDER.index(rule.state))
    ]
    if len(fine) > MOST_FINE_RULES:
        through = max(rule.judged_through for rule in fine)
        names = ", ".join(rule.name for rule in fine)
        detail = f"No issue found up to step {through} by {names}."
        rows.append([_state(console, RuleState.OK), Text(f"{len(fine)} rules"), Text(safe(console, detail))])
    return columns(console, rows)


def _state(console: Console, state: RuleState) -> Text:
    symbol, ascii_symbol, style = _LOOKS[state]
    return Text(f"{ascii_symbol if console.options.ascii_only else symbol} {state.value}", style=style)
