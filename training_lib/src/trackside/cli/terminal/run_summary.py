"""The last lines of `trackside run`: one line for a healthy run, and one line more for each problem of another."""

from __future__ import annotations

import signal
from collections import Counter

from trackside.cli.terminal.severity import symbol_of
from trackside.contracts.issue_group import IssueGroup, issue_groups
from trackside.local.rule_state import RuleState
from trackside.local.run import LocalRunResult

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
        return [f"{_mark(False, ascii_only=ascii_only)} nothing was captured: {result.capture_problem}"]
    groups = [group for group in issue_groups(result.verdicts) if group.standing]
    lines = [problem_line(group, ascii_only=ascii_only) for group in groups[:MOST_PROBLEMS]]
    if len(groups) > MOST_PROBLEMS:
        lines.append(f"{len(groups) - MOST_PROBLEMS} more problems")
    if result.stopped_for:
        verdict = result.stopped_for
        lines.append(
            f"stopped by Trackside: {verdict.configuration_name} found a critical issue at step {verdict.shown_step}"
        )
    if result.speed:
        lines.append(f"{result.speed}; trackside profile {run}")
    parts = [_headline(result, groups, ascii_only=ascii_only), *_other_rules(result), _ways_on(run, groups)]
    if exit_code != (result.status if result.status >= 0 else 128 - result.status):
        reason = "stopped by Trackside" if result.stopped_for else f"an issue reached --fail-on {fail_on}"
        parts.insert(-1, f"exit code {exit_code} ({reason})")
    return [*lines, "; ".join(parts)]


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


def count_of(number: int, word: str) -> str:
    """Return `1 rule`, `1,840 steps`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def ending_of(status: int) -> str:
    """Return a clause about an end that is none of the training's plan; "" for exit code 0."""
    if status < 0:
        return f"{_signal_name(-status)} ended the training"
    return f"the training ended with code {status}" if status else ""


def _headline(result: LocalRunResult, groups: list[IssueGroup], *, ascii_only: bool) -> str:
    fine = sum(rule.state in (RuleState.OK, RuleState.RUNNING) for rule in result.rules)
    ending = "" if result.stopped_for else ending_of(result.status)
    before = f" before {ending}" if ending else ""
    steps = f" over {count_of(result.training_steps, 'step')}"
    if result.evaluator_problem:
        head = f"{_mark(False, ascii_only=ascii_only)} not judged to the end: {result.evaluator_problem}"
        return f"{head}; {count_of(fine, 'rule')} found nothing so far{steps}" if fine else head
    if groups:
        return f"{count_of(len(groups), 'problem')}{before}; {count_of(fine, 'rule')} found nothing{steps}"
    if not fine:
        return f"{_mark(False, ascii_only=ascii_only)} no rule could judge{steps}{before}"
    return f"{_mark(True, ascii_only=ascii_only)} no issue{before}: {count_of(fine, 'rule')}{steps}"


def _other_rules(result: LocalRunResult) -> list[str]:
    counts = Counter(rule.state for rule in result.rules)
    failed = [rule.name for rule in result.rules if rule.state is RuleState.ERROR]
    recovered = [rule.name for rule in result.rules if rule.state is RuleState.RECOVERED]
    lacking, elsewhere = counts[RuleState.NOT_ENOUGH_DATA], counts[RuleState.NOT_APPLICABLE]
    parts = [f"{', '.join(recovered)} recovered"] if recovered else []
    parts += [f"{', '.join(failed)} failed"] if failed else []
    others = [f"{lacking} lacked data"] if lacking else []
    others += [f"{elsewhere} {'does' if elsewhere == 1 else 'do'} not apply"] if elsewhere else []
    return [*parts, *([", ".join(others)] if others else [])]


def _mark(is_good: bool, *, ascii_only: bool) -> str:
    if is_good:
        return "+" if ascii_only else "✔"
    return "?" if ascii_only else "◌"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
