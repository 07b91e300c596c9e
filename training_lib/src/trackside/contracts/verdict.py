"""Finding -> Verdict: a rule's result for one subject, and the evaluator's result for one rule of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.action_terms import NO_TERMS, TERMS, ActionTerms
from trackside.contracts.cause import Sign, Suspicion
from trackside.contracts.fields import Fields
from trackside.contracts.observation import in_words
from trackside.contracts.run.recorded_names import plain_name
from trackside.contracts.stored_fields import (
    COUNT,
    FINITE,
    NUMBER,
    NUMBERS,
    REQUIRED,
    TEXT,
    TEXTS,
    Kind,
    StoredDocument,
    choice,
    choices,
    computed,
    constant,
    document_of,
    integer,
    nullable,
    records,
    series,
    stored,
)

VERSION = 2  # 2: suspicions, state, occurrence, group
MOST_FINDINGS = 20  # a verdict names this many subjects; `affected` counts them all
RELATION = Kind({"enum": ["<", ">"]}, Fields.text)
NO_LOSS = "No loss was recorded: "  # how the message of a rule begins that judges losses, in a training without any
NOTHING_TO_JUDGE = "Nothing to judge: "  # how the message of a clean verdict begins where the rule does not apply


class Severity(str, Enum):
    """The gravity of an issue. Only `critical` may stop a run."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for info, 1 for warning, 2 for critical: for `--fail-on`."""
        return list(Severity).index(self)


class Outcome(str, Enum):
    """The outcome of a rule: three values that never collapse into two."""

    CLEAN = "clean"
    ISSUE_FOUND = "issue-found"
    NOT_EVALUATED = "not-evaluated"


class State(str, Enum):
    """The state of an issue. One that comes back after recovery is opened again."""

    OPENED = "opened"
    RECOVERED = "recovered"


class FindingKind(str, Enum):
    """The kind of a finding. The last two are harm at once.

    NUMBER      a number on the wrong side of its limit
    NOT_FINITE  values that are not finite
    STANDSTILL  a run that makes no step any more
    """

    NUMBER = "number"
    NOT_FINITE = "not-finite"
    STANDSTILL = "standstill"


@dataclass(frozen=True)
class Finding:
    """A rule's result for one subject, most often one tensor. Numbers may be non-finite."""

    subject: str = field(metadata=stored(TEXT, "What it is about, most often a tensor."))
    step: int = field(metadata=stored(COUNT, "The step at which it was judged."))
    since_step: int = field(metadata=stored(COUNT, "The first step in a row at which it held."))
    measure: str = field(metadata=stored(TEXT, "What was measured, and its unit: `mean |gradient|`."))
    observed: float = field(metadata=stored(NUMBER, "The measured value."))
    relation: str = field(metadata=stored(RELATION, "How `observed` stands to `threshold`."))
    threshold: float = field(metadata=stored(NUMBER, "The value that it was compared with."))
    worker: str = field(
        default="worker_0", metadata=stored(TEXT, "The worker that saved it: `worker_0`.", absent=REQUIRED)
    )
    statistics: Mapping[str, float] = field(
        default_factory=dict, metadata=stored(NUMBERS, "Further numbers about the subject at `step`.")
    )
    series: tuple[tuple[int, float], ...] = field(
        default=(), metadata=stored(series(), "The evidence: [step, value] of the same measure, oldest first.")
    )
    place: str = field(
        default="",
        metadata=stored(
            TEXT,
            "The line of the user's code that made the subject (`train.py:41`); left out where it is not known.",
            optional=True,
        ),
    )
    kind: FindingKind = field(
        default=FindingKind.NUMBER,
        metadata=stored(choice(FindingKind), "Its kind; left out for a number beyond its limit.", optional=True),
    )
    grade: Severity | None = field(
        default=None,
        metadata=stored(
            nullable(choice(Severity)), "How bad it is by itself; left out: as its rule says of all.", optional=True
        ),
    )

    @property
    def comparison(self) -> str:
        """`mean |gradient|: 3.1e-12, below the limit of 1e-07`, as cards and messages show it."""
        return in_words(self.measure, self.observed, self.relation, self.threshold)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        return document_of(self)


