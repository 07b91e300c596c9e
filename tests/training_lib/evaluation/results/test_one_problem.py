"""Which issues are one problem: by a cause that they share, or by what their findings are evidence of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.training_lib.local.verdicts import issue
from trackside.contracts.cause import Cause, Sign, Suspicion
from trackside.evaluation.results.verdicts import is_one_problem

HIGH, LOW, DEAD = Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW, Cause.DEAD_UNITS
LEAK, LABELS, ORDER = Cause.DATA_LEAKAGE, Cause.WRONG_LABELS, Cause.STEP_ORDER
Issue = tuple[str, tuple[Cause, ...]]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(("dead-relu", (DEAD,)), ("overfit", (DEAD,)), True, id="the-same-cause"),
        pytest.param(("overfit", (LEAK, HIGH)), ("dead-relu", (DEAD, HIGH)), True, id="the-second-of-both"),
        pytest.param(("overfit", (LABELS,)), ("data-leakage", (LEAK, ORDER, LABELS)), False, id="the-third"),
        pytest.param(("loss-spike", (HIGH,)), ("dead-relu", (DEAD,)), True, id="dead-units-of-a-high-rate"),
        pytest.param(("overfit", (HIGH,)), ("dead-relu", (DEAD,)), True, id="whoever-named-the-rate"),
        pytest.param(("loss-not-decreasing", (LOW,)), ("clean", (LABELS,)), True, id="nothing-is-learned"),
        pytest.param(("data-leakage", (LEAK,)), ("dead-relu", (DEAD,)), False, id="nothing-in-common"),
        pytest.param(("passes-without-step", (ORDER,)), ("overfit", (LABELS,)), False, id="two-mistakes"),
        pytest.param(("of-somebody", (HIGH,)), ("of-another", (DEAD,)), False, id="rules-without-weights"),
        pytest.param(("of-somebody", (HIGH,)), ("dead-relu", (DEAD,)), True, id="one-without-weights"),
    ],
)
def test_whether_they_are_one(one: Issue, other: Issue, expected: bool) -> None:
    first, second = (
        replace(issue(rule), suspicions=tuple(map(Suspicion, causes)), signs=()) for rule, causes in (one, other)
    )
    assert is_one_problem(first, second) is is_one_problem(second, first) is expected


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        pytest.param(("shown:bad-initialization", "found:poor-weight-initialization"), True, id="evidence-for-it"),
        pytest.param(("found:overfit",), False, id="evidence-of-another"),
        pytest.param((), False, id="no-evidence"),
    ],
)
def test_the_cause_that_stands_may_explain_the_new_issue(signs: tuple[str, ...], expected: bool) -> None:
    new = replace(issue("overfit"), suspicions=(Suspicion(Cause.OVERFITTING),), signs=tuple(map(Sign, signs)))
    standing = replace(issue("of-somebody"), suspicions=(Suspicion(Cause.BAD_INITIALIZATION),), signs=())
    assert is_one_problem(new, standing) is expected
