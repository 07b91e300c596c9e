"""The final verdict in a run with values that are not finite to its end: no rule says OK of what it could not see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.training_lib.local.verdicts import finding, issue, no_issue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.verdict import FindingKind, Outcome, State, Verdict
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.final_verdict import needs_values, not_finite_since
from trackside.evaluation.results.progress import ProgressFile
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.testing.rule_case import recorded_trial

STEPS = 40
BROKEN = replace(
    finding(since_step=5),
    measure="non-finite values",
    relation=">",
    threshold=0.0,
    observed=3.0,
    kind=FindingKind.NOT_FINITE,
)


def verdicts_of_run_broken_at(step: int) -> dict[str, Verdict]:
    """Judge a run of real records whose gradient is NaN from a step on."""
    values = {k: np.array([np.nan if k >= step else 0.5, 0.25], np.float32) for k in range(STEPS)}
    trial = recorded_trial({"gradient/Net_fc.weight": values})
    rules = build_rules(RuleRequest((RuleConfiguration("exploding-tensor"), RuleConfiguration("vanishing-gradient"))))
    evaluator = Evaluator(trial, list(rules), (), ProgressFile(MemoryStore()), run="r", clock=lambda: 1e9)
    while not evaluator.is_done:
        evaluator.poll()
    return {verdict.rule_id: verdict for verdict in evaluator.summary().verdicts}


@pytest.mark.parametrize(
    ("step", "outcome", "message"),
    [
        pytest.param(
            5, Outcome.NOT_EVALUATED,
            "Values are not finite from step 5 on, which hides all else from this rule; "
            "no issue was found in the 5 steps before.", id="nearly-from-the-start",
        ),
        pytest.param(
            30, Outcome.CLEAN,
            "Values are not finite from step 30 on, which hides all else from this rule; "
            "no issue was found in the 30 steps before.", id="near-the-end",
        ),
        pytest.param(STEPS, Outcome.CLEAN, "40 steps judged up to step 39, no issue found.", id="finite"),
    ],
)  # fmt: skip
def test_a_rule_that_could_not_see_says_so(step: int, outcome: Outcome, message: str) -> None:
    verdict = verdicts_of_run_broken_at(step)["vanishing-gradient"]
    assert (verdict.outcome, verdict.message) == (outcome, message)


@pytest.mark.parametrize(
    ("rule", "steps", "outcome"),
    [
        pytest.param("exploding-tensor", 1, Outcome.NOT_EVALUATED, id="one-step"),
        pytest.param("exploding-tensor", 2, Outcome.NOT_EVALUATED, id="two"),
        pytest.param("exploding-tensor", 3, Outcome.CLEAN, id="as-many-as-end-an-issue"),
        pytest.param("exploding-tensor@aws-docs", 1, Outcome.CLEAN, id="amazon-s-own-count"),
    ],
)
def test_a_rule_is_ok_after_enough_steps(rule: str, steps: int, outcome: Outcome) -> None:
    name, _, preset = rule.partition("@")
    trial = recorded_trial({"gradient/Net_fc.weight": dict.fromkeys(range(steps), np.array([0.5, 0.25], np.float32))})
    configuration = RuleConfiguration(name, preset=preset) if preset else RuleConfiguration(name)
    evaluator = Evaluator(
        trial, list(build_rules(RuleRequest((configuration,)))), (), ProgressFile(MemoryStore()), run="r",
        clock=lambda: 1e9,
    )  # fmt: skip
    while not evaluator.is_done:
        evaluator.poll()
    (verdict,) = evaluator.summary().verdicts
    assert verdict.outcome is outcome, verdict.message


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        pytest.param((), None, id="none"),
        pytest.param((issue(),), None, id="another-issue"),
        pytest.param((issue("exploding-tensor", findings=(BROKEN,)),), 5, id="broken"),
        pytest.param(
            (
                issue("exploding-tensor", findings=(BROKEN,)),
                replace(
                    no_issue("exploding-tensor"), state=State.RECOVERED, group="digits/exploding-tensor/issue-found"
                ),
            ),
            None,
            id="recovered",
        ),
    ],
)
def test_the_step_from_which_values_are_not_finite(verdicts: tuple[Verdict, ...], expected: int | None) -> None:
    assert not_finite_since(verdicts) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param("vanishing-gradient", True, id="values"),
        pytest.param("loss-not-decreasing", True, id="the-loss"),
        pytest.param("gradients-not-cleared", False, id="the-program"),
        pytest.param("stalled-training", False, id="the-clock"),
    ],
)
def test_rules_of_the_program_see_as_much_as_before(rule: str, expected: bool) -> None:
    (configured,) = build_rules(RuleRequest((RuleConfiguration(rule),)))
    assert needs_values(configured) is expected
