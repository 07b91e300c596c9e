"""A problem as plain text: for messages, trackers, and test reports."""

from __future__ import annotations

import io

from trackside.contracts.issue_group import IssueGroup

CARD_COLUMNS = 80


def issue_title(group: IssueGroup) -> str:
    """Return the heading of a message: `critical: exploding-tensor at step 12`."""
    lead = group.lead
    return f"{group.severity.value}: {lead.configuration_name} at step {lead.shown_step}"


def worst_of(groups: tuple[IssueGroup, ...]) -> str:
    """Return the gravest severity; "none" without a problem that still stands."""
    standing = [group.severity for group in groups if group.standing]
    return max(standing, key=lambda severity: severity.rank).value if standing else "none"


def issue_card(group: IssueGroup) -> str:
    """Return the card of `trackside findings`; without the package `rich` its most important lines."""
    try:
        from rich.console import Console

        from trackside.cli.terminal.card import VerdictCard
    except ModuleNotFoundError:  # a training needs no command line
        return _short_card(group)
    text = io.StringIO()
    console = Console(
        file=text, width=CARD_COLUMNS, color_system=None, force_terminal=False, markup=False, highlight=False
    )
    console.print(VerdictCard(group))
    return text.getvalue().rstrip("\n")


def _short_card(group: IssueGroup) -> str:
    lead = group.lead
    steps = [one.explanation.fix for one in group.suspicions[:1]] or list(lead.what_to_do[:1])
    lines = [issue_title(group), lead.message, *(f"line: {f.place}" for f in lead.findings[:1] if f.place), *steps]
    return "\n".join(lines)
