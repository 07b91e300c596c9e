"""The verdict card: finding, place, first step, observed value against threshold, advice.

It reads as plain text in a log file too: no box to the right, no meaning in colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text

from trackside.cli.terminal.layout import beside, wrapped
from trackside.cli.terminal.rule_page import page_of
from trackside.cli.terminal.severity import STYLES, symbol_of
from trackside.cli.terminal.sparkline import is_log_scaled, sparkline
from trackside.cli.terminal.text import printable
from trackside.contracts.cause import Suspicion
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.observation import is_recorded_number
from trackside.contracts.probability import is_real
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.verdict import Finding, Verdict
from trackside.runs.problem_text import symptom_of
from trackside.runs.what_to_do import steps_to_try

if TYPE_CHECKING:
    from trackside.runs.source_text import SourceText

LABEL_COLUMNS = 11
MOST_NAMED = 3
MOST_SYMPTOMS = 5
_RECOVERED_STYLE = "bold green"


class VerdictCard:
    """A problem, as Rich prints it: its leading issue, its causes by all evidence, and its other issues.

    Args:
        group: The issues of the problem.
        sources: Files of the training; None if they are not at hand.
    """

    def __init__(self, group: IssueGroup, *, sources: SourceText | None = None) -> None:
        self._group, self._sources = group, sources

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        group, verdict, ascii_only = self._group, self._group.lead, options.ascii_only
        style = STYLES[verdict.severity] if group.standing else _RECOVERED_STYLE

        def clean(text: str) -> str:
            return printable(text, encoding=options.encoding)

        title = Text(clean(self._title(ascii_only=ascii_only)), style=style)
        line = "-" if ascii_only else "─"
        yield title + Text(f" {line * max(0, options.max_width - title.cell_len - 1)}".rstrip(), style=style)
        yield from wrapped(console, Text(clean(_what(verdict))), options.max_width)
        facts = _rows(verdict, self._sources, ascii_only=ascii_only)
        rows = [*facts, *_state_rows(group), *_cause_rows(group), *self._answer_rows(), *_symptom_rows(group)]
        for row_label, row in rows:
            label = Text(row_label, style="bold")
            yield from beside(console, label, Text(clean(row)), indent=LABEL_COLUMNS, width=options.max_width)
        steps = steps_to_try(verdict, group.suspicions) if group.standing else ()
        if steps:
            yield Text("what to do", style="bold")
        for number, step in enumerate(steps, 1):
            yield from beside(console, Text(f" {number:>2}."), Text(clean(step)), indent=5, width=options.max_width)
        if code := built_in_catalogue().code_of(verdict.rule_id):
            page = page_of(verdict.rule_id)
            style_of_code = Style(link=page) if page else Style()
            label = Text("more", style="bold")
            text = Text.assemble((code, style_of_code), f": trackside rules show {verdict.rule_id}")
            yield from beside(console, label, text, indent=LABEL_COLUMNS, width=options.max_width)
        yield Text(line * options.max_width, style=style)

    def _answer_rows(self) -> Iterator[tuple[str, str]]:
        """Yield answers of a language model that the problem is about, where the run keeps some."""
        found = self._sources.answers(self._group.lead) if self._sources and self._group.standing else ()
        for number, answer in enumerate(found):
            yield "answers" if number == 0 else "", answer

    def _title(self, *, ascii_only: bool) -> str:
        group, verdict = self._group, self._group.lead
        if not group.standing:
            return f"{'+' if ascii_only else '✔'} RECOVERED  {verdict.configuration_name}"
        symbol = symbol_of(verdict.severity, ascii_only=ascii_only)
        return f"{symbol} {verdict.severity.value.upper()}  {verdict.configuration_name}"


def _state_rows(group: IssueGroup) -> Iterator[tuple[str, str]]:
    if group.standing and group.probability is not None:
        yield "real", is_real(group.probability)
    if group.lead.harm:
        yield "harm", group.lead.harm
    if group.lead.way_back and group.standing:
        yield "go back to", group.lead.way_back
    if group.recovered_at is not None:
        yield "recovered", f"by step {group.shown_recovery}"


def _cause_rows(group: IssueGroup) -> Iterator[tuple[str, str]]:
    if not group.standing:
        return
    if group.is_cause_unknown:
        yield "cause", "unknown: no evidence of this run supports one well enough"
    for number, suspicion in enumerate(suspicions_of(group.suspicions), 1):
        yield "likely" if number == 1 else "", f"{number}. {suspicion}"


def _symptom_rows(group: IssueGroup) -> Iterator[tuple[str, str]]:
    symptoms = group.symptoms
    for number, verdict in enumerate(symptoms[:MOST_SYMPTOMS]):
        yield "also found" if number == 0 else "", symptom_of(group, verdict)
    if len(symptoms) > MOST_SYMPTOMS:
        yield "", f"{len(symptoms) - MOST_SYMPTOMS} more"


def suspicions_of(suspicions: Sequence[Suspicion]) -> tuple[str, ...]:
    """Return the likeliest causes as texts, likeliest first, with the numbers of this run as evidence."""
    return tuple([_suspicion(one) for one in suspicions])[:MOST_NAMED]


def _suspicion(one: Suspicion) -> str:
    text = f"{one.explanation.what}: {one.because}" if one.because else one.explanation.what
    if one.probability is None:
        return text
    return f"{text} (observed)" if one.probability == 1 else f"{text} ({min(one.probability, 0.99):.0%})"


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
    if lead is None or f" ({lead.comparison} at step {verdict.training_step(lead.step)})" not in verdict.message:
        return verdict.message
    return f"{verdict.message.partition(f': {lead.subject}')[0]}."


def _rows(verdict: Verdict, sources: SourceText | None, *, ascii_only: bool) -> list[tuple[str, str]]:
    lead = verdict.lead
    if lead is None:
        return [("step", str(verdict.shown_step))]
    module = module_of(lead.subject)
    where = f"{module}, {lead.worker}" if module else lead.worker
    rows = [
        ("tensor", "" if is_recorded_number(lead.subject) else lead.subject),
        ("where", where),
        *_place_rows(lead.place, sources),
        ("since", f"step {verdict.shown_since} (found at step {verdict.shown_step})"),
        ("affected", _affected(verdict)),
        ("observed", lead.comparison),
        ("evidence", _evidence(verdict, lead, ascii_only=ascii_only)),
    ]
    return [(label, text) for label, text in rows if text]


def _place_rows(place: str, sources: SourceText | None) -> Iterator[tuple[str, str]]:
    """Yield the path with the line's number, which terminals make clickable, and the line itself."""
    found = sources.line(place) if sources and place else None
    yield "line", found.place if found else place
    if found and found.text:
        yield "", f"    {found.text}"


def _affected(verdict: Verdict) -> str:
    """Return the number of affected tensors with some names; "" for one, which the row above names."""
    if verdict.affected < 2:
        return ""
    several = len({finding.worker for finding in verdict.findings}) > 1
    shown = verdict.findings[1 : MOST_NAMED + 1]
    names = [finding for finding in shown if not is_recorded_number(finding.subject)]
    others = [f"{finding.subject} ({finding.worker})" if several else finding.subject for finding in names]
    rest = verdict.affected - 1 - len(others)
    also = [*others, f"{rest} more"] if rest > 0 else others
    return f"{verdict.affected} tensors; also {', '.join(also)}"


def _evidence(verdict: Verdict, finding: Finding, *, ascii_only: bool) -> str:
    if len(finding.series) < 2:
        return ""
    (first_step, first), (last_step, last) = finding.series[0], finding.series[-1]
    values = [value for _, value in finding.series]
    arrow = "->" if ascii_only else "→"
    scale = ", log scale" if is_log_scaled(values) else ""
    spark = sparkline(values, ascii_only=ascii_only)
    steps = f"steps {verdict.training_step(first_step)} to {verdict.training_step(last_step)}"
    return f"{spark}  {first:.3g} {arrow} {last:.3g}, {steps}{scale}"