@dataclass(frozen=True)
class Verdict(StoredDocument):
    """The evaluator's result for one rule configuration of one run; one verdict for one cause."""

    document_name = "The verdict"

    run: str = field(metadata=stored(TEXT, "The run's name."))
    rule_id: str = field(metadata=stored(TEXT, "The rule's id, or the class of a rule of your own.", name="rule"))
    configuration_name: str = field(
        metadata=stored(
            TEXT, "The name of the rule's configuration: the same rule may judge a run twice.", name="configuration"
        )
    )
    outcome: Outcome = field(
        metadata=stored(
            choice(Outcome),
            "`not-evaluated` is neither good news nor bad: `message` names what was missing.",
        )
    )
    severity: Severity = field(metadata=stored(choice(Severity), "Only `critical` may stop a run."))
    step: int = field(metadata=stored(COUNT, "The step of the verdict."))
    message: str = field(metadata=stored(TEXT, "One sentence."))
    detected_at: float = field(metadata=stored(FINITE, "The moment of the verdict, in seconds since 1970-01-01 UTC."))
    findings: tuple[Finding, ...] = field(
        default=(),
        metadata=stored(records(Finding), f"The worst first, at most {MOST_FINDINGS}.", absent=REQUIRED),
    )
    affected: int = field(
        default=0,
        metadata=stored(COUNT, "The number of subjects that were found, named in `findings` or not.", absent=REQUIRED),
    )
    what_to_do: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Steps to try, best first."))
    actions: tuple[Action, ...] = field(
        default=(),
        metadata=stored(choices(Action), "The actions that were asked for, and may be done.", absent=REQUIRED),
    )
    terms: ActionTerms = field(
        default=NO_TERMS,
        metadata=stored(
            TERMS,
            'Terms of the actions, where the rule has its own: `{"StopTraining": {"after_findings": 2}}`.',
            name="action_terms",
            optional=True,
        ),
    )
    tensor_key: str = field(
        default="",
        metadata=stored(
            TEXT, "The key of the event file with the leading finding's tensor, below the run's location; may be empty."
        ),
    )
    suspicions: tuple[Suspicion, ...] = field(
        default=(), metadata=stored(records(Suspicion), "Likely causes, likeliest first.")
    )
    state: State = field(
        default=State.OPENED,
        metadata=stored(
            choice(State), "Whether an issue was found, or has gone again. One that comes back is opened again."
        ),
    )
    occurrence: int = field(
        default=1, metadata=stored(integer(minimum=1), "The number of times that this rule has opened an issue.")
    )
    group: str = field(
        default="",
        metadata=stored(
            TEXT,
            "The `id` of the first verdict on the same problem: one problem may show in many rules.",
        ),
    )
    probability: float | None = field(
        default=None,
        metadata=stored(
            nullable(FINITE),
            "The probability that something is wrong with the run, calibrated; left out where it is unknown.",
            optional=True,
        ),
    )
    harm: str = field(
        default="",
        metadata=stored(TEXT, "The harm that makes the issue critical, a clause.", optional=True),
    )
    training_steps: tuple[tuple[int, float], ...] = field(
        default=(),
        metadata=stored(
            series(),
            "[step, number among the training steps] of the steps named here; left out where no evaluation is counted.",
            optional=True,
        ),
    )
    signs: tuple[Sign, ...] = field(
        default=(),
        metadata=stored(records(Sign), "The evidence by which causes were ranked.", optional=True),
    )
    checkpoint: str = field(
        default="",
        metadata=stored(
            TEXT,
            "The file or folder of the last checkpoint that the script wrote before the issue; left out without one.",
            optional=True,
        ),
    )
    checkpoint_step: int = field(
        default=0,
        metadata=stored(COUNT, "The last step before that checkpoint was written.", optional=True),
    )
    version: int = field(
        default=VERSION,
        metadata=stored(
            constant(VERSION),
            "The version of this format. Readers ignore names that they do not know.",
            absent=REQUIRED,
        ),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", self.group or self.verdict_id)

    @property
    @computed(
        TEXT, "The same for the same answer, which may be written more than once: take each `id` once.", name="id"
    )
    def verdict_id(self) -> str:
        """The run, configuration and outcome; then the state and the occurrence, unless it is the first."""
        recovered = f"/{self.state.value}" if self.state is not State.OPENED else ""
        again = f"/{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.run}/{self.configuration_name}/{self.outcome.value}{recovered}{again}"

    @property
    def lead(self) -> Finding | None:
        """The worst finding, or None where nothing was found."""
        return self.findings[0] if self.findings else None

    def _repr_html_(self) -> str:
        """Return the verdict as a notebook shows it."""
        from html import escape  # brings a table of all entities, for notebooks

        heading = f"{self.severity.value} {self.configuration_name}, since step {self.shown_since}"
        lead = f"{plain_name(self.lead.subject)} of {self.lead.worker}" if self.lead else ""
        parts = (f"<p>{escape(text)}</p>" for text in (self.message, lead) if text)
        steps = "".join(f"<li>{escape(step)}</li>" for step in self.what_to_do)
        return f"<div><p><b>{escape(heading)}</b></p>{''.join(parts)}{steps and f'<ol>{steps}</ol>'}</div>"

    @property
    def is_not_applicable(self) -> bool:
        """True if the program has nothing that the rule judges: neither good news nor a fault."""
        return self.outcome is Outcome.CLEAN and self.message.startswith(NOTHING_TO_JUDGE)

    @property
    @computed(COUNT, "The first step at which any finding held; `step` where nothing was found.")
    def since_step(self) -> int:
        """The first step at which any finding held."""
        return min((f.since_step for f in self.findings), default=self.step)

    def training_step(self, step: int) -> int:
        """Return the number of a step of this verdict among the training steps, as users count.

        Args:
            step: The step, counted over all modes.
        """
        return int(dict(self.training_steps).get(step, step))

    @property
    def shown_step(self) -> int:
        """The number of `step` among the training steps."""
        return self.training_step(self.step)

    @property
    def shown_since(self) -> int:
        """The number of `since_step` among the training steps."""
        return self.training_step(self.since_step)

    @property
    def way_back(self) -> str:
        """The checkpoint to go back to, in words: `out/model.pt, of step 449`; "" where none is known."""
        return f"{self.checkpoint}, of step {self.training_step(self.checkpoint_step)}" if self.checkpoint else ""

    @property
    def advice(self) -> tuple[str, ...]:
        """The steps to try, best first, and at the end the way back."""
        back = (f"Go back to the last checkpoint before it: {self.way_back}",) if self.checkpoint else ()
        return (*self.what_to_do, *back)
