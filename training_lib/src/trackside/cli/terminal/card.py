"""The verdict card: finding, place, first step, observed value against threshold, advice.

It reads as plain text in a log file too: no box to the right, no meaning in colour alone.
"""

from __future__ import annotations

import re

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from trackside.cli.terminal.layout import beside, wrapped
from trackside.cli.terminal.sparkline import is_log_scaled, sparkline
from trackside.cli.terminal.text import printable
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.verdict import Finding, Severity, Verdict

LABEL_COLUMNS = 11
MOST_NAMED = 3
MOST_STEPS = 4

_SYMBOLS = {Severity.CRITICAL: "✖", Severity.WARNING: "▲", Severity.INFO: "●"}
_ASCII_SYMBOLS = {Severity.CRITICAL: "X", Severity.WARNING: "!", Severity.INFO: "i"}
_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}


class VerdictCard:
    """A verdict with an issue, as Rich prints it."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        verdict, ascii_only = self._verdict, options.ascii_only
        style = _STYLES[verdict.severity]
        symbol = (_ASCII_SYMBOLS if ascii_only else _SYMBOLS)[verdict.severity]

        def clean(text: str) -> str:
            return printable(text, encoding=options.encoding)

        title = Text(f"{symbol} {verdict.severity.value.upper()}  {clean(verdict.configuration_name)}", style=style)
        line = "-" if ascii_only else "─"
        yield title + Text(f" {line * max(0, options.max_width - title.cell_len - 1)}".rstrip(), style=style)
        yield from wrapped(console, Text(clean(_what(verdict))), options.max_width)
        for row_label, row in _rows(verdict, ascii_only=ascii_only):
            label = Text(row_label, style="bold")
            yield from beside(console, label, Text(clean(row)), indent=LABEL_COLUMNS, width=options.max_width)
        for number, suspicion in enumerate(suspicions_of(verdict), 1):
            label = Text("likely" if number == 1 else "", style="bold")
            text = Text(f"{number}. {clean(suspicion)}")
            yield from beside(console, label, text, indent=LABEL_COLUMNS, width=options.max_width)
        steps = steps_to_try(verdict)
        if steps:
            yield Text("what to do", style="bold")
        for number, step in enumerate(steps, 1):
            yield from beside(console, Text(f" {number:>2}."), Text(clean(step)), indent=5, width=options.max_width)
        yield Text(line * options.max_width, style=style)


def suspicions_of(verdict: Verdict) -> tuple[str, ...]:
    """Return the likeliest causes as texts, likeliest first, with the numbers of this run as evidence."""
    return tuple(
        [
            f"{one.explanation.what}: {one.because}" if one.because else one.explanation.what
            for one in verdict.suspicions
        ]
    )[:MOST_NAMED]


def steps_to_try(verdict: Verdict) -> tuple[str, ...]:
    """Return the fixes for the likeliest causes, then the rule's general advice; each once."""
    fixes = [one.explanation.fix for one in verdict.suspicions[:2]]
    return tuple(dict.fromkeys([*fixes, *verdict.what_to_do]))[:MOST_STEPS]


def module_of(subject: str) -> str:
    """Return the module of a tensor in words: `gradient/MLP_layers.0.weight` -> `layers.0 of MLP`.

    smdebug's names join root class and path by an underscore, which either may also contain. A name with more than one
    reading stays unchanged.
    """
    name = subject.rpartition("/")[2]
    output = re.fullmatch(r"(.+)_(?:output|input)_\d+", name)
    if output:
        return output[1]
    module, dot, _ = name.rpartition(".")
    root, underscore, path = module.partition("_")
    if not dot:
        return ""
    return f"{path} of {root}" if underscore and path and "_" not in path else module


def _what(verdict: Verdict) -> str:
    """Return the rule's summary, for the rows below hold the details. For a rule that is not built in, its message."""
    rule = built_in_catalogue().rules.get(verdict.rule_id)
    if rule and verdict.findings:
        return rule.summary
    lead = verdict.lead
    if lead is None or f" ({lead.comparison} at step {lead.step})" not in verdict.message:
        return verdict.message
    return f"{verdict.message.partition(f': {lead.subject}')[0]}."


def _rows(verdict: Verdict, *, ascii_only: bool) -> list[tuple[str, str]]:
    lead = verdict.lead
    if lead is None:
        return [("step", str(verdict.step))]
    module = module_of(lead.subject)
    where = f"{module}, {lead.worker}" if module else lead.worker
    rows = [
        ("tensor", lead.subject),
        ("where", where),
        ("line", lead.place),
        ("since", f"step {verdict.since_step} (found at step {verdict.step})"),
        ("affected", _affected(verdict)),
        ("observed", lead.comparison),
        ("evidence", _evidence(lead, ascii_only=ascii_only)),
    ]
    return [(label, text) for label, text in rows if text]


def _affected(verdict: Verdict) -> str:
    """Return the number of affected tensors with some names; "" for one, which the row above names."""
    if verdict.affected < 2:
        return ""
    several = len({finding.worker for finding in verdict.findings}) > 1
    shown = verdict.findings[1 : MOST_NAMED + 1]
    others = [f"{finding.subject} ({finding.worker})" if several else finding.subject for finding in shown]
    rest = verdict.affected - 1 - len(others)
    also = [*others, f"{rest} more"] if rest > 0 else others
    return f"{verdict.affected} tensors; also {', '.join(also)}"


def _evidence(finding: Finding, *, ascii_only: bool) -> str:
    if len(finding.series) < 2:
        return ""
    (first_step, first), (last_step, last) = finding.series[0], finding.series[-1]
    values = [value for _, value in finding.series]
    arrow = "->" if ascii_only else "→"
    scale = ", log scale" if is_log_scaled(values) else ""
    spark = sparkline(values, ascii_only=ascii_only)
    return f"{spark}  {first:.3g} {arrow} {last:.3g}, steps {first_step} to {last_step}{scale}"
