"""Problems of a run for agents: in short, and one in full."""

from __future__ import annotations

from trackside.agents.answers import Evidence, LikelyCause, LineEdit, Number, ProblemDetail, ProblemLine, SourceLine
from trackside.agents.text import MOST_LINE, one_line, sentence, shown_name
from trackside.contracts.fields import write_number
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.repair import Place, Repair
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.recorded_names import plain_name
from trackside.contracts.verdict import Verdict
from trackside.runs.mending.repair import repair_of
from trackside.runs.recorded_run import RecordedRun
from trackside.runs.source_text import SourceText
from trackside.runs.what_to_do import steps_to_try

MOST_CAUSES, MOST_SUBJECTS, MOST_ALSO, MOST_POINTS = 3, 8, 8, 16


def problem_line(group: IssueGroup, sources: SourceText) -> ProblemLine:
    """Return a problem in short.

    Args:
        group: The problem.
        sources: Files of the training.
    """
    repair, causes = repair_of(group, sources), group.suspicions
    return ProblemLine(
        problem=shown_name(group.group),
        severity=group.severity.value,
        state=state_of_group(group),
        rule=shown_name(group.lead.rule_id),
        since_step=group.lead.shown_since,
        message=sentence(group.lead.message, subjects_of(group.lead)),
        cause=causes[0].explanation.what if causes else "",
        place=_source_line(repair.place),
        evidence=_evidence(repair),
        change=one_line(repair.change),
    )


def problem_detail(recorded: RecordedRun, group: IssueGroup, sources: SourceText, *, run: str) -> ProblemDetail:
    """Return a problem in full.

    Args:
        recorded: The run.
        group: The problem.
        sources: Files of the training.
        run: The name of the run, as agents see it.
    """
    lead, repair = group.lead, repair_of(group, sources)
    subjects = subjects_of(lead)
    return ProblemDetail(
        run=run,
        problem=shown_name(group.group),
        severity=group.severity.value,
        state=state_of_group(group),
        rule=shown_name(lead.rule_id),
        code=built_in_catalogue().code_of(lead.rule_id),
        since_step=lead.shown_since,
        message=sentence(lead.message, subjects),
        harm=sentence(lead.harm, subjects),
        probability=group.probability,
        place=_source_line(repair.place),
        evidence=_evidence(repair),
        affected=lead.affected,
        other_subjects=tuple(shown_name(plain_name(name)) for name in subjects[1 : MOST_SUBJECTS + 1]),
        series=_series(lead),
        causes=tuple(
            LikelyCause(
                one.cause.value, one.what, sentence(one.because, subjects), one.probability, one.explanation.fix
            )
            for one in group.suspicions[:MOST_CAUSES]
        ),
        change=one_line(repair.change),
        edits=tuple(
            LineEdit(edit.line, _as_code(edit.old), _as_code(edit.new))
            for edit in repair.edits
            if max(len(edit.old), len(edit.new)) <= MOST_LINE
        ),
        what_to_do=tuple(one_line(step) for step in steps_to_try(lead, group.suspicions)),
        also_found=tuple(shown_name(symptom.configuration_name) for symptom in group.symptoms[:MOST_ALSO]),
        go_back_to=one_line(lead.way_back),
    )


def state_of_group(group: IssueGroup) -> str:
    """Return "standing" or "recovered"."""
    return "standing" if group.standing else "recovered"


def subjects_of(verdict: Verdict) -> tuple[str, ...]:
    """Return the names that the message of a verdict may hold."""
    return tuple(dict.fromkeys(finding.subject for finding in verdict.findings))


def _series(verdict: Verdict) -> tuple[tuple[int, Number], ...]:
    lead = verdict.lead
    return tuple((step, write_number(value)) for step, value in lead.series[-MOST_POINTS:]) if lead else ()


def _source_line(place: Place | None) -> SourceLine | None:
    return None if place is None else SourceLine(one_line(place.file), place.line, one_line(place.text, MOST_LINE))


def _as_code(text: str) -> str:
    """Return lines of code with their indentation, without characters that hide or direct."""
    return "\n".join(f"{line[: len(line) - len(line.lstrip(' '))]}{one_line(line)}" for line in text.split("\n"))


def _evidence(repair: Repair) -> Evidence | None:
    if repair.observed is None or repair.expected is None:
        return None
    return Evidence(
        subject=shown_name(plain_name(repair.subject)),
        measure=one_line(repair.measure, MOST_LINE),
        observed=write_number(repair.observed),
        relation=repair.relation,
        expected=write_number(repair.expected),
    )
