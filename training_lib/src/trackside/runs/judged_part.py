"""The part of a run that rules have judged: the one answer for every page, list, report, document and exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from trackside.contracts.english import counted
from trackside.contracts.run.learning import Learning
from trackside.contracts.stored_fields import BOOLEAN, COUNT, TEXT, TEXTS, record, stored
from trackside.contracts.verdict import NO_LOSS, Severity
from trackside.runs.rule_state import RuleState, RuleStatus
from trackside.runs.run_folder import RunState, typed_name

CLEAN, NOT_JUDGED = "none", "not-judged"  # beside the severities, in `worst_word`
_FEW_RULES = 5
_GROWING = frozenset({RunState.RUNNING, RunState.OPEN})


@dataclass(frozen=True)
class JudgedPart:
    """The part of a run that rules have judged.

    fine          number of rules that judged enough and found no issue; of a growing run, so far
    with_issue    number of rules whose issue stands
    recovered     names of rules whose issue recovered
    failed        names of rules that crashed
    lacking       number of rules that had too little to judge
    inapplicable  number of rules with nothing to judge in such a program
    is_growing    True while more verdicts may come
    why_not       clause about why the run, or its rest, is not judged; "" if it is
    command       the command that judges it now; "" if none can
    learning      what the run has learned by its end
    has_no_loss   True if a rule found that no loss was recorded
    """

    fine: int = field(metadata=stored(COUNT))
    with_issue: int = field(metadata=stored(COUNT))
    recovered: tuple[str, ...] = field(metadata=stored(TEXTS))
    failed: tuple[str, ...] = field(metadata=stored(TEXTS))
    lacking: int = field(metadata=stored(COUNT))
    inapplicable: int = field(metadata=stored(COUNT))
    is_growing: bool = field(metadata=stored(BOOLEAN))
    why_not: str = field(metadata=stored(TEXT))
    command: str = field(metadata=stored(TEXT))
    learning: Learning = field(metadata=stored(record(Learning)))
    has_no_loss: bool = field(metadata=stored(BOOLEAN))

    @property
    def answers(self) -> int:
        """The number of rules that have judged the run."""
        return self.fine + self.with_issue + len(self.recovered)

    @property
    def has_answer(self) -> bool:
        """True if a rule has judged the run: only then is "no issue" news, and good news."""
        return self.answers > 0

    @property
    def is_judged(self) -> bool:
        """True if rules have judged the run to its end, or, while it grows, so far."""
        return self.has_answer and not self.why_not

    @property
    def is_hardly_judged(self) -> bool:
        """True if so few rules judged the run, of more that could not, that no issue is no sign of health.

        So it is with a run of a few steps, in which most rules lack data.
        """
        is_few = self.answers < _FEW_RULES and self.lacking + self.inapplicable > self.answers
        return self.is_judged and (is_few or self._lacks_most) and self.lacking > 0 and not self.with_issue

    @property
    def is_enough(self) -> bool:
        """True if rules have judged so much that the absence of an issue is news."""
        return self.is_judged and not self.is_hardly_judged

    @property
    def not_judged(self) -> str:
        """The run's state in words, `not judged: no rule was asked; trackside rules run NAME`; "" for a judged run."""
        if self.is_judged:
            return ""
        return f"{self._not_judged}: {'; '.join(filter(None, (self.why_not, self.command)))}"

    @property
    def is_well(self) -> bool:
        """True if it is good news that no issue stands: enough was judged, and the run learned by all that is known."""
        return self.is_enough and not self.learning.word

    @property
    def reservation(self) -> str:
        """The reason why a run may be ill although no issue stands, a clause; "" if it is well."""
        hardly = "" if self.learning.word or not self.is_hardly_judged else self._hardly_judged
        return "; ".join(filter(None, (self.not_judged or hardly, *self.learning.clauses)))

    def headline(self, steps: int, *, before: str = "", rested: int | None = None) -> str:
        """Return the headline of a run without a standing issue: `no issue: 36 rules over 60 steps`.

        Args:
            steps: Number of training steps of the run.
            before: What ended it, ` before the training ended with code 3`; "" if it came to its end.
            rested: Number of those steps that were not watched. None: as it stood at the end of the run.
        """
        counts = self.counts(steps, rested=rested)
        if not self.is_judged:
            found = f"; {counts} found nothing" if self.fine else ""
            return f"{self.not_judged}{before}{found}"
        if self.learning.word:
            return f"no rule found an issue{before}: {counts}"
        if self.is_hardly_judged:
            return f"{self._hardly_judged}{before}: {counts} found nothing"
        return f"no issue{before}: {counts}"

    @property
    def no_issue(self) -> str:
        """The word for a run without a standing issue, in a list: `none`, `none so far`, `not judged`."""
        if not self.is_judged:
            return self._not_judged
        if self.learning.word:
            return f"none, {self.learning.word}"
        if self.is_hardly_judged:
            return "hardly judged"
        return "none so far" if self.is_growing else "none"

    @property
    def _not_judged(self) -> str:
        return "not judged to the end" if self.has_answer else "not judged"

    @property
    def _hardly_judged(self) -> str:
        why = "no loss was recorded" if self.has_no_loss else "most rules had too little data"
        return f"hardly judged{f', as {why}' if self.has_no_loss or self._lacks_most else ''}"

    @property
    def _lacks_most(self) -> bool:
        return self.lacking > self.answers

    def counts(self, steps: int, *, rested: int | None = None) -> str:
        """Return the number of rules that found nothing, and of steps: `36 rules over 60 steps`.

        Args:
            steps: Number of training steps of the run.
            rested: Number of those that were not watched. None: as it stood at the end of the run.
        """
        rested = self.learning.rested if rested is None else rested
        watched = f"{steps - rested:,} of " if rested else ""
        return f"{counted(self.fine, 'rule')} over {watched}{counted(steps, 'step')}"

    @property
    def others(self) -> str:
        """The rules without an answer in numbers, `6 lacked data, 8 do not apply`; "" for none."""
        lacking = f"{self.lacking} lacked data" if self.lacking else ""
        inapplicable = f"{self.inapplicable} {'does' if self.inapplicable == 1 else 'do'} not apply"
        return ", ".join(filter(None, (lacking, inapplicable if self.inapplicable else "")))


