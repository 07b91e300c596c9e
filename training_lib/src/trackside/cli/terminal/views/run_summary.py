"""The last lines of `trackside run`: one line for a healthy run, and one line more for each problem of another."""

from __future__ import annotations

from trackside.cli.terminal.severity import symbol_of
from trackside.contracts.english import counted
from trackside.contracts.issue_group import IssueGroup, issue_groups
from trackside.contracts.run.exit_code import NOT_JUDGED
from trackside.contracts.verdict import Severity
from trackside.local.run import LocalRunResult
from trackside.runs.command_end import ending_of

LATEST = "latest"  # of the runs that `trackside serve` shows here
MOST_PROBLEMS = 5  # with a line each
MOST_ALSO_FOUND = 4  # rules named in such a line


def summary_lines(result: LocalRunResult, *, run: str, exit_code: int, fail_on: str, ascii_only: bool) -> list[str]:
    """Return the lines.

    Args:
        result: The result of the run.
        run: Name of the run, as the user would type it.
        exit_code: Exit code of `trackside run`.
        fail_on: Severity from which an issue changes the exit code.
        ascii_only: True if the terminal shows no other characters.
    """
    if result.capture_problem:
        return [f"{_mark(False, ascii_only=ascii_only)} not judged: nothing was captured: {result.capture_problem}"]
    groups = [group for group in issue_groups(result.verdicts) if group.standing]
    lines = [problem_line(group, ascii_only=ascii_only) for group in groups[:MOST_PROBLEMS]]
    if len(groups) > MOST_PROBLEMS:
        lines.append(f"{len(groups) - MOST_PROBLEMS} more problems")
    if result.stopped_for:
        verdict = result.stopped_for
        lines.append(
            f"stopped by Trackside: {verdict.configuration_name} found a critical issue at step {verdict.shown_step}"
        )
    if result.rescue is not None:
        lines.append(result.rescue.sentence())
    if result.speed:
        lines.append(f"{result.speed}; trackside profile {run}")
    parts = [
        _headline(result, groups, ascii_only=ascii_only),
        *result.learning.clauses,
        *result.learning.notes,
        *_other_rules(result),
        _ways_on(run, groups),
    ]
    if exit_code != result.training_code:
        parts.insert(-1, f"exit code {exit_code} ({_why(result, groups, exit_code, fail_on)})")
    return [*lines, "; ".join(parts)]


def _why(result: LocalRunResult, groups: list[IssueGroup], exit_code: int, fail_on: str) -> str:
    if exit_code == NOT_JUDGED:
        return "not judged to the end"
    if result.stopped_for or result.was_stopped:
        return "stopped by Trackside"
    if result.was_ruined and not any(group.severity is Severity.CRITICAL for group in groups):
        return "a critical issue came before, and the training did not get over it"
    return f"an issue reached --fail-on {fail_on}"


def _ways_on(run: str, groups: list[IssueGroup]) -> str:
    """Return the commands that show more: of a run with problems, its pages, too."""
    pages = "trackside serve" if run == LATEST else f"trackside report {run}"
    return f"trackside findings {run}, {pages}" if groups else f"trackside findings {run}"


def problem_line(group: IssueGroup, *, ascii_only: bool) -> str:
    """Return the line of a problem: its leading issue, and the rules that found it too.

    Args:
        group: The issues of the problem.
        ascii_only: True if the terminal shows no other characters.
    """
    lead = group.lead
    names = list(dict.fromkeys(issue.configuration_name for issue in group.symptoms))
    more = f" and {len(names) - MOST_ALSO_FOUND} more" if len(names) > MOST_ALSO_FOUND else ""
    also = f"; also {', '.join(names[:MOST_ALSO_FOUND])}{more}" if names else ""
    symbol = symbol_of(lead.severity, ascii_only=ascii_only)
    return f"{symbol} {lead.configuration_name}: {lead.severity.value}, since step {lead.shown_since}{also}"


def _headline(result: LocalRunResult, groups: list[IssueGroup], *, ascii_only: bool) -> str:
    judged, steps = result.judged, result.training_steps
    ending = "" if result.stopped_for or result.was_stopped else ending_of(result.status)
    before = f" before {ending}" if ending else ""
    if groups and judged.is_judged:
        return f"{counted(len(groups), 'problem')}{before}; {judged.counts(steps)} found nothing"
    return f"{_mark(judged.is_well, ascii_only=ascii_only)} {judged.headline(steps, before=before)}"


def _other_rules(result: LocalRunResult) -> list[str]:
    judged = result.judged
    parts = [f"{', '.join(judged.recovered)} recovered"] if judged.recovered else []
    parts += [f"{', '.join(judged.failed)} failed"] if judged.failed else []
    return [*parts, *([judged.others] if judged.others else [])]


def _mark(is_good: bool, *, ascii_only: bool) -> str:
    if is_good:
        return "+" if ascii_only else "✔"
    return "?" if ascii_only else "◌"
