"""The cases: what happens to a training job, and what must come of it, whatever goes wrong on the way.

What must come of it stands beside what happens, as a person would say it; nothing of it is computed by Trackside.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

MINUTE = 60.0
ALL = ("StopTraining", "Notify", "PublishMetric")
RESUME = ("ResumeTraining", "Notify")
STOPPING = ("StopTraining", "ResumeTraining")
LISTED_ROLE = "arn:aws:iam::123456789012:role/training"


@dataclass(frozen=True)
class Reported:
    """A rule's status, `after` seconds from the job's start. Issues differ by the step since which they hold."""

    after: float
    rule: str
    status: str = "NoIssuesFound"
    since_step: int = 0
    actions: tuple[str, ...] = ()
    checkpoint_step: int = 0  # of the checkpoint before it; 0: none is known


@dataclass(frozen=True)
class Case:
    """`runs_seconds`: when the job ends by itself. `states`: when SageMaker says its state (again), from its start.

    `person_stops_after`: a person stops the job then, if it still runs. `lives`: how many jobs have its name, one after
    the other; each is deleted before the next is made, `LIFE_SECONDS` after it.

    `role`: of the job; the deployment may create jobs with `LISTED_ROLE` only. `comes_back`: the job that goes on in
    its place has the same issue.

    What must come of it, of each life: `stopped` (by us; None: by us or by a person, as either was first), `mails`
    (findings that the owner gets), `counts` (issues in the metric), `judged` (an evaluator is started), `ended` (the
    end of its run is marked), `latest` of each rule, `resumed` (another job goes on in its place), `notes` (messages
    about that, or about why none does).
    """

    kind: str
    runs_seconds: float
    reports: tuple[Reported, ...] = ()
    states: tuple[float, ...] = (30.0, 90.0)
    is_tagged: bool = True
    is_vetoed: bool = False
    official: tuple[str, ...] = ()
    person_stops_after: float | None = None
    lives: int = 1
    role: str = LISTED_ROLE
    comes_back: bool = False
    resumed: bool = False
    notes: int = 0
    stopped: bool | None = False
    mails: tuple[str, ...] = ()
    counts: int = 0
    latest: Mapping[str, str] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        return self.is_tagged

    @property
    def ended(self) -> bool:
        return self.is_tagged

    @property
    def stop_requests(self) -> int:
        """The findings that ask for a stop, each of which is decided once."""
        asking = {(one.rule, one.since_step) for one in self.reports if {*STOPPING} & {*one.actions}}
        return len(asking)


LONG = 100 * 3600.0  # until somebody stops it
SHORT = 90 * MINUTE

LIFE_SECONDS = 3 * 3600.0  # from the creation of a job to that of the next one of its name


def crowd_case(rules: int = 200) -> Case:
    """So many rules ask for the same stop within one second. Each decision reads all others: the work grows quickly."""
    names = [f"r{number}" for number in range(rules)]
    return Case(
        f"{rules} rules ask for the same stop at once",
        LONG,
        reports=tuple(Reported(900, name, "IssuesFound", 40, ALL) for name in names),
        stopped=True,
        mails=tuple(f"{name}@40" for name in names),
        counts=rules,
        latest=dict.fromkeys(names, "IssuesFound"),
    )


# Seconds for a dozen sweeps: one of which nobody hears and that ends before a sweep that lives is never judged.
LIVED = 3600
PERSON_CASE = Case(
    "a person had stopped it before",
    LONG,
    reports=(Reported(LIVED + 900, "a", "IssuesFound", 40, ALL),),
    person_stops_after=LIVED + 800,
    mails=("a@40",),
    counts=1,
    latest={"a": "IssuesFound"},
)
RACE_CASE = Case(
    "a person stops it in the same minutes",
    LONG,
    reports=(Reported(LIVED + 900, "a", "IssuesFound", 40, ALL),),
    person_stops_after=LIVED + 1300,
    stopped=None,
    mails=("a@40",),
    counts=1,
    latest={"a": "IssuesFound"},
)
REUSED_CASE = Case(
    "its name was another job's, which was stopped and deleted",
    LONG,
    reports=(Reported(300, "b"), Reported(900, "a", "IssuesFound", 40, ALL)),
    lives=2,
    stopped=True,
    mails=("a@40",),
    counts=1,
    latest={"a": "IssuesFound", "b": "NoIssuesFound"},
)

SPIKE = Reported(900, "loss-spike", "IssuesFound", 40, RESUME, checkpoint_step=29)
RESUMED_CASE = Case(
    "another job goes on in its place",
    LONG,
    reports=(Reported(300, "b"), SPIKE),
    stopped=True,
    resumed=True,
    notes=1,
    mails=("loss-spike@40",),
    latest={"loss-spike": "IssuesFound", "b": "NoIssuesFound"},
)
RESUME_CASES = (
    RESUMED_CASE,
    replace(
        RESUMED_CASE, kind="goes on, and the job that does has the same issue: it is only stopped", comes_back=True
    ),
    replace(RESUMED_CASE, kind="may not go on: its role is not listed", role=f"{LISTED_ROLE}-2", resumed=False),
    replace(
        RESUMED_CASE,
        kind="may not go on: the issue is none that going back cures",
        reports=(replace(SPIKE, rule="overfit"),),
        resumed=False,
        mails=("overfit@40",),
        latest={"overfit": "IssuesFound"},
    ),
    replace(
        RESUMED_CASE,
        kind="two rules ask at once that another job goes on",
        reports=(SPIKE, replace(SPIKE, rule="exploding-gradient", since_step=42)),
        mails=("loss-spike@40", "exploding-gradient@42"),
        latest={"loss-spike": "IssuesFound", "exploding-gradient": "IssuesFound"},
    ),
    replace(
        RESUMED_CASE,
        kind="a person has vetoed the stop, so no other job goes on",
        runs_seconds=SHORT,
        is_vetoed=True,
        stopped=False,
        resumed=False,
        notes=0,
    ),
)

KINDS: Sequence[tuple[float, Case]] = (
    *((1, case) for case in RESUME_CASES),
    (0.02, crowd_case()),
    (1, PERSON_CASE),
    (1, RACE_CASE),
    (1, REUSED_CASE),
    (
        6,
        Case(
            "healthy: clean verdicts only",
            SHORT,
            reports=(Reported(300, "a"), Reported(310, "b"), Reported(2400, "a"), Reported(5000, "b")),
            latest={"a": "NoIssuesFound", "b": "NoIssuesFound"},
        ),
    ),
    (
        5,
        Case(
            "stop: a critical issue asks for everything",
            LONG,
            reports=(Reported(300, "b"), Reported(900, "a", "IssuesFound", 40, ALL)),
            stopped=True,
            mails=("a@40",),
            counts=1,
            latest={"a": "IssuesFound", "b": "NoIssuesFound"},
        ),
    ),
    (
        2,
        Case(
            "two rules ask for the same stop",
            LONG,
            reports=(Reported(900, "a", "IssuesFound", 40, ALL), Reported(905, "b", "IssuesFound", 42, ALL)),
            stopped=True,
            mails=("a@40", "b@42"),
            counts=2,
            latest={"a": "IssuesFound", "b": "IssuesFound"},
        ),
    ),
    (
        3,
        Case(
            "notify only",
            SHORT,
            reports=(Reported(600, "a", "IssuesFound", 20, ("Notify",)), Reported(700, "b")),
            mails=("a@20",),
            latest={"a": "IssuesFound", "b": "NoIssuesFound"},
        ),
    ),
    (
        2,
        Case(
            "metric only",
            SHORT,
            reports=(Reported(600, "a", "IssuesFound", 20, ("PublishMetric",)),),
            counts=1,
            latest={"a": "IssuesFound"},
        ),
    ),
    (
        2,
        Case(
            "an issue goes and comes back hours later",
            4 * 3600.0,
            reports=(
                Reported(600, "a", "IssuesFound", 20, ("Notify", "PublishMetric")),
                Reported(900, "a", "NoIssuesFound", 30),
                Reported(12_000, "a", "IssuesFound", 400, ("Notify", "PublishMetric")),
            ),
            mails=("a@20", "a@400"),
            counts=2,
            latest={"a": "IssuesFound"},
        ),
    ),
    (
        1,
        Case(
            "a person has vetoed the stop",
            SHORT,
            reports=(Reported(900, "a", "IssuesFound", 40, ALL),),
            is_vetoed=True,
            mails=("a@40",),
            counts=1,
            latest={"a": "IssuesFound"},
        ),
    ),
    (
        1,
        Case(
            "an issue without any action",
            SHORT,
            reports=(Reported(900, "a", "IssuesFound", 40),),
            latest={"a": "IssuesFound"},
        ),
    ),
    (
        1,
        Case(
            "SageMaker Debugger's own rule found an issue",
            SHORT,
            states=(30.0, 600.0, 1200.0, 1800.0, 2400.0),
            is_tagged=False,
            official=("VanishingGradient",),
            mails=("VanishingGradient",),
            counts=1,
            latest={"VanishingGradient": "IssuesFound"},
        ),
    ),
    (2, Case("did not ask for Trackside", SHORT, is_tagged=False)),
)

POISON: Sequence[str] = (
    "not json",
    "[]",
    "{}",
    '{"detail-type": "Rule Evaluation Status Change", "detail": 7}',
    '{"detail-type": "Rule Evaluation Status Change", "detail": {"TrainingJobName": "x"}}',
    '{"id": "' + "y" * 200_000 + '", "detail-type": "?", "detail": {}}',
    "[" * 100_000,
)


def draw(seed: int) -> Iterator[Case]:
    """Cases without end."""
    weights, cases = zip(*KINDS, strict=True)
    randomly = random.Random(seed)  # noqa: S311 - repeatable, not secret
    while True:
        yield randomly.choices(cases, weights)[0]


def name_of(number: int, case: Case) -> str:
    """Names that are prefixes of one another, in both cases of letters: no sibling may be taken for another."""
    return ("digits" if number % 2 else "Digits") + f"-{number}" + ("-long" if case.kind.startswith("healthy") else "")


CHECKPOINT = "/opt/ml/checkpoints/checkpoint-30"
CLOCKS_APART_SECONDS = (-7200.0, 0.0, 7200.0)


def count_of(reports: Sequence[Reported], index: int) -> int:
    """The evaluator's count of a report among the issues and recoveries of its rule; 0 for one that is neither."""
    report = reports[index]
    so_far = [one for one in reports[: index + 1] if one.rule == report.rule]
    issues = len({one.since_step for one in so_far if one.status == "IssuesFound"})
    return 2 * issues + (report.status != "IssuesFound") if issues else 0


