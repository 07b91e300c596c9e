"""The problems of a run as plain text and as HTML for notebooks. Everything from outside is made safe."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.observation import is_recorded_number
from trackside.contracts.probability import is_real
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.recorded_names import plain_name
from trackside.contracts.verdict import Severity, Verdict
from trackside.runs.source_text import SourceText
from trackside.runs.what_to_do import steps_to_try

MOST_CAUSES = 2
MOST_FIXES = 3
MOST_SYMPTOMS = 5
CODE = "code"  # label of the line of the training's own files

_SYMBOLS = {Severity.CRITICAL: "✖", Severity.WARNING: "▲", Severity.INFO: "●"}
_COLORS = {Severity.CRITICAL: "#d1242f", Severity.WARNING: "#bf8700", Severity.INFO: "#0969da"}
_RECOVERED_COLOR = "#1a7f37"


def problems_as_text(problems: Sequence[IssueGroup]) -> list[str]:
    """Return the lines of the problems, each after an empty line."""
    return [line for group in problems for line in ("", *problem_as_text(group))]


def problem_as_text(group: IssueGroup) -> list[str]:
    """Return the lines of one problem."""
    lines = [title_of(group), f"  {what_of(group.lead)}"]
    lines += [f"  {label:<9} {text}" for label, text in rows_of(group)]
    lines += [f"  {number}. {fix}" for number, fix in enumerate(fixes_of(group), 1)]
    return [safe(line) for line in lines]


def problems_as_html(
    problems: Sequence[IssueGroup], *, heading: str, state: str, sources: SourceText | None = None
) -> str:
    """Return a heading with a state, and a card for each problem. Static: no script, no style of the page changes."""
    cards = "".join(_card(group, sources) for group in problems)
    return f"<div><p><b>trackside {_html(heading)}</b>: {_html(state)}</p>{cards}</div>"


def _card(group: IssueGroup, sources: SourceText | None) -> str:
    color = _COLORS[group.severity] if group.standing else _RECOVERED_COLOR
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{_html(label)}</th>'
        f'<td style="text-align:left">{f"<code>{_html(text)}</code>" if label == CODE else _html(text)}</td></tr>'
        for label, text in rows_of(group, sources)
    )
    fixes = "".join(f"<li>{_html(fix)}</li>" for fix in fixes_of(group))
    return (
        f'<div style="border-left:4px solid {color};padding:2px 10px;margin:8px 0">'
        f'<b style="color:{color}">{_html(title_of(group))}</b><br>{_html(what_of(group.lead))}'
        f"<table>{rows}</table>{f'<ol>{fixes}</ol>' if fixes else ''}</div>"
    )


def title_of(group: IssueGroup) -> str:
    """Return the problem's state and rule."""
    if not group.standing:
        return f"✔ RECOVERED  {group.lead.configuration_name} by step {group.shown_recovery}"
    return f"{_SYMBOLS[group.severity]} {group.severity.value.upper()}  {group.lead.configuration_name}"


def what_of(verdict: Verdict) -> str:
    """Return the fault in a sentence."""
    rule = built_in_catalogue().rules.get(verdict.rule_id)
    return rule.summary if rule and verdict.findings else verdict.message


def rows_of(group: IssueGroup, sources: SourceText | None = None) -> Iterator[tuple[str, str]]:
    """Yield the facts of a problem as (label, text).

    Args:
        group: The problem.
        sources: Files of the training, of which the line is shown that a finding names; None if they are not at hand.
    """
    verdict, lead = group.lead, group.lead.lead
    if lead is not None and lead.place:
        found = sources.line(lead.place) if sources else None
        yield "line", found.place if found else lead.place
        if found and found.text:
            yield CODE, found.text
    yield "since", f"step {verdict.shown_since}"
    if lead is not None:
        more = f", and {verdict.affected - 1} more" if verdict.affected > 1 else ""
        yield "number" if is_recorded_number(lead.subject) else "tensor", f"{plain_name(lead.subject)}{more}"
        yield "observed", lead.comparison
    if group.standing and group.probability is not None:
        yield "real", is_real(group.probability)
    if verdict.harm and group.standing:
        yield "harm", verdict.harm
    if verdict.way_back and group.standing:
        yield "go back to", verdict.way_back
    causes = group.suspicions[:MOST_CAUSES] if group.standing else ()
    for number, one in enumerate(causes):
        because = f": {one.because}" if one.because else ""
        yield "likely" if number == 0 else "", f"{one.explanation.what}{because}"
    for number, answer in enumerate(sources.answers(verdict) if sources and group.standing else ()):
        yield "answers" if number == 0 else "", answer
    for number, symptom in enumerate(group.symptoms[:MOST_SYMPTOMS]):
        yield "also" if number == 0 else "", symptom_of(group, symptom)


def symptom_of(group: IssueGroup, symptom: Verdict) -> str:
    """Return another issue of the same problem in a line: its rule, its first tensor, and since when.

    The first bad layer is often in it: a loss that does not fall leads, and the gradients that vanish are the symptom.
    """
    back = group.recovered.get(symptom.configuration_name) if group.standing else None
    state = f", recovered by step {back.shown_step}" if back else ""
    lead, more = symptom.lead, f" and {symptom.affected - 1} more" if symptom.affected > 1 else ""
    what = f": {plain_name(lead.subject)}{more}" if lead is not None else ""
    return f"{symptom.configuration_name}{what}, since step {symptom.shown_since} ({symptom.severity.value}{state})"


def fixes_of(group: IssueGroup) -> list[str]:
    """Return what to do, most promising first; nothing for a problem that recovered."""
    if not group.standing:
        return []
    return list(steps_to_try(group.lead, group.suspicions, most=MOST_FIXES))


def safe(text: str) -> str:
    """Return `text` with escapes for characters that a terminal might obey."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _html(text: str) -> str:
    return html.escape(safe(text))
