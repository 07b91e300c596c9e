"""A rehearsal as a JUnit report, which CI systems show."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from trackside.contracts.run.check import Answer, Outcome
from trackside.contracts.verdict import Verdict

_ALLOWED_BELOW_SPACE = "\t\n\r"


def junit_report(
    answers: Sequence[Answer], issues: Sequence[Verdict], *, failing: Sequence[Verdict], not_judged: str = ""
) -> str:
    """Return the report: a test case for each probe and each issue. What could not be tried is skipped.

    A rehearsal in which nothing was judged has an error: a report of skipped cases alone would look like a pass.

    Args:
        answers: The answers of the probes.
        issues: The issues of the rules that stand at the end.
        failing: Those of them that fail the rehearsal.
        not_judged: A clause about why nothing was judged; "" if something was.
    """
    failed = sum(each.outcome is Outcome.FAULT for each in answers) + len(failing)
    skipped = sum(each.outcome in {Outcome.NOT_TRIED, Outcome.DOES_NOT_APPLY} for each in answers)
    error = [_case("trackside", "judged", 0.0, f"<error message={attribute(not_judged)}/>")] if not_judged else []
    cases = [*error, *map(_probe_case, answers), *(_issue_case(issue, is_failure=issue in failing) for issue in issues)]
    seconds = sum(each.seconds for each in answers)
    head = f'<testsuite name="trackside check" tests="{len(cases)}" failures="{failed}"'
    head = f'{head} errors="{len(error)}" skipped="{skipped}"'
    return "\n".join(
        ['<?xml version="1.0" encoding="utf-8"?>', f'{head} time="{seconds:.3f}">', *cases, "</testsuite>", ""]
    )


def _probe_case(answer: Answer) -> str:
    inner = ""
    if answer.outcome is Outcome.FAULT:
        lines = [answer.what, f"where: {answer.where}" if answer.where else "", answer.observed, *answer.what_to_do]
        inner = _failure(answer.what, lines)
    elif answer.outcome is not Outcome.OK:
        inner = f"<skipped message={attribute(f'{answer.outcome.value}: {answer.observed}')}/>"
    return _case("trackside.probes", answer.probe, answer.seconds, inner)


def _issue_case(issue: Verdict, *, is_failure: bool) -> str:
    inner = ""
    if is_failure:
        inner = _failure(issue.message, [issue.message, *issue.advice])
    return _case("trackside.rules", f"{issue.configuration_name} ({issue.severity.value})", 0.0, inner)


def _failure(message: str, lines: Sequence[str]) -> str:
    text = "\n".join(line for line in lines if line)
    return f"<failure message={attribute(message)}>{escape(legal(text))}</failure>"


def _case(group: str, name: str, seconds: float, inner: str) -> str:
    head = f'  <testcase classname="{group}" name={attribute(name)} time="{seconds:.3f}"'
    return f"{head}>{inner}</testcase>" if inner else f"{head}/>"


def attribute(text: str) -> str:
    """Return the text as an attribute's value in quotes, on one line."""
    return quoteattr(" ".join(legal(text).split()))


def legal(text: str) -> str:
    """Return the text without characters that XML forbids."""
    return "".join(
        c
        if (c >= " " or c in _ALLOWED_BELOW_SPACE) and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff"
        else "?"
        for c in text
    )
