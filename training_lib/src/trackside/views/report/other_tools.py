"""The verdicts on a run in the formats of other tools: annotations of GitHub, SARIF, JUnit."""

from __future__ import annotations

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.verdict import Severity, Verdict
from trackside.exchange import reports
from trackside.exchange.reports import Issue, Reservation
from trackside.runs.recorded_run import RecordedRun
from trackside.runs.rule_state import RuleState, worst_severity
from trackside.runs.source_text import SourceText

_SILENT = frozenset({RuleState.NOT_ENOUGH_DATA, RuleState.NOT_APPLICABLE, RuleState.ERROR})


def text_for(recorded: RecordedRun, output: str) -> str:
    """Return the report on a run.

    Args:
        recorded: The run with its verdicts.
        output: "github", "sarif" or "junit".
    """
    sources, run = SourceText(recorded.location.uri), recorded.location.name
    reservation = _reservation(recorded)
    if output == "github":
        leads = [_issue(group.lead, sources, recovery=group.recovery) for group in recorded.groups]
        return reports.github_commands(leads, run=run, reservation=reservation)
    issues = [
        _issue(verdict, sources, recovery=_recovery(group, verdict))
        for group in recorded.groups
        for verdict in (*group.standing, *(issue for issue in group.issues if issue not in group.standing))
    ]
    if output == "sarif":
        return reports.sarif_log(issues, run=run, reservation=reservation)
    return reports.junit_of_issues(issues, run=run, rules=_without_answer(recorded), reservation=reservation)


def _reservation(recorded: RecordedRun) -> Reservation | None:
    judged = recorded.judged
    if not judged.reservation:
        return None
    fails = recorded.worst_severity is Severity.CRITICAL and worst_severity(recorded.verdicts) is not Severity.CRITICAL
    return Reservation(judged.reservation, judged.is_judged, fails)


def _recovery(group: IssueGroup, verdict: Verdict) -> str:
    back = group.recovered.get(verdict.configuration_name)
    return "" if back is None else f"recovered by step {back.shown_step}"


def _issue(verdict: Verdict, sources: SourceText, *, recovery: str) -> Issue:
    place = sources.line(verdict.lead.place).place if verdict.lead and verdict.lead.place else ""
    file, _, number = place.rpartition(":")
    return Issue(
        rule=verdict.rule_id,
        name=verdict.configuration_name,
        code=built_in_catalogue().code_of(verdict.rule_id),
        severity=verdict.severity,
        message=verdict.message,
        group=verdict.group,
        step=verdict.step,
        file=file if number.isdigit() else "",
        line=int(number) if number.isdigit() else 0,
        advice=verdict.advice,
        recovery=recovery,
    )


def _without_answer(recorded: RecordedRun) -> list[tuple[str, str]]:
    """Return the name of each rule, with the reason if it could not judge."""
    return [
        (rule.name, f"{rule.state.value}: {rule.detail}" if rule.state in _SILENT else "") for rule in recorded.rules
    ]
