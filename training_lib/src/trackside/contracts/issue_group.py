"""The verdicts of one problem as one unit: a cause, the issues that show it, and their state now. Pure functions.

One problem may show in many rules. Users see one card a group: in the live view, in the summary and in `findings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trackside.contracts.cause import Suspicion
from trackside.contracts.verdict import Outcome, Severity, State, Verdict


@dataclass(frozen=True)
class IssueGroup:
    """The issues of one problem, at least one.

    issues     the newest issue of each rule configuration, oldest first
    recovered  by configuration, the verdict with which its issue recovered
    """

    issues: tuple[Verdict, ...]
    recovered: Mapping[str, Verdict]

    @property
    def group(self) -> str:
        """The id of the problem."""
        return self.issues[0].group

    @property
    def standing(self) -> tuple[Verdict, ...]:
        """The issues that have not recovered, oldest first."""
        return tuple([issue for issue in self.issues if issue.configuration_name not in self.recovered])

    @property
    def recovered_at(self) -> int | None:
        """The step at which the last issue recovered; None while any stands."""
        return None if self.standing else max(verdict.step for verdict in self.recovered.values())

    @property
    def shown_recovery(self) -> int | None:
        """The number of `recovered_at` among the training steps."""
        return None if self.standing else max(verdict.shown_step for verdict in self.recovered.values())

    @property
    def recovery(self) -> str:
        """The clause about the recovery: `recovered by step 80`; "" while any issue stands."""
        return "" if self.standing else f"recovered by step {self.shown_recovery}"

    @property
    def severity(self) -> Severity:
        """The gravest severity of the standing issues; of all, where none stands."""
        return max((issue.severity for issue in self.standing or self.issues), key=lambda severity: severity.rank)

    @property
    def lead(self) -> Verdict:
        """The issue that the card shows: the gravest, then the surest one, then the first."""
        return max(self.standing or self.issues, key=lambda issue: (issue.severity.rank, issue.probability or 0.0))

    @property
    def symptoms(self) -> tuple[Verdict, ...]:
        """The other issues, standing ones first."""
        lead = self.lead
        others = [issue for issue in self.issues if issue is not lead]
        return tuple(sorted(others, key=lambda issue: issue.configuration_name in self.recovered))

    @property
    def suspicions(self) -> tuple[Suspicion, ...]:
        """The causes by all evidence: those of the newest issue with evidence, else of the card's own.

        Of issues of one step it is the last: it was weighed with the others.
        """
        with_evidence = [issue for issue in self.standing or self.issues if issue.signs]
        newest = max(reversed(with_evidence), key=lambda issue: issue.step, default=self.lead)
        return newest.suspicions

    @property
    def is_cause_unknown(self) -> bool:
        """True if all evidence was weighed, and supports no cause well enough."""
        return bool(self.lead.signs) and not self.suspicions

    @property
    def probability(self) -> float | None:
        """The highest probability of the issues that the card is about; None where none is known."""
        known = [issue.probability for issue in self.standing or self.issues if issue.probability is not None]
        return max(known, default=None)


def group_of_one(verdict: Verdict) -> IssueGroup:
    """Return a group with a single issue.

    Args:
        verdict: The issue.
    """
    return IssueGroup((verdict,), {})


def issue_groups(verdicts: Iterable[Verdict]) -> tuple[IssueGroup, ...]:
    """Return the groups of issues, standing ones first, then the gravest, then the oldest.

    Args:
        verdicts: The verdicts of one run, oldest first.
    """
    issues: dict[str, dict[str, Verdict]] = {}
    recovered: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        name = verdict.configuration_name
        if verdict.outcome is Outcome.ISSUE_FOUND:
            before = [
                of_group.pop(name) for group, of_group in issues.items() if _stands(name, of_group, recovered[group])
            ]
            # A rule has one standing issue: the newest, unless it was graver before.
            kept = max([verdict, *before], key=lambda issue: issue.severity.rank)
            issues.setdefault(verdict.group, {}).pop(name, None)
            issues[verdict.group][name] = replace(kept, group=verdict.group)
            recovered.setdefault(verdict.group, {}).pop(name, None)
        elif verdict.state is State.RECOVERED and name in issues.get(verdict.group, {}):
            recovered[verdict.group][name] = verdict
    groups = [IssueGroup(tuple(of_group.values()), recovered[group]) for group, of_group in issues.items() if of_group]
    return tuple(sorted(groups, key=lambda group: (not group.standing, -group.severity.rank)))


def _stands(name: str, issues: Mapping[str, Verdict], recovered: Mapping[str, Verdict]) -> bool:
    return name in issues and name not in recovered


def recovered_groups(groups: Iterable[IssueGroup]) -> tuple[IssueGroup, ...]:
    """Return the groups of which no issue stands.

    Args:
        groups: Groups of one run.
    """
    return tuple([group for group in groups if not group.standing])


def standing_issues(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return the issues that have not recovered, one a rule configuration, oldest first.

    Args:
        verdicts: The verdicts of one run, oldest first.
    """
    return tuple([issue for group in issue_groups(verdicts) for issue in group.standing])
