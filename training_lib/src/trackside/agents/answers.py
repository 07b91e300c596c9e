"""The answers of the tools. Each text in them is data of a run, on one line and bounded; numbers may be "NaN"."""

from __future__ import annotations

from dataclasses import dataclass

Number = float | str | None


@dataclass(frozen=True)
class RunLine:
    """One run in a list. `worst` is a severity, "none" or "not-judged"."""

    run: str
    state: str
    started_at: str
    steps_saved: int
    issues: int
    worst: str
    standing: tuple[str, ...]
    last_loss: Number
    note: str


@dataclass(frozen=True)
class RunPage:
    """Runs, the newest first."""

    runs: tuple[RunLine, ...]
    total: int
    unreadable: tuple[str, ...] = ()
    next_cursor: str = ""


@dataclass(frozen=True)
class Evidence:
    """An observed value and the limit that it crosses."""

    subject: str
    measure: str
    observed: Number
    relation: str
    expected: Number


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's own files."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class ProblemLine:
    """A problem in short. `change` is the first thing to change, and `place` the line to look at, if it is known."""

    problem: str
    severity: str
    state: str
    rule: str
    since_step: int
    message: str
    cause: str
    place: SourceLine | None
    evidence: Evidence | None
    change: str


@dataclass(frozen=True)
class RunVerdict:
    """The verdict on a run in short. `reservation`: why it may be ill although no issue stands."""

    run: str
    state: str
    exit_code: int | None
    steps: int
    judged: bool
    worst: str
    headline: str
    reservation: str
    problems: tuple[ProblemLine, ...]
    more_problems: int
    cursor: str


@dataclass(frozen=True)
class JudgedLogLine:
    """A log of another tool. `judged_as` are its columns by role; "step" is a `counted` thing: a step, row or epoch."""

    log: str
    format: str
    judged_as: tuple[str, ...]
    rows: int
    evaluations: int
    last_step: int
    counted: str
    worst: str
    problems: tuple[ProblemLine, ...]
    more_problems: int
    reservations: tuple[str, ...]
    rules_judging: int
    rules_left_out: int


@dataclass(frozen=True)
class LogPage:
    """Logs at a path, judged. `without_loss`: logs without a known loss."""

    logs: tuple[JudgedLogLine, ...]
    without_loss: tuple[str, ...]
    other_files: int
    next_cursor: str = ""


@dataclass(frozen=True)
class LineEdit:
    """A line of the file, and the text in its place; empty to leave it out."""

    line: int
    old: str
    new: str


@dataclass(frozen=True)
class LikelyCause:
    """A cause that the evidence of the run supports."""

    cause: str
    what: str
    because: str
    probability: Number
    fix: str


@dataclass(frozen=True)
class ProblemDetail:
    """A problem in full. `edits`: the change as lines of the file of `place`, where it is settled."""

    run: str
    problem: str
    severity: str
    state: str
    rule: str
    code: str
    since_step: int
    message: str
    harm: str
    probability: Number
    place: SourceLine | None
    evidence: Evidence | None
    affected: int
    other_subjects: tuple[str, ...]
    series: tuple[tuple[int, Number], ...]
    causes: tuple[LikelyCause, ...]
    change: str
    edits: tuple[LineEdit, ...]
    what_to_do: tuple[str, ...]
    also_found: tuple[str, ...]
    go_back_to: str


@dataclass(frozen=True)
class RuleLine:
    """The state of a rule on a run."""

    rule: str
    state: str
    steps_judged: int
    detail: str


@dataclass(frozen=True)
class RulePage:
    """The states of the rules of a run, those with an issue first."""

    run: str
    rules: tuple[RuleLine, ...]
    total: int
    next_cursor: str = ""


@dataclass(frozen=True)
class FindingLine:
    """One answer of a rule: an issue, or its recovery."""

    finding: str
    rule: str
    severity: str
    state: str
    step: int
    message: str


@dataclass(frozen=True)
class FindingPage:
    """Findings in the order in which they came. `cursor` is for the next call; `more`: the page was full."""

    run: str
    state: str
    findings: tuple[FindingLine, ...]
    cursor: str
    more: bool


@dataclass(frozen=True)
class News:
    """The end of a wait: "issue", "end" or "timeout"."""

    run: str
    ended_by: str
    state: str
    problems: tuple[ProblemLine, ...]
    cursor: str


@dataclass(frozen=True)
class SeriesLine:
    """A tensor or number of a run with the statistics that it has."""

    name: str
    statistic: str
    steps: int
    last: Number


@dataclass(frozen=True)
class SeriesPage:
    """Names of a run's series."""

    run: str
    series: tuple[SeriesLine, ...]
    total: int
    next_cursor: str = ""


@dataclass(frozen=True)
class Values:
    """One statistic of one series: [step, value] pairs, thinned so that the extremes stay."""

    run: str
    name: str
    statistic: str
    worker: str
    workers: int
    recorded: int
    first_step: int | None
    last_step: int | None
    least: Number
    most: Number
    points: tuple[tuple[int, Number], ...]
    thinned: bool


@dataclass(frozen=True)
class SettingDifference:
    """A setting that differs; "" stands for a run without it."""

    setting: str
    a: str
    b: str


@dataclass(frozen=True)
class Compared:
    """Two runs side by side. `cure` is "mended", "not mended" or "no proof"; "" if no issue stands in A."""

    a: str
    b: str
    headline: str
    cure: str
    reason: str
    gone: tuple[str, ...]
    left: tuple[str, ...]
    new: tuple[str, ...]
    settings: tuple[SettingDifference, ...]
    more_settings: int
    losses: tuple[str, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a rule."""

    name: str
    default: str
    meaning: str


@dataclass(frozen=True)
class RuleManual:
    """A rule, in words. The whole manual is the resource `trackside://rules/ID`."""

    rule: str
    code: str
    severity: str
    finds: str
    why: str
    what_to_do: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    manual: str


@dataclass(frozen=True)
class QuestionLine:
    """A question about many runs that has a name."""

    name: str
    question: str


@dataclass(frozen=True)
class Answer:
    """The rows of a saved question, or, without a name, the questions. `left_out`: rows that did not fit."""

    questions: tuple[QuestionLine, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | bool | None, ...], ...]
    left_out: int
    unreadable: int


@dataclass(frozen=True)
class Started:
    """A rehearsal that has been started. Ask `check_result` for its end."""

    run: str
    command: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class ProbeLine:
    """The answer of a probe."""

    probe: str
    outcome: str
    observed: str
    what_to_do: tuple[str, ...]


@dataclass(frozen=True)
class CheckResult:
    """The end of a rehearsal: "running", "passed", "failed", "not judged", or "broken" where it gave no result."""

    run: str
    state: str
    exit_code: int | None
    steps: int
    faults: tuple[ProbeLine, ...]
    findings: tuple[FindingLine, ...]
    output: str


@dataclass(frozen=True)
class Stopped:
    """The answer to a request to stop."""

    run: str
    state: str
    note: str
