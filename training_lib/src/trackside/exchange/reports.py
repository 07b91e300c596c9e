"""The issues of a run in the formats of other tools: SARIF, JUnit XML, and GitHub's workflow commands.

Each function takes `Issue`s, so that the formats know neither runs nor terminals.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from trackside import __version__
from trackside.contracts.rule_catalogue import RuleDescription, built_in_catalogue
from trackside.contracts.run.check import Answer, Outcome
from trackside.contracts.verdict import Severity
from trackside.exchange.junit import attribute, legal

SARIF_VERSION = "2.1.0"
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COMMANDS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


@dataclass(frozen=True)
class Issue:
    """One issue of a run.

    rule         id of its rule
    name         name of the rule's configuration
    code         short code of the rule; "" for a rule of the user's
    severity     its severity
    message      one sentence
    group        id of the problem that it shows
    step         step of the verdict
    file, line   line of the user's code, relative to the working folder; "" and 0 if unknown
    advice       steps to try
    recovery     clause about its recovery; "" while it stands. A recovered issue fails nothing
    """

    rule: str
    name: str
    code: str
    severity: Severity
    message: str
    group: str
    step: int
    file: str = ""
    line: int = 0
    advice: tuple[str, ...] = ()
    recovery: str = ""

    @property
    def text(self) -> str:
        """The sentence, behind the recovery."""
        return f"{self.recovery.capitalize()}: {self.message}" if self.recovery else self.message


@dataclass(frozen=True)
class Reservation:
    """The reason why a run may be ill whatever issues it has.

    text       a clause
    is_judged  False: rules did not judge the run to its end
    fails      True: the run fails by it
    """

    text: str
    is_judged: bool
    fails: bool

    @property
    def title(self) -> str:
        """The heading of an annotation."""
        return "judged" if self.is_judged else "not judged"


def github_commands(issues: Sequence[Issue], *, run: str, reservation: Reservation | None = None) -> str:
    """Return workflow commands of GitHub Actions: an annotation for each issue, and one for a reservation.

    Args:
        issues: The issues.
        run: Name of the run.
        reservation: Why nobody knows whether the run is well; None if it is known.
    """
    lines = [_github_reservation(reservation, run)] if reservation else []
    return "".join(f"{line}\n" for line in (*lines, *(_github_line(issue, run) for issue in issues)))


def github_answers(answers: Sequence[Answer], *, run: str) -> str:
    """Return workflow commands of GitHub Actions: an annotation for each fault that a probe found.

    Args:
        answers: The answers of the probes of a rehearsal.
        run: Name of its run.
    """
    return "".join(
        f"::error title={_property(f'{answer.probe} ({run})')}::{_data(chr(10).join(_fault_lines(answer)))}\n"
        for answer in answers
        if answer.outcome is Outcome.FAULT
    )


def junit_of_issues(
    issues: Sequence[Issue],
    *,
    run: str,
    rules: Sequence[tuple[str, str]],
    reservation: Reservation | None = None,
) -> str:
    """Return a JUnit report: a test case for each rule. Critical issues and warnings are failures.

    A run that is not judged has an error, and one that was ruined without an issue a failure: a report without them
    would look like that of a sound run.

    Args:
        issues: The issues.
        run: Name of the run.
        rules: Name of each rule, and why it could not judge ("" if it could).
        reservation: Why nobody knows whether the run is well; None if it is known.
    """
    by_name: dict[str, list[Issue]] = {}
    for issue in issues:
        by_name.setdefault(issue.name, []).append(issue)
    why = dict(rules)
    names = list(dict.fromkeys([*why, *by_name]))
    cases = [_reservation_case(reservation, run)] if reservation else []
    cases += [_case(name, by_name.get(name, []), why.get(name, ""), run) for name in names]
    failed = sum(any(_fails(issue) for issue in by_name.get(name, [])) for name in names)
    is_error = reservation is not None and not reservation.is_judged
    failed += reservation is not None and reservation.is_judged and reservation.fails
    skipped = sum(not by_name.get(name) and bool(why.get(name)) for name in names)
    head = f'<testsuite name={attribute(f"trackside {run}")} tests="{len(cases)}"'
    head = f'{head} failures="{failed}" errors="{int(is_error)}" skipped="{skipped}" time="0"'
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>", f"{head}>", *cases, "</testsuite>"]
    return "\n".join([*lines, "</testsuites>", ""])


def sarif_log(issues: Sequence[Issue], *, run: str, reservation: Reservation | None = None) -> str:
    """Return a SARIF 2.1.0 log, as code scanning services and editors read it.

    Args:
        issues: The issues.
        run: Name of the run.
        reservation: Why nobody knows whether the run is well; None if it is known.
    """
    rules = list(dict.fromkeys(issue.rule for issue in issues))
    driver = {
        "name": "Trackside",
        "semanticVersion": __version__,
        "rules": [_sarif_rule(rule, issues) for rule in rules],
    }
    document = {
        "$schema": SARIF_SCHEMA,
        "version": SARIF_VERSION,
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": f"trackside/{run}"},
                **({"invocations": [_invocation(reservation)]} if reservation else {}),
                "results": [_sarif_result(issue, rules.index(issue.rule), run) for issue in issues],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }
    return f"{json.dumps(document, indent=2)}\n"


def _fault_lines(answer: Answer) -> list[str]:
    where = f"where: {answer.where}" if answer.where else ""
    return [line for line in (answer.what, where, answer.observed, *answer.what_to_do) if line]


def _github_reservation(found: Reservation, run: str) -> str:
    command = "error" if found.is_judged and found.fails else "warning"
    return f"::{command} title={_property(f'{found.title} ({run})')}::{_data(found.text)}"


def _reservation_case(found: Reservation, run: str) -> str:
    head = f'  <testcase classname={attribute(f"trackside.{run}")} name="judged" time="0"'
    kind = "failure" if found.fails else ""
    if kind := kind if found.is_judged else "error":
        return f"{head}><{kind} message={attribute(found.text)}/></testcase>"
    return f"{head}><system-out>{escape(legal(found.text))}</system-out></testcase>"


def _invocation(found: Reservation) -> dict[str, Any]:
    """Return SARIF's words for a tool that did not do all its work: results that are missing prove nothing."""
    level = "warning" if found.is_judged and not found.fails else "error"
    notice = {"level": level, "message": {"text": found.text}}
    return {"executionSuccessful": found.is_judged, "toolExecutionNotifications": [notice]}


