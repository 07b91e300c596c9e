"""The state of each rule of a run, for users: seven states with distinct words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from trackside.contracts.issue_group import standing_issues
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run.learning import Learning
from trackside.contracts.verdict import NOTHING_TO_JUDGE, Outcome, Severity, State, Verdict
from trackside.evaluation.results.progress import RuleProgress


class RuleState(Enum):
    """The state of a rule. The value is the word for users."""

    ISSUE = "Issue"
    RECOVERED = "Recovered"
    OK = "OK"
    RUNNING = "Running"
    NOT_ENOUGH_DATA = "Not enough data"
    NOT_APPLICABLE = "Not applicable"
    ERROR = "Error"


@dataclass(frozen=True)
class RuleStatus:
    """The status of one rule configuration of a run.

    name            the configuration
    state           the state
    detail          the reason for it
    judged          the number of judged steps
    judged_through  the newest of them; -1 for none
    verdict         the verdict behind the state; None so far
    """

    name: str
    rule_id: str
    state: RuleState
    detail: str
    judged: int = 0
    judged_through: int = -1
    verdict: Verdict | None = None

    @property
    def shown_through(self) -> int | None:
        """The number of `judged_through` among the training steps; None if the rule's verdict is of another step."""
        is_known = self.verdict is not None and self.verdict.step == self.judged_through
        return self.verdict.shown_step if self.verdict is not None and is_known else None


def judged_through(rules: Iterable[RuleStatus]) -> int:
    """Return the newest step that any of the rules has judged, as users count if that is known; -1 for none.

    Args:
        rules: The rules.
    """
    found = tuple(rules)
    counted = [number for rule in found if (number := rule.shown_through) is not None]
    return max(counted or [rule.judged_through for rule in found], default=-1)


def rule_statuses(
    rules: Sequence[RuleConfiguration],
    verdicts: Iterable[Verdict],
    *,
    progress: Mapping[str, RuleProgress],
    is_running: bool,
) -> tuple[RuleStatus, ...]:
    """Return one status for each requested rule, in that order, then for any other rule with a verdict.

    Args:
        rules: The requested rules.
        verdicts: The verdicts of the run, oldest first.
        progress: The progress of each rule, by the name of its configuration.
        is_running: True if more verdicts may come.
    """
    decisive: dict[str, Verdict] = {}
    opened: dict[str, Verdict] = {}
    for verdict in verdicts:
        name = verdict.configuration_name
        if verdict.outcome is Outcome.ISSUE_FOUND:
            decisive[name] = opened[name] = verdict
        elif name not in opened or verdict.state is State.RECOVERED:  # only its recovery ends an issue
            decisive[name] = verdict
    rule_ids = {rule.name: rule.rule_id for rule in rules}
    others = {name: verdict.rule_id for name, verdict in decisive.items() if name not in rule_ids}
    return tuple(
        _status(
            name,
            rule_id,
            decisive.get(name),
            progress.get(name, RuleProgress()),
            opened=opened.get(name),
            is_running=is_running,
        )
        for name, rule_id in {**rule_ids, **others}.items()
    )


def worst_severity(verdicts: Iterable[Verdict]) -> Severity | None:
    """Return the gravest severity among the issues that have not recovered; None without one.

    Args:
        verdicts: The verdicts of the run, oldest first.
    """
    found = [issue.severity for issue in standing_issues(verdicts)]
    return max(found, key=lambda severity: severity.rank, default=None)


def was_ruined(verdicts: Iterable[Verdict], learning: Learning) -> bool:
    """Return True if a critical issue hurt the training, and it ended no better than a constant answer.

    So a critical issue counts that seemed to have recovered.

    Args:
        verdicts: The verdicts of the run.
        learning: What it has learned by its end.
    """
    return bool(learning.level) and any(verdict.harm for verdict in verdicts)


def gravest_severity(verdicts: Sequence[Verdict], learning: Learning) -> Severity | None:
    """Return the severity by which a run fails: of its issues, or critical if it was ruined or failed its rehearsal.

    Args:
        verdicts: The verdicts of the run, oldest first.
        learning: What it has learned by its end.
    """
    is_critical = learning.faults or was_ruined(verdicts, learning)
    return Severity.CRITICAL if is_critical else worst_severity(verdicts)


def _status(
    name: str, rule_id: str, verdict: Verdict | None, done: RuleProgress, *, opened: Verdict | None, is_running: bool
) -> RuleStatus:
    state, detail = _state(verdict, done, opened=opened, is_running=is_running)
    return RuleStatus(name, rule_id, state, detail, done.judged, done.judged_through, verdict)


def _state(
    verdict: Verdict | None, done: RuleProgress, *, opened: Verdict | None, is_running: bool
) -> tuple[RuleState, str]:
    if verdict is not None and verdict.outcome is Outcome.ISSUE_FOUND:
        return RuleState.ISSUE, _issue_detail(verdict)
    if done.error:
        return RuleState.ERROR, done.error
    if verdict is not None:
        return _state_without_issue(verdict, opened)
    judged = f"{done.judged} step{'' if done.judged == 1 else 's'} judged"
    if is_running:
        return RuleState.RUNNING, f"{judged}, no issue so far"
    return RuleState.NOT_ENOUGH_DATA, f"{judged}, no answer" if done.judged else "nothing was judged"


def _state_without_issue(verdict: Verdict, opened: Verdict | None) -> tuple[RuleState, str]:
    if opened is not None:  # its issue is over
        return RuleState.RECOVERED, f"by step {verdict.shown_step}; it was {_issue_detail(opened)}"
    if verdict.is_not_applicable:
        return RuleState.NOT_APPLICABLE, verdict.message.removeprefix(NOTHING_TO_JUDGE)
    state = RuleState.OK if verdict.outcome is Outcome.CLEAN else RuleState.NOT_ENOUGH_DATA
    return state, verdict.message


def _issue_detail(verdict: Verdict) -> str:
    plural = "" if verdict.affected == 1 else "s"
    affected = f", {verdict.affected} tensor{plural}" if verdict.affected else ""
    return f"{verdict.severity.value}, since step {verdict.shown_since}{affected}"
