"""passes-without-step: backward passes go on, and the optimizer no longer steps."""

from __future__ import annotations

from collections.abc import Collection

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.run.recorded_names import (
    BACKWARD_PASSES,
    BATCHES_CLEARED,
    BATCHES_WITHOUT_STEP,
    PASSES_WITHOUT_STEP,
    SKIPPED_STEP,
)
from trackside.rules.program.passes_without_step import PassesWithoutStep
from trackside.testing.rule_case import RuleCase, Statistics

LOSS = {"Loss_output_0": {"mean": steady(1)}}


def noted(values: dict[int, object]) -> Statistics:
    return {**LOSS, PASSES_WITHOUT_STEP: {"mean": values}}


def unused(values: dict[int, object]) -> Statistics:
    return {**LOSS, BATCHES_WITHOUT_STEP: {"mean": values}}


def skipped(steps: Collection[int]) -> Statistics:
    return {**LOSS, SKIPPED_STEP: {"mean": {step: float(step in steps) for step in range(60)}}}


def cleared(steps: Collection[int]) -> Statistics:
    passes = {"mean": dict.fromkeys(range(60), 4.0)}
    return {**LOSS, BACKWARD_PASSES: passes, BATCHES_CLEARED: {"mean": dict.fromkeys(steps, 3.0)}}


CASES = [
    RuleCase("many passes since the newest step", recorded=noted({59: 50.0}), fires=("steps",)),
    RuleCase("very many passes since the newest step", recorded=noted({59: 6400.0}), fires=("steps",)),
    RuleCase("on one of two workers", recorded=noted({59: {"worker_0": 10.0, "worker_1": 60.0}}), fires=("steps",)),
    RuleCase("many batches that no pass used", recorded=unused({59: 64.0}), fires=("steps",)),
    RuleCase("such batches, and steps again", recorded=unused({20: 256.0})),
    RuleCase("few such batches", recorded=unused({59: 32.0})),
    RuleCase("steps came again", recorded=noted({20: 400.0})),
    RuleCase("few passes", recorded=noted({59: 49.0})),
    RuleCase("nothing noted", recorded=LOSS),
    RuleCase("each step uses its last batch alone", recorded=cleared(range(60)), fires=("steps",)),
    RuleCase("so from some step on", recorded=cleared(range(25, 60)), fires=("steps",)),
    RuleCase("so in every other step", recorded=cleared(range(0, 60, 2))),
    RuleCase("so in few steps", recorded=cleared(range(40, 60))),
    RuleCase("a fused optimizer that skips each step", recorded=skipped(range(60)), fires=("steps",)),
    RuleCase("a fused optimizer that skips each of the newest 50", recorded=skipped(range(10, 60)), fires=("steps",)),
    RuleCase("a fused optimizer that skipped the first 55", recorded=skipped(range(55))),
    RuleCase("a fused optimizer that skips every other", recorded=skipped(range(1, 60, 2))),
]

test_cases = every_case(PassesWithoutStep(), CASES)
