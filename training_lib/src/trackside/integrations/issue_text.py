"""A problem as plain text: for messages, trackers, and test reports."""

from __future__ import annotations

import io
from dataclasses import dataclass

from trackside.contracts.errors import TracksideError
from trackside.contracts.issue_group import IssueGroup, recovered_groups
from trackside.runs.judged_part import NOT_JUDGED, worst_word
from trackside.runs.recorded_run import read_run

CARD_COLUMNS = 80


@dataclass(frozen=True)
class TrackedOutcome:
    """The result of a run for a tracker.

    issues     number of problems, with those that recovered
    recovered  number of problems that recovered
    worst      gravest severity of what stands; "none" for nothing, "not-judged" for a run that rules judged too little
    titles     a line for each problem
    """

    issues: int
    recovered: int
    worst: str
    titles: tuple[str, ...]


def outcome_of(groups: tuple[IssueGroup, ...], location: str) -> TrackedOutcome:
    """Return the result of a run for a tracker.

    Args:
        groups: The problems at the end of the run.
        location: Address of the run.
    """
    titles = tuple([issue_title(group) for group in groups])
    try:
        recorded = read_run(location)
        worst = worst_word(recorded.worst_severity, recorded.judged)
    except TracksideError:
        worst = NOT_JUDGED
    if standing := [group.severity for group in groups if group.standing]:
        worst = max(standing, key=lambda severity: severity.rank).value
    return TrackedOutcome(len(groups), len(recovered_groups(groups)), worst, titles)


def reservation(location: str) -> str:
    """Return why a run without an issue may be ill, as `JudgedPart.reservation`; "" if it is well, or unreadable."""
    try:
        return read_run(location).judged.reservation
    except TracksideError:
        return ""


def found_clause(groups: tuple[IssueGroup, ...]) -> str:
    """Return `2 problems found, 1 recovered`, or `no issue found`.

    Args:
        groups: The problems so far.
    """
    if not groups:
        return "no issue found"
    recovered = len(recovered_groups(groups))
    return f"{len(groups)} problem{'s' * (len(groups) > 1)} found{f', {recovered} recovered' if recovered else ''}"


def issue_title(group: IssueGroup) -> str:
    """Return the heading of a message: `critical: exploding-tensor at step 12`; a recovery is part of it."""
    lead = group.lead
    recovery = f", {group.recovery}" if group.recovery else ""
    return f"{group.severity.value}: {lead.configuration_name} at step {lead.shown_step}{recovery}"


def issue_card(group: IssueGroup) -> str:
    """Return the card of `trackside findings`; without the package `rich` its most important lines."""
    try:
        from rich.console import Console

        from trackside.cli.terminal.views.card import VerdictCard
    except ModuleNotFoundError:  # a training needs no command line
        return short_card(group)
    text = io.StringIO()
    console = Console(
        file=text, width=CARD_COLUMNS, color_system=None, force_terminal=False, markup=False, highlight=False
    )
    console.print(VerdictCard(group))
    return text.getvalue().rstrip("\n")


def short_card(group: IssueGroup) -> str:
    """Return the most important lines of a card: title, sentence, line of the user's code, and first advice."""
    lead = group.lead
    steps = [one.explanation.fix for one in group.suspicions[:1]] or list(lead.what_to_do[:1])
    lines = [issue_title(group), lead.message, *(f"line: {f.place}" for f in lead.findings[:1] if f.place), *steps]
    return "\n".join(lines)
