"""The verdicts on a run in the formats of other tools, on stdout or in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.rows import SCHEMA_VERSION
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.verdict import Verdict
from trackside.local.run_document import run_document

if TYPE_CHECKING:
    from trackside.exchange.reports import Issue
    from trackside.local.recorded_run import RecordedRun
    from trackside.local.source_text import SourceText

REPORTS = ("github", "sarif", "junit")
OF_FILE = {".json": "json", ".sarif": "sarif", ".xml": "junit"}


class ReportPath(click.ParamType):  # type: ignore[type-arg] # generic in click 8.5 and later only
    """A file for a report. Its ending names the format."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, in a folder that exists."""
        path = Path(str(value))
        if path.suffix not in OF_FILE:
            self.fail(f"{path.name!r} must end in {', '.join(OF_FILE)}, which names its format.", param, ctx)
        if not path.absolute().parent.is_dir():
            self.fail(f"There is no folder {path.absolute().parent}.", param, ctx)
        return path


def report_text(recorded: RecordedRun, output: str) -> str:
    """Return the report on a run.

    Args:
        recorded: The run with its verdicts.
        output: "json", "github", "sarif" or "junit".
    """
    if output == "json":
        return f"{json.dumps({'schema_version': SCHEMA_VERSION, **run_document(recorded)}, indent=2)}\n"
    from trackside.exchange import reports
    from trackside.local.source_text import SourceText

    sources, run = SourceText(recorded.location.uri), recorded.location.name
    if output == "github":
        leads = [_issue(group.lead, sources, recovery=group.recovery) for group in recorded.groups]
        return reports.github_commands(leads, run=run)
    issues = [
        _issue(verdict, sources, recovery=_recovery(group, verdict))
        for group in recorded.groups
        for verdict in (*group.standing, *(issue for issue in group.issues if issue not in group.standing))
    ]
    if output == "sarif":
        return reports.sarif_log(issues, run=run)
    return reports.junit_of_issues(issues, run=run, rules=_without_answer(recorded))


def write_report(recorded: RecordedRun, path: Path) -> None:
    """Write the report in the format that the file's ending names."""
    path.write_text(report_text(recorded, OF_FILE[path.suffix]), encoding="utf-8")


def _recovery(group: IssueGroup, verdict: Verdict) -> str:
    back = group.recovered.get(verdict.configuration_name)
    return "" if back is None else f"recovered by step {back.shown_step}"


def _issue(verdict: Verdict, sources: SourceText, *, recovery: str) -> Issue:
    from trackside.exchange.reports import Issue

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
    from trackside.local.rule_state import RuleState

    silent = {RuleState.NOT_ENOUGH_DATA, RuleState.NOT_APPLICABLE, RuleState.ERROR}
    return [
        (rule.name, f"{rule.state.value}: {rule.detail}" if rule.state in silent else "") for rule in recorded.rules
    ]
