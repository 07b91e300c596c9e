"""The report in short, as Markdown: for a pull request, the summary of a job, a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trackside.contracts.issue_group import IssueGroup
from trackside.runs.problem_text import fixes_of, rows_of, safe, title_of, what_of
from trackside.runs.rule_state import RuleState, RuleStatus
from trackside.runs.source_text import SourceText
from trackside.views.report.gathered import ReportData
from trackside.views.report.page import key_numbers, verdict_of

_MARKS = re.compile(r"([\\`*_\[\]<>|#~])")
_NO_MENTION = "@\u200b"  # a name of a tensor must not call a person


def markdown_of(data: ReportData) -> str:
    """Return the report in short."""
    lines = [f"## {escaped(data.recorded.location.name)}", "", f"**{escaped(verdict_of(data))}**", ""]
    numbers = list(key_numbers(data))
    lines += [
        table_row(label for label, _ in numbers),
        table_row("---" for _ in numbers),
        table_row(value for _, value in numbers),
    ]
    sources = SourceText(data.recorded.location.uri)
    for group in data.problems:
        lines += ["", *problem_lines(group, sources)]
    if data.speed and data.speed[0][1].can_win_back:
        lines += ["", f"**Speed** {escaped(data.speed[0][1].can_win_back)}"]
    if data.rules:
        lines += ["", "<details><summary>Rules</summary>", "", *rule_lines(rules_in_order(data)), "", "</details>"]
    return "\n".join([*lines, ""])


def escaped(text: str) -> str:
    """Return text of others for Markdown: no markup, no mention, on one line."""
    return _MARKS.sub(r"\\\1", safe(text)).replace("@", _NO_MENTION)


def problem_lines(group: IssueGroup, sources: SourceText | None = None) -> Iterator[str]:
    """Yield the lines about a problem. `sources`: files of the training; None if they are not at hand."""
    yield f"### {escaped(title_of(group))}"
    yield ""
    yield escaped(what_of(group.lead))
    yield ""
    yield "| | |"
    yield "|---|---|"
    for label, text in rows_of(group, sources):
        yield f"| {escaped(label)} | {escaped(text)} |"
    fixes = [f"{number}. {escaped(fix)}" for number, fix in enumerate(fixes_of(group), 1)]
    yield from ("", *fixes) if fixes else ()


def rules_in_order(data: ReportData) -> list[RuleStatus]:
    """Return the rules, those with an issue first."""
    order = list(RuleState)
    return sorted(data.rules, key=lambda rule: order.index(rule.state))


def rule_lines(rules: Sequence[RuleStatus]) -> Iterator[str]:
    """Yield the lines of a table of rules."""
    yield "| state | rule | reason |"
    yield "|---|---|---|"
    for rule in rules:
        yield f"| {rule.state.value} | {escaped(rule.name)} | {escaped(rule.detail)} |"


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"