def judged_part(
    rules: Sequence[RuleStatus],
    *,
    state: RunState,
    run: str,
    problem: str = "",
    learning: Learning | None = None,
) -> JudgedPart:
    """Return what rules have judged of a run.

    Args:
        rules: The state of each rule.
        state: The state of the run.
        run: The location of the run.
        problem: Clause about why the judging of the run ended before it was judged; "" if it did not.
        learning: What the run has learned by its end; None if that is not known.
    """
    counts = Counter(rule.state for rule in rules)
    is_growing = state in _GROWING
    begun = sum(rule.state is RuleState.RUNNING and rule.judged > 0 for rule in rules)
    recovered = tuple(rule.name for rule in rules if rule.state is RuleState.RECOVERED)
    fine, with_issue = counts[RuleState.OK] + begun, counts[RuleState.ISSUE]
    why_not, is_data_here = _why_not(rules, state, problem, has_answer=bool(fine or with_issue or recovered))
    return JudgedPart(
        fine=fine,
        with_issue=with_issue,
        recovered=recovered,
        failed=tuple(rule.name for rule in rules if rule.state is RuleState.ERROR),
        lacking=counts[RuleState.NOT_ENOUGH_DATA],
        inapplicable=counts[RuleState.NOT_APPLICABLE],
        is_growing=is_growing,
        why_not=why_not,
        command=judging_command(run) if is_data_here else "",
        learning=learning or Learning(),
        has_no_loss=any(rule.detail.startswith(NO_LOSS) for rule in rules),
    )


def worst_word(worst: Severity | None, judged: JudgedPart) -> str:
    """Return the one word for how a run went: a severity, "none", or "not-judged" where no issue is no news.

    Args:
        worst: The severity by which it fails; None for none.
        judged: The part of it that rules have judged.
    """
    if worst is not None:
        return worst.value
    return CLEAN if judged.is_enough else NOT_JUDGED


def judging_command(run: str) -> str:
    """Return the command that judges a run now, as it is typed in the working folder.

    Args:
        run: The location of the run.
    """
    return f"trackside rules run {typed_name(run)}"


def _why_not(rules: Sequence[RuleStatus], state: RunState, problem: str, *, has_answer: bool) -> tuple[str, bool]:
    """Return why a run is not judged, and whether rules could judge it now."""
    if problem:
        return problem.rstrip("."), True
    if not rules:
        return "no rule was asked", True
    without_word = [rule for rule in rules if rule.state is RuleState.NOT_ENOUGH_DATA and rule.verdict is None]
    if cut_off := sum(rule.judged_through >= 0 or not has_answer for rule in without_word):
        unanswered = f"{counted(cut_off, 'rule')} gave no answer at its end"
        return "what judged it was killed" if state is RunState.LOST else unanswered, True
    if has_answer:
        return "", False
    if any(rule.judged_through >= 0 for rule in rules):
        return "too little data for every rule that applies", False
    return "no step so far" if state in _GROWING else "it ended before a step that a rule can judge", False
