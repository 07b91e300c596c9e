"""Finding -> Verdict: what a rule found about one subject, and what leaves the evaluator about one rule of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.action_terms import NO_TERMS, ActionTerms, read_terms
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.fields import Fields, parse_json, to_json, write_number

VERSION = 2  # 2: suspicions, state, occurrence, group
MOST_FINDINGS = 20  # a verdict names this many subjects; `affected` counts them all
NOTHING_TO_JUDGE = "Nothing to judge: "  # how the message of a clean verdict begins where the rule does not apply


class Severity(str, Enum):
    """Only `critical` may stop a run."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0, 1, 2: for `--fail-on`."""
        return list(Severity).index(self)


class Outcome(str, Enum):
    """Three values that never collapse into two."""

    CLEAN = "clean"
    ISSUE_FOUND = "issue-found"
    NOT_EVALUATED = "not-evaluated"


class State(str, Enum):
    """Where in its life an issue is. One that was found again after it had recovered is opened again."""

    OPENED = "opened"
    RECOVERED = "recovered"


@dataclass(frozen=True)
class Finding:
    """A rule's answer about one subject (most often one tensor).

    `observed` and `threshold` are numbers in the unit that `measure` names ("mean |gradient|"); `relation` is how
    they stand to each other ("<" or ">"). `series` is the evidence: (step, value) pairs of the same measure, oldest
    first, at most 20. `statistics` holds further numbers about the subject at `step`. Values may be non-finite.
    `place` is the line of the user's code that made the subject (`train.py:41`), where that is known.
    """

    subject: str
    step: int
    since_step: int
    measure: str
    observed: float
    relation: str
    threshold: float
    worker: str = "worker_0"
    statistics: Mapping[str, float] = field(default_factory=dict)
    series: tuple[tuple[int, float], ...] = ()
    place: str = ""

    @property
    def comparison(self) -> str:
        """`mean |gradient| 3.1e-12 < 1e-07`, as cards and messages show it."""
        return f"{self.measure} {self.observed:.4g} {self.relation} {self.threshold:.4g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "subject": self.subject,
            "worker": self.worker,
            "step": self.step,
            "since_step": self.since_step,
            "measure": self.measure,
            "observed": write_number(self.observed),
            "relation": self.relation,
            "threshold": write_number(self.threshold),
            "statistics": {name: write_number(value) for name, value in sorted(self.statistics.items())},
            "series": [[step, write_number(value)] for step, value in self.series],
            **({"place": self.place} if self.place else {}),
        }


@dataclass(frozen=True)
class Verdict:
    """What the evaluator says about one rule configuration of one run; one verdict for one cause.

    `findings` lead with the worst; `affected` counts all subjects, named or not. `message` is one sentence.
    `what_to_do` lists next steps, best first. `tensor_key` is the storage key of the event file that holds the
    leading finding's tensor, relative to the run. `detected_at` is in seconds since the epoch.

    `suspicions` are likely causes, likeliest first. `group` is the id of the verdict that was the first to tell of the
    same problem: its own, or that of another rule. `occurrence` counts how often this rule opened an issue.
    """

    run: str
    rule_id: str
    configuration_name: str
    outcome: Outcome
    severity: Severity
    step: int
    message: str
    detected_at: float
    findings: tuple[Finding, ...] = ()
    affected: int = 0
    what_to_do: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    terms: ActionTerms = NO_TERMS
    tensor_key: str = ""
    suspicions: tuple[Suspicion, ...] = ()
    state: State = State.OPENED
    occurrence: int = 1
    group: str = ""
    version: int = VERSION

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", self.group or self.verdict_id)

    @property
    def verdict_id(self) -> str:
        """The same for the same answer, however often it is said: run, configuration, outcome; then which time."""
        recovered = f"/{self.state.value}" if self.state is not State.OPENED else ""
        again = f"/{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.run}/{self.configuration_name}/{self.outcome.value}{recovered}{again}"

    @property
    def lead(self) -> Finding | None:
        """The worst finding, or None where nothing was found."""
        return self.findings[0] if self.findings else None

    @property
    def is_not_applicable(self) -> bool:
        """True where the program has nothing that the rule judges: no good news, and nothing to mend."""
        return self.outcome is Outcome.CLEAN and self.message.startswith(NOTHING_TO_JUDGE)

    @property
    def since_step(self) -> int:
        """The first step at which any finding held."""
        return min((f.since_step for f in self.findings), default=self.step)

    def to_json(self) -> str:
        """One line, as in `verdicts.jsonl`."""
        return to_json(
            {
                "version": self.version,
                "id": self.verdict_id,
                "run": self.run,
                "rule": self.rule_id,
                "configuration": self.configuration_name,
                "outcome": self.outcome.value,
                "severity": self.severity.value,
                "step": self.step,
                "since_step": self.since_step,
                "message": self.message,
                "detected_at": self.detected_at,
                "affected": self.affected,
                "findings": [finding.to_dict() for finding in self.findings],
                "what_to_do": list(self.what_to_do),
                "actions": [action.value for action in self.actions],
                **({"action_terms": terms} if (terms := self.terms.to_document()) else {}),
                "tensor_key": self.tensor_key,
                "suspicions": [
                    {"cause": one.cause.value, "because": one.because, "what": one.explanation.what}
                    for one in self.suspicions
                ],
                "state": self.state.value,
                "occurrence": self.occurrence,
                "group": self.group,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """Reads `to_json`'s text; names that a newer version added are passed over."""
        subject = "The verdict"
        fields = Fields(parse_json(text, subject=subject), where="")
        verdict = cls(
            run=fields.text("run"),
            rule_id=fields.text("rule"),
            configuration_name=fields.text("configuration"),
            outcome=fields.choice("outcome", Outcome),
            severity=fields.choice("severity", Severity),
            step=fields.integer("step"),
            message=fields.text("message"),
            detected_at=fields.number("detected_at"),
            findings=fields.items("findings", _read_finding),
            affected=fields.integer("affected"),
            what_to_do=fields.texts("what_to_do", ()),
            actions=fields.choices("actions", Action),
            terms=read_terms(fields, "action_terms"),
            tensor_key=fields.text("tensor_key", ""),
            suspicions=fields.items("suspicions", _read_suspicion, required=False),
            state=fields.choice("state", State, State.OPENED),
            occurrence=fields.integer("occurrence", 1),
            group=fields.text("group", ""),
            version=fields.integer("version"),
        )
        fields.finish(subject=subject)
        return verdict


def _read_finding(fields: Fields) -> Finding:
    return Finding(
        subject=fields.text("subject"),
        worker=fields.text("worker"),
        step=fields.integer("step"),
        since_step=fields.integer("since_step"),
        measure=fields.text("measure"),
        observed=fields.number("observed"),
        relation=fields.text("relation"),
        threshold=fields.number("threshold"),
        statistics=fields.numbers("statistics"),
        series=fields.series("series"),
        place=fields.text("place", ""),
    )


def _read_suspicion(fields: Fields) -> Suspicion:
    return Suspicion(fields.choice("cause", Cause), fields.text("because", ""))
