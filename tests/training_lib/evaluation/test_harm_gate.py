"""The gate to a critical level, as the evaluator applies it: with a rule of ours, over a growing run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training_lib.rules.columns import along, falling, steady
from trackside.contracts.action import Action
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Outcome, Verdict
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.trial.trial import Trial

FIRST, LAST, LOSS = "gradient/Net_0.weight", "gradient/Net_9.weight", "CrossEntropyLoss_output_0"
GONE = {FIRST: 1e-12, LAST: 0.05}


def judged(losses: dict[int, float], *rules: RuleConfiguration) -> list[Verdict]:
    """The issues in a run whose gradients were saved at its first three steps only."""
    return [verdict for verdict in verdicts_on(losses, *rules) if verdict.outcome is Outcome.ISSUE_FOUND]


def verdicts_on(losses: dict[int, float], *rules: RuleConfiguration) -> tuple[Verdict, ...]:
    tensors, statistics = MemoryStore(), MemoryStore()
    write_collections(tensors)
    for step in range(3):
        write_tensors(tensors, step, GONE)
    write_statistics(statistics, {LOSS: {"mean": losses}})
    end_run(tensors)
    evaluator = Evaluator(
        Trial(tensors, statistics),
        build_rules(RuleRequest(rules)),
        (),
        ProgressFile(MemoryStore()),
        run="digits",
        clock=lambda: 0.0,
    )
    return evaluator.watch(poll_seconds=0, sleep=lambda _: None, should_stop=lambda: True).verdicts


def vanishing(preset: str = "") -> RuleConfiguration:
    return RuleConfiguration("vanishing-gradient", preset=preset, actions=(Action.STOP_TRAINING, Action.NOTIFY))


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param(steady(2.3, 100), [("warning", 2), ("critical", 30)], id="nothing-is-learned"),
        pytest.param(falling(2.3, 0.1, 100), [("warning", 2)], id="learns-all-the-same"),
        pytest.param(steady(2.3, 20), [("warning", 2)], id="too-early-to-say"),
        pytest.param(along([2.3, 1.9, 2.1]), [("warning", 2)], id="a-short-run"),
    ],
)
def test_an_issue_is_critical_once_the_training_is_hurt(
    losses: dict[int, float], expected: list[tuple[str, int]]
) -> None:
    """The gradients are not looked at again after step 2; the loss shows the harm."""
    found = judged(losses, vanishing())
    assert [(verdict.severity.value, verdict.step) for verdict in found] == expected
    for verdict in found:
        assert (Action.STOP_TRAINING in verdict.actions) is bool(verdict.harm)
        assert (verdict.severity.value == "critical") is bool(verdict.harm)
        assert verdict.suspicions[0].cause is Cause.VANISHING_GRADIENTS
        assert verdict.probability is not None
    assert len({verdict.group for verdict in found}) == 1


def wild(levels: object) -> dict[int, float]:
    """Losses that scatter so widely about their level that some of each window are good by accident."""
    values = np.asarray(levels, np.float64)
    return along(values * np.exp(0.8 * np.random.default_rng(0).standard_normal(len(values))))


RISES = [0.7, *[9.0] * 40]


@pytest.mark.parametrize(
    ("losses", "states"),
    [
        pytest.param(wild([*RISES, *np.geomspace(9, 2, 150)]), ["critical"], id="ruined-and-partly-back"),
        pytest.param(wild([*RISES, *[9.0] * 150]), ["critical"], id="ruined-for-good"),
        pytest.param(
            wild([*RISES, *np.geomspace(9, 0.05, 150)]), ["critical", "recovered"], id="better-than-before-the-fault"
        ),
        pytest.param(
            along([*[2.3] * 400, *[2.1] * 200]),
            ["warning", "critical", "recovered"],
            id="stuck-and-certainly-below-that-level",
        ),
        pytest.param(wild([*[2.3] * 600, *[2.0] * 30]), ["critical"], id="stuck-and-below-that-level-by-noise"),
    ],
)
def test_an_issue_about_learning_is_over_when_the_loss_is_better(losses: dict[int, float], states: list[str]) -> None:
    found = verdicts_on(losses, RuleConfiguration("loss-not-decreasing"))
    told = [v.severity.value if v.outcome is Outcome.ISSUE_FOUND else v.state.value for v in found]
    assert told == states


def test_amazons_presets_decide_for_themselves() -> None:
    found = judged(falling(2.3, 0.1, 100), vanishing(AWS_DOCS))
    assert [verdict.severity.value for verdict in found] == ["critical"]
    assert (found[0].harm, found[0].probability, found[0].signs) == ("", None, ())