def clock_of(event_id: str) -> float:
    """How far the clock of the evaluator is off that sends this report: each link of a chain has another one."""
    return CLOCKS_APART_SECONDS[zlib.crc32(event_id.encode()) % len(CLOCKS_APART_SECONDS)]


def verdict_event(
    event_id: str,
    report: Reported,
    *,
    name: str,
    arn: str,
    run: str,
    at: float,
    created_at: float = 0.0,
    count: int = 0,
) -> dict[str, Any]:
    """Ours, as the evaluator puts it onto the bus."""
    return {
        "id": event_id,
        "source": "trackside",
        "detail-type": "Rule Evaluation Status Change",
        "detail": {
            "Version": 1,
            "TrainingJobName": name,
            "TrainingJobArn": arn,
            "RuleConfigurationName": report.rule,
            "RuleEvaluationStatus": report.status,
            "StatusDetails": f"what {report.rule} says",
            **({"TrainingJobCreationTime": int(created_at) * 1000} if created_at else {}),
            "LastModifiedTime": round((at + (clock_of(event_id) if count else 0.0)) * 1000),
            "Sequence": count,
            "Rule": report.rule,
            "Severity": "critical",
            "Actions": list(report.actions),
            "Run": run,
            "Evidence": {
                "Step": report.since_step + 1,
                "SinceStep": report.since_step,
                **({"Checkpoint": CHECKPOINT, "CheckpointStep": before} if (before := report.checkpoint_step) else {}),
            },
        },
    }
