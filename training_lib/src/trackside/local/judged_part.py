"""The part of a run that rules have judged: the one answer for every page, list, report, document and exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trackside.local.rule_state import RuleState, RuleStatus
from trackside.local.run_folder import RunState, typed_name

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
    """

    fine: int
    with_issue: int
    recovered: tuple[str, ...]
    failed: tuple[str, ...]
    lacking: int
    inapplicable: int
    is_growing: bool
    why_not: str
    command: str

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
        """True if so few rules judged the run, of more that could not, that no issue is no sign of health."""
        return self.answers < _FEW_RULES and self.lacking + self.inapplicable > self.answers and self.lacking > 0

    @property
    def not_judged(self) -> str:
        """The run's state in words, `not judged: no rule was asked; trackside rules run NAME`; "" for a judged run."""
        if self.is_judged:
            return ""
        return f"{self._not_judged}: {'; '.join(filter(None, (self.why_not, self.command)))}"

    @property
    def no_issue(self) -> str:
        """The word for a run without a standing issue, in a list: `none`, `none so far`, `not judged`."""
        if not self.is_judged:
            return self._not_judged
        return "none so far" if self.is_growing else "none"

    @property
    def _not_judged(self) -> str:
        return "not judged to the end" if self.has_answer else "not judged"

    def counts(self, steps: int) -> str:
        """Return the number of rules that found nothing, and of steps: `36 rules over 60 steps`.

        Args:
            steps: Number of training steps of the run.
        """
        return f"{_count(self.fine, 'rule')} over {_count(steps, 'step')}"

    @property
    def others(self) -> str:
        """The rules without an answer in numbers, `6 lacked data, 8 do not apply`; "" for none."""
        lacking = f"{self.lacking} lacked data" if self.lacking else ""
        inapplicable = f"{self.inapplicable} {'does' if self.inapplicable == 1 else 'do'} not apply"
        return ", ".join(filter(None, (lacking, inapplicable if self.inapplicable else "")))


def judged_part(rules: Sequence[RuleStatus], *, state: RunState, run: str, problem: str = "") -> JudgedPart:
    """Return what rules have judged of a run.

    Args:
        rules: The state of each rule.
        state: The state of the run.
        run: The location of the run.
        problem: Clause about why the judging of the run ended before it was judged; "" if it did not.
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
        command=f"trackside rules run {typed_name(run)}" if is_data_here else "",
    )


def _why_not(rules: Sequence[RuleStatus], state: RunState, problem: str, *, has_answer: bool) -> tuple[str, bool]:
    """Return why a run is not judged, and whether rules could judge it now."""
    if problem:
        return problem.rstrip("."), True
    if not rules:
        return "no rule was asked", True
    without_word = [rule for rule in rules if rule.state is RuleState.NOT_ENOUGH_DATA and rule.verdict is None]
    if cut_off := sum(rule.judged_through >= 0 or not has_answer for rule in without_word):
        unanswered = f"{_count(cut_off, 'rule')} gave no answer at its end"
        return "what judged it was killed" if state is RunState.LOST else unanswered, True
    if has_answer:
        return "", False
    if any(rule.judged_through >= 0 for rule in rules):
        return "too little data for every rule that applies", False
    return "no step so far" if state in _GROWING else "it ended before a step that a rule can judge", False


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
