"""The verdict on a change: what proves a cure, and what does not."""

from __future__ import annotations

from dataclasses import replace

from tests.for_each import for_each
from tests.training_lib.local.verdicts import issue
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Severity, Verdict
from trackside.runs.judged_part import judged_part
from trackside.runs.recorded_run import RecordedRun
from trackside.runs.rule_state import RuleState, RuleStatus
from trackside.runs.run_folder import RunState
from trackside.views.comparing.cure import CureVerdict, cure_of

MENDED, NOT_MENDED, NO_PROOF = CureVerdict
OTHERS = tuple(f"other-{number}" for number in range(5))


def status(name: str, state: RuleState, *, through: int = 100, verdict: Verdict | None = None) -> RuleStatus:
    return RuleStatus(name, name, state, "it had no loss.", judged=10, judged_through=through, verdict=verdict)


def found(name: str, *, severity: Severity = Severity.CRITICAL, group: str = "") -> RuleStatus:
    return status(name, RuleState.ISSUE, verdict=replace(issue(name, severity=severity), group=group or name))


def run(*rules: RuleStatus, others: RuleState = RuleState.OK) -> RecordedRun:
    every = (*rules, *(status(name, others) for name in OTHERS))
    part = judged_part(every, state=RunState.FINISHED, run="runs/x")
    return RecordedRun(RunLocation("runs/x"), True, RunState.FINISHED, None, (0, 100), (), every, part)


BROKEN = run(found("overfit"), found("loss-spike"))
FIXED = status("overfit", RuleState.OK), status("loss-spike", RuleState.OK)
NOTHING = run(others=RuleState.NOT_ENOUGH_DATA)

CASES: dict[str, tuple[RecordedRun, RecordedRun, CureVerdict, str]] = {
    "each is gone": (BROKEN, run(*FIXED), MENDED, "overfit and loss-spike are gone; no issue is new"),
    "nothing is left to judge": (
        run(found("overfit")),
        run(status("overfit", RuleState.NOT_APPLICABLE)),
        MENDED,
        "overfit is gone",
    ),
    "information alone is new": (
        BROKEN,
        run(*FIXED, found("batch-size", severity=Severity.INFO)),
        MENDED,
        "are gone",
    ),
    "a lighter one is left": (
        run(found("loss-spike"), found("dataloader", severity=Severity.WARNING)),
        run(FIXED[1], found("dataloader", severity=Severity.WARNING)),
        MENDED,
        "loss-spike is gone; no issue is new; left: dataloader",
    ),
    "a lighter one is new": (
        BROKEN,
        run(*FIXED, found("dead-relu", severity=Severity.WARNING)),
        MENDED,
        "new and less grave: dead-relu",
    ),
    "a lighter one of the same problem stands": (
        run(found("loss-spike"), found("overfit", severity=Severity.WARNING, group="loss-spike")),
        run(FIXED[1], found("overfit", severity=Severity.WARNING)),
        NOT_MENDED,
        "overfit stands in B, too",
    ),
    "information alone was to mend": (
        run(found("batch-size", severity=Severity.INFO)),
        run(status("batch-size", RuleState.OK)),
        MENDED,
        "batch-size is gone",
    ),
    "one stands": (BROKEN, run(FIXED[0], found("loss-spike")), NOT_MENDED, "loss-spike stands in B, too"),
    "another is new": (BROKEN, run(*FIXED, found("dead-relu")), NOT_MENDED, "B has a new issue: dead-relu"),
    "the rule did not judge": (BROKEN, run(FIXED[0]), NO_PROOF, "loss-spike: this rule did not judge B"),
    "it came and went": (
        BROKEN,
        run(FIXED[0], status("loss-spike", RuleState.RECOVERED)),
        NO_PROOF,
        "loss-spike: it came and recovered in B",
    ),
    "it lacked data": (
        BROKEN,
        run(FIXED[0], status("loss-spike", RuleState.NOT_ENOUGH_DATA)),
        NO_PROOF,
        "loss-spike: it could not judge B: it had no loss",
    ),
    "it ended too early": (
        BROKEN,
        run(FIXED[0], status("loss-spike", RuleState.OK, through=19)),
        NO_PROOF,
        "B was judged up to step 19 only; in A it was found at step 20",
    ),
    "it has not ended": (BROKEN, run(FIXED[0], status("loss-spike", RuleState.RUNNING)), NO_PROOF, "B has not ended"),
    "the second is not judged": (BROKEN, NOTHING, NO_PROOF, "B is not judged"),
    "the first is not judged": (NOTHING, run(*FIXED), NO_PROOF, "A is not judged"),
    "there was nothing to mend": (run(*FIXED), run(*FIXED), NO_PROOF, "no issue stands in A that could be mended"),
}


@for_each(CASES)
def test_the_verdict_on_a_change(before: RecordedRun, after: RecordedRun, verdict: CureVerdict, reason: str) -> None:
    cure = cure_of(before, after)
    assert cure.verdict is verdict, cure
    assert reason in cure.reason


def test_a_run_that_learned_nothing_proves_nothing() -> None:
    after = run(*FIXED)
    learned_nothing = replace(after.judged.learning, faults="the rehearsal found 1 fault: loss")
    cure = cure_of(BROKEN, replace(after, judged=replace(after.judged, learning=learned_nothing)))
    assert (cure.verdict, cure.gone) == (NO_PROOF, ("overfit", "loss-spike"))
    assert "the rehearsal found 1 fault" in cure.reason


def test_what_is_gone_left_and_new_is_named() -> None:
    cure = cure_of(BROKEN, run(FIXED[0], found("loss-spike"), found("dead-relu")))
    assert (cure.gone, cure.left, cure.new, cure.unproved) == (("overfit",), ("loss-spike",), ("dead-relu",), ())