def _github_line(issue: Issue, run: str) -> str:
    place = f"file={_property(issue.file)},line={issue.line}," if issue.file else ""
    title = _property(f"{_coded(issue)} ({run})")
    lines = [issue.text, *(() if issue.recovery else issue.advice)]
    command = "notice" if issue.recovery else _COMMANDS[issue.severity]
    return f"::{command} {place}title={title}::{_data(chr(10).join(lines))}"


def _coded(issue: Issue) -> str:
    return f"{issue.code} {issue.name}".strip()


def _data(text: str) -> str:
    """Return text for the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return text for a property of a workflow command."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _case(name: str, issues: Sequence[Issue], why: str, run: str) -> str:
    failures = [issue for issue in issues if _fails(issue)]
    inner = "".join(_failure(issue) for issue in failures)
    if not issues and why:
        inner = f"<skipped message={attribute(why)}/>"
    notes = [issue.text for issue in issues if not _fails(issue)]
    if notes:
        inner += f"<system-out>{escape(legal(chr(10).join(notes)))}</system-out>"
    head = f'  <testcase classname={attribute(f"trackside.{run}")} name={attribute(name)} time="0"'
    place = next((f' file={attribute(one.file)} line="{one.line}"' for one in issues if one.file), "")
    return f"{head}{place}>{inner}</testcase>" if inner else f"{head}{place}/>"


def _fails(issue: Issue) -> bool:
    return issue.severity is not Severity.INFO and not issue.recovery


def _failure(issue: Issue) -> str:
    place = f"line: {issue.file}:{issue.line}" if issue.file else ""
    lines = [issue.message, place, *(f"what to do: {step}" for step in issue.advice)]
    text = "\n".join(line for line in lines if line)
    kind = attribute(f"{issue.severity.value} {_coded(issue)}")
    return f"<failure message={attribute(issue.message)} type={kind}>{escape(legal(text))}</failure>"


def _sarif_rule(rule: str, issues: Sequence[Issue]) -> dict[str, Any]:
    described: RuleDescription | None = built_in_catalogue().rules.get(rule)
    first = next(issue for issue in issues if issue.rule == rule)
    advice = "\n".join(f"- {step}" for step in first.advice)
    found: dict[str, Any] = {
        "id": first.code or rule,
        "name": rule,
        "shortDescription": {"text": described.summary if described else first.message},
        "defaultConfiguration": {"level": _LEVELS[described.severity if described else first.severity]},
    }
    return {**found, "help": {"text": advice, "markdown": advice}} if advice else found


def _sarif_result(issue: Issue, index: int, run: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": issue.code or issue.rule,
        "ruleIndex": index,
        # A result of another kind than `fail` has the level `none` (SARIF 2.1.0, 3.27.10).
        **({"kind": "informational", "level": "none"} if issue.recovery else {"level": _LEVELS[issue.severity]}),
        "message": {"text": issue.text},
        "partialFingerprints": {"trackside/v1": f"{issue.name}:{issue.file}:{issue.line}"},
        "properties": {"run": run, "step": issue.step, "group": issue.group, "configuration": issue.name},
    }
    if issue.file:
        place: dict[str, Any] = {"artifactLocation": _artifact(issue.file), "region": {"startLine": issue.line}}
        found["locations"] = [{"physicalLocation": place}]
    return found


def _artifact(file: str) -> dict[str, str]:
    from urllib.parse import quote

    uri = quote(file.replace("\\", "/"))
    return {"uri": f"file://{uri}"} if file.startswith("/") else {"uri": uri, "uriBaseId": "%SRCROOT%"}
