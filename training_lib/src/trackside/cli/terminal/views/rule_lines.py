"""The states of a run's rules, one line each: symbol, word, name and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from trackside.cli.terminal.console import safe
from trackside.cli.terminal.layout import columns
from trackside.cli.terminal.severity import STYLES, symbol_of
from trackside.contracts.verdict import Severity
from trackside.runs.rule_state import RuleState, RuleStatus, judged_through

_LOOKS = {
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
            through = judged_through(these)
            names = ", ".join(rule.name for rule in these)
            statuses = [(f"{len(these)} rules", f"No issue found up to step {through} by {names}.")]
        elif state is RuleState.NOT_APPLICABLE and len(these) > MOST_FINE_RULES:
            statuses = [(f"{len(these)} rules", f"{_reasons(these)} (--format json has each)")]
        elif len(these) > MOST_FINE_RULES and len({rule.detail for rule in these}) == 1:
            statuses = [(f"{len(these)} rules", these[0].detail)]
        else:
            statuses = [(rule.name, rule.detail) for rule in these]
        looks = [_state(console, rule) for rule in these[: len(statuses)]]
        rows += [
            [look, *(Text(safe(console, text)) for text in row)] for look, row in zip(looks, statuses, strict=True)
        ]
    return columns(console, rows)


def _reasons(rules: Sequence[RuleStatus]) -> str:
    """Return the reason that most rules share, and the number of rules with others."""
    (most, count), *others = Counter(rule.detail for rule in rules).most_common()
    if not others:
        return most
    if count == 1:
        return "each for its own reason"
    rest = "another reason" if len(rules) == count + 1 else "other reasons"
    return f"{count} of them: {most.rstrip('.')}; {len(rules) - count} for {rest}"


def _state(console: Console, rule: RuleStatus) -> Text:
    is_ascii = console.options.ascii_only
    if rule.state is RuleState.ISSUE:
        severity = rule.verdict.severity if rule.verdict is not None else Severity.WARNING
        return Text(f"{symbol_of(severity, ascii_only=is_ascii)} {rule.state.value}", style=STYLES[severity])
    symbol, ascii_symbol, style = _LOOKS[rule.state]
    return Text(f"{ascii_symbol if is_ascii else symbol} {rule.state.value}", style=style)
