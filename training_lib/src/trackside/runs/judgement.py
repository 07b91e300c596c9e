"""The judgement of a run for users of Python: typed verdicts, a short text, and a table for notebooks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from trackside.choosing.program_rules import Rules, rules_of
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.issue_group import IssueGroup, issue_groups
from trackside.contracts.run.learning import Learning
from trackside.contracts.run_layout import TENSORS, RunLocation
from trackside.contracts.verdict import Severity, Verdict
from trackside.runs.judged_now import judge_now
from trackside.runs.judged_part import judged_part
from trackside.runs.problem_text import problems_as_html, problems_as_text, safe
from trackside.runs.recorded_run import RecordedRun
from trackside.runs.rule_state import RuleStatus, gravest_severity, judged_through
from trackside.runs.run_folder import RunState, find_run
from trackside.runs.source_text import SourceText
from trackside.trial.notebook import html_table
from trackside.trial.trial import Trial


class Findings(tuple[Verdict, ...]):
    """Issues of a run: a tuple of verdicts with a short text and, in a notebook, a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self:
            return "no findings"
        lines = (f"{v.severity.value}  {v.configuration_name}, since step {v.shown_since}{_at(v)}" for v in self)
        return "\n".join(map(safe, lines))

    def _repr_html_(self) -> str:
        rows = [
            (v.severity.value, v.configuration_name, f"since step {v.shown_since}{_at(v)}", v.message) for v in self
        ]
        return html_table(f"{len(self)} findings", ("severity", "rule", "where", "message"), rows)


@dataclass(frozen=True, repr=False)
class Judgement:
    """The verdicts of rules on a run, up to the newest step that they judged.

    Attributes:
        run: The location of the run, a folder or an `s3://` address.
        has_ended: True if the run has ended: no verdict will follow.
        rules: The state of each rule.
        verdicts: Every verdict, oldest first.
        problem: A clause about why the judging ended before the run was judged; "" if it did not.
        learning: What the run has learned by its end, whatever rules found.
    """

    run: str
    has_ended: bool
    rules: tuple[RuleStatus, ...]
    verdicts: tuple[Verdict, ...]
    problem: str = ""
    learning: Learning = field(default_factory=Learning)

    @property
    def problems(self) -> tuple[IssueGroup, ...]:
        """The problems: issues that belong together as one. Standing ones first, then the gravest."""
        return issue_groups(self.verdicts)

    @property
    def findings(self) -> Findings:
        """The issues, in the order of `problems`; of each problem the leading issue first."""
        return Findings(issue for group in self.problems for issue in (group.lead, *group.symptoms))

    @property
    def worst_severity(self) -> Severity | None:
        """The severity by which the run fails: of issues that stand, or critical if it was ruined; None for none."""
        return gravest_severity(self.verdicts, self.learning)

    @property
    def judged_through(self) -> int:
        """The newest step that any rule has judged; -1 for none."""
        return max((rule.judged_through for rule in self.rules), default=-1)

    def __repr__(self) -> str:
        return f"<Judgement of {self.run!r}: {self.headline()}>"

    def __str__(self) -> str:
        return "\n".join([f"{self.run}: {self.headline()}", *problems_as_text(self.problems)])

    def _repr_html_(self) -> str:
        return problems_as_html(
            self.problems, heading=RunLocation(self.run).name, state=self.headline(), sources=SourceText(self.run)
        )

    def headline(self) -> str:
        """Return the result in a few words."""
        state = RunState.ENDED if self.has_ended else RunState.OPEN
        judged = judged_part(self.rules, state=state, run=self.run, problem=self.problem, learning=self.learning)
        standing = [group for group in self.problems if group.standing]
        if not standing and not judged.is_well:
            return judged.reservation
        rules = f"{judged.answers} rule{'' if judged.answers == 1 else 's'} through step {judged_through(self.rules):,}"
        if not standing:
            return f"no issue so far, {rules}" if not self.has_ended else f"no issue, {rules}"
        plural = "" if len(standing) == 1 else "s"
        return f"{len(standing)} problem{plural}, {standing[0].severity.value}, {judged.reservation or rules}"


def _at(verdict: Verdict) -> str:
    return f", {verdict.lead.place}" if verdict.lead is not None and verdict.lead.place else ""


def judgement_of(recorded: RecordedRun) -> Judgement:
    """Return the judgement that a run holds.

    Args:
        recorded: The recorded state of the run.
    """
    problem = recorded.judged.why_not if recorded.judged.command else ""
    uri, judged = recorded.location.uri, recorded.judged
    return Judgement(uri, recorded.has_ended, recorded.rules, recorded.verdicts, problem, judged.learning)


def judge(run: str | Trial, *, rules: Rules | None = None) -> Judgement:
    """Judge a recorded run now, in this process, as `trackside rules run` does.

    Earlier verdicts on it do not count, nothing is written, and nobody is notified. A run that still trains is judged
    up to its newest step.

    Args:
        run: A folder, `s3://bucket/prefix`, the name of a run below `.trackside/runs`, `latest`, or an open trial.
        rules: Rules by id, as `"overfit"`, `"overfit:patience_evaluations=5"` or `"mine.py:Large"`; or a mapping from
            the rule to its parameters. None for the project's rules, by default all usual ones.

    Returns:
        The judgement: its `findings`, `problems`, `rules` and `verdicts`.

    Raises:
        ConfigurationError: A rule or parameter is unknown. Lists every problem.
        RunNotFoundError: No run is at the location.
        StorageError: The run cannot be read.

    Example:
        for finding in trackside.judge("latest", rules=["vanishing-gradient"]).findings:
            print(finding.severity.value, finding.message)
    """
    chosen = rules_of(rules, subject="The rules to judge by")
    if not chosen:
        problem = Problem("rules", "is empty.", "Name a rule, or leave `rules` out for all usual ones.")
        raise ConfigurationError([problem], subject="The rules to judge by")
    uri = run.uri.removesuffix(f"/{TENSORS}") if isinstance(run, Trial) else find_run(run)
    return judgement_of(judge_now(uri, chosen, clock=time.time).recorded)
