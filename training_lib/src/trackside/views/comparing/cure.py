"""The proof of a cure: whether a run after a change lacks the issues of the run before it, by rules that looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from trackside.contracts.verdict import Severity
from trackside.runs.recorded_run import RecordedRun
from trackside.runs.rule_state import RuleState, RuleStatus

MOST_NAMED = 3
_GONE = frozenset({RuleState.OK, RuleState.NOT_APPLICABLE})  # the rule looked, and found nothing (to judge)

_WITHOUT_PROOF = {
    RuleState.ISSUE: "it stands in B, too",
    RuleState.RECOVERED: "it came and recovered in B",
    RuleState.RUNNING: "B has not ended",
}


class CureVerdict(str, Enum):
    """The verdict on a change.

    MENDED      the gravest issues of the first run are gone, and none as grave is new
    NOT_MENDED  one of them stands in the second run, too, or a new one as grave does
    NO_PROOF    the second run does not show it
    """

    MENDED = "mended"
    NOT_MENDED = "not mended"
    NO_PROOF = "no proof"


@dataclass(frozen=True)
class Cure:
    """The issues of a run that a change was to mend, and of the run after the change.

    reason    the reason in a clause
    gone      rules with a standing issue in the first run that looked at the second one and found none
    left      rules with a standing issue in both
    unproved  rules with a standing issue in the first run that cannot tell of the second one, each with the reason
    new       rules with a standing issue in the second run only, information left out
    """

    verdict: CureVerdict
    reason: str
    gone: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    new: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The verdict and its reason in one line."""
        return f"{self.verdict.value}: {self.reason}"


def cure_of(before: RecordedRun, after: RecordedRun) -> Cure:
    """Return the verdict on a change between two runs.

    It is about the gravest issues of the first run, with the others of their problems. Lighter ones that are left, and
    lighter ones that are new, are named and do not count. An issue is gone if its rule judged the second run to the
    step at which it was found in the first one, or has nothing to judge any more. An issue that came and recovered in
    the second run is not gone.

    Args:
        before: The run with the issues.
        after: The run after the change.
    """
    issues, states, later = _standing(before), {rule.name: rule for rule in after.rules}, _standing(after)
    new = tuple(name for name in later if name not in issues and _severity(later[name]) is not Severity.INFO)
    if not before.judged.has_answer:
        return Cure(CureVerdict.NO_PROOF, "A is not judged", new=new)
    if not issues:
        return Cure(CureVerdict.NO_PROOF, "no issue stands in A that could be mended", new=new)
    if not after.judged.has_answer:
        unproved = tuple(f"{name}: B is not judged" for name in issues)
        return Cure(CureVerdict.NO_PROOF, "B is not judged", unproved=unproved)
    doubts = {name: _doubt(rule, states.get(name)) for name, rule in issues.items()}
    left = tuple(name for name in issues if name in later)
    found = Cure(
        CureVerdict.MENDED,
        "",
        gone=tuple(name for name in issues if not doubts[name]),
        left=left,
        unproved=tuple(f"{name}: {doubt}" for name, doubt in doubts.items() if doubt and name not in left),
        new=new,
    )
    verdict, reason = _verdict(found, issues, later, after)
    return replace(found, verdict=verdict, reason=reason)


def _verdict(
    found: Cure, issues: dict[str, RuleStatus], later: dict[str, RuleStatus], after: RecordedRun
) -> tuple[CureVerdict, str]:
    worst = max(_severity(rule).rank for rule in issues.values())
    problems = {rule.verdict.group for rule in issues.values() if rule.verdict and _severity(rule).rank == worst}
    grave = [name for name, rule in issues.items() if rule.verdict and rule.verdict.group in problems]
    if left := [name for name in found.left if name in grave]:
        return CureVerdict.NOT_MENDED, f"{_named(left)} {_stand(left)} in B, too"
    if new := [name for name in found.new if _severity(later[name]).rank >= worst]:
        return CureVerdict.NOT_MENDED, f"B has a new issue: {_named(new)}"
    if unproved := [text for text in found.unproved if text.partition(":")[0] in grave]:
        return CureVerdict.NO_PROOF, unproved[0]
    if after.judged.reservation:
        return CureVerdict.NO_PROOF, f"B: {after.judged.reservation}"
    gone = [name for name in grave if name in found.gone]
    lighter = [f"new and less grave: {_named(found.new)}"] if found.new else ["no issue is new"]
    lighter += [f"left: {_named(found.left)}"] if found.left else []
    return CureVerdict.MENDED, "; ".join([f"{_named(gone)} {'is' if len(gone) == 1 else 'are'} gone", *lighter])


def _standing(run: RecordedRun) -> dict[str, RuleStatus]:
    return {rule.name: rule for rule in run.rules if rule.state is RuleState.ISSUE and rule.verdict is not None}


def _severity(rule: RuleStatus) -> Severity:
    return rule.verdict.severity if rule.verdict is not None else Severity.INFO


def _doubt(before: RuleStatus, after: RuleStatus | None) -> str:
    """Return the reason why an issue of the first run is not proved to be gone; "" if it is."""
    if after is None:
        return "this rule did not judge B"
    if after.state not in _GONE:
        return _WITHOUT_PROOF.get(after.state) or f"it could not judge B: {after.detail.rstrip('.')}"
    found = before.verdict.step if before.verdict is not None else 0
    through = max(after.judged_through, after.verdict.step if after.verdict is not None else -1)
    if after.state is RuleState.OK and through < found:
        return f"B was judged up to step {through} only; in A it was found at step {found}"
    return ""


def _named(names: Sequence[str]) -> str:
    some = list(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        return f"{', '.join(some)} and {len(names) - MOST_NAMED} more"
    return " and ".join(filter(None, (", ".join(some[:-1]), some[-1])))


def _stand(names: Sequence[str]) -> str:
    return "stands" if len(names) == 1 else "stand"
