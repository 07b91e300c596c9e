"""The verdicts on a run as a document for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.probability import in_words
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.stored_fields import document_of
from trackside.contracts.verdict import Verdict
from trackside.runs.command_end import exit_code_of, signal_of
from trackside.runs.mending.repair import repair_of
from trackside.runs.source_text import SourceText
from trackside.runs.what_to_do import steps_to_try

if TYPE_CHECKING:
    from trackside.runs.judged_part import JudgedPart
    from trackside.runs.recorded_run import RecordedRun
    from trackside.runs.run_waiting import Waited


def run_document(recorded: RecordedRun) -> dict[str, Any]:
    """Return the run, the state of each rule, and the issues, as plain JSON values."""
    status = recorded.record.status if recorded.record else None
    sources = SourceText(recorded.location.uri)
    return {
        "run": recorded.location.uri,
        "has_ended": recorded.has_ended,
        "steps_saved": len(recorded.steps),
        "state": recorded.state.value,
        "exit_code": None if status is None else exit_code_of(status),
        "signal": signal_of(status) or None,
        "judged": _judged_document(recorded.judged),
        "worst_severity": recorded.worst_severity.value if recorded.worst_severity else None,
        "rescued": recorded.rescue is not None and recorded.rescue.is_rescued,
        "rescue": document_of(recorded.rescue) if recorded.rescue is not None else None,
        "folder": sources.folder or None,
        "rules": [
            {
                "name": rule.name,
                "rule": rule.rule_id,
                "state": rule.state.value,
                "detail": rule.detail,
                "steps_judged": rule.judged,
            }
            for rule in recorded.rules
        ],
        "problems": [problem_document(group, sources) for group in recorded.groups],
        "findings": [_issue_document(group, verdict) for group in recorded.groups for verdict in _lead_first(group)],
    }


def waited_document(waited: Waited) -> dict[str, Any]:
    """Return the end of a wait as plain JSON values, without the states of the rules.

    Args:
        waited: The end; its run is known.
    """
    recorded = waited.recorded
    if recorded is None:
        return {"ended_by": waited.ended_by.value, "cursor": waited.cursor, "problems": []}
    status, sources = recorded.record.status if recorded.record else None, SourceText(recorded.location.uri)
    return {
        "ended_by": waited.ended_by.value,
        "cursor": waited.cursor,
        "run": recorded.location.uri,
        "state": recorded.state.value,
        "exit_code": None if status is None else exit_code_of(status),
        "signal": signal_of(status) or None,
        "steps_saved": len(recorded.steps),
        "judged": _judged_document(recorded.judged),
        "folder": sources.folder or None,
        "problems": [problem_document(group, sources) for group in waited.problems],
    }


def _judged_document(judged: JudgedPart) -> dict[str, Any]:
    return {
        "is_judged": judged.is_judged,
        "is_hardly_judged": judged.is_hardly_judged,
        "why_not": judged.why_not,
        "command": judged.command,
        "found_nothing": judged.fine,
        "with_issue": judged.with_issue,
        "recovered": len(judged.recovered),
        "lacked_data": judged.lacking,
        "do_not_apply": judged.inapplicable,
        "failed": len(judged.failed),
        "reservation": judged.reservation,
    }


def problem_document(group: IssueGroup, sources: SourceText) -> dict[str, Any]:
    """Return one problem as plain JSON values.

    Args:
        group: The problem.
        sources: Files of the training.
    """
    lead = group.lead.lead
    place = lead.place if lead is not None else ""
    return {
        "group": group.group,
        "severity": group.severity.value,
        "state": "standing" if group.standing else "recovered",
        "recovered_at": group.recovered_at,
        "probability": group.probability,
        "probability_in_words": None if group.probability is None else in_words(group.probability),
        "rule": group.lead.rule_id,
        "code": built_in_catalogue().code_of(group.lead.rule_id),
        "message": group.lead.message,
        "since_step": group.lead.shown_since,
        "place": place,
        "source": sources.line(place).text if place else "",
        "repair": document_of(repair_of(group, sources)),
        "what_to_do": list(steps_to_try(group.lead, group.suspicions)),
        "cause_unknown": group.is_cause_unknown,
        "causes": [document_of(suspicion) for suspicion in group.suspicions],
        "also_found": [verdict.rule_id for verdict in group.symptoms],
    }


def _issue_document(group: IssueGroup, verdict: Verdict) -> dict[str, Any]:
    back = group.recovered.get(verdict.configuration_name)
    recovered = {} if back is None else {"state": "recovered", "recovered_at": back.step}
    return {**verdict_document(verdict), **recovered}


def _lead_first(group: IssueGroup) -> tuple[Verdict, ...]:
    return (group.lead, *group.symptoms)


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict in its form in `verdicts.jsonl`, without the signs that were looked for and are absent."""
    present = tuple(sign for sign in verdict.signs if sign.is_present)
    fields: dict[str, Any] = json.loads(replace(verdict, signs=present).to_json())
    code = built_in_catalogue().code_of(verdict.rule_id)
    return {**fields, "code": code} if code else fields
