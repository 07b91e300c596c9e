"""data-starvation: the training waits for its batches."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import loader, stacks, steps
from trackside.speed.rules.data_starvation import DataStarvation
from trackside.testing.rule_case import RuleCase

RULE = DataStarvation()
STEP, SHORT, LONG = [0.02] * 80, [0.001] * 80, [0.015] * 80
ONE = ("steps",)
CASES = [
    RuleCase("waits", recorded=steps(STEP, data=LONG), speed=loader(0), fires=ONE),
    RuleCase("waits, nothing known of the loader", recorded=steps(STEP, data=LONG), fires=ONE),
    RuleCase("of late", recorded=steps(STEP * 2, data=SHORT + LONG), fires=ONE),
    RuleCase(
        "the evaluations are not the training's",
        recorded=steps([0.02] * 79 + [9.0], data=LONG, evaluation={80: 8.98}),
        fires=ONE,
    ),
    RuleCase("a short wait", recorded=steps(STEP, data=SHORT), speed=loader(0)),
    RuleCase("waits at first", recorded=steps(STEP * 2, data=LONG + SHORT)),
    RuleCase("a step that is all wait, and short", recorded=steps([0.0009] * 80, data=[0.0008] * 80)),
    RuleCase("no DataLoader", recorded=steps(STEP)),
    RuleCase("a generator that waits", recorded=steps(STEP), speed=stacks(fetch=60, other=40), fires=ONE),
    RuleCase(
        "a generator that waits, and other work a little",
        recorded=steps(STEP, waits=[0.004] * 80),
        speed=stacks(fetch=60, other=40),
        fires=ONE,
    ),
    RuleCase("a quick generator", recorded=steps(STEP), speed=stacks(fetch=20, other=80)),
    RuleCase("a generator, on few samples", recorded=steps(STEP), speed=stacks(fetch=60, other=39)),
    RuleCase("a generator, and short steps", recorded=steps([0.001] * 80), speed=stacks(fetch=90, other=10)),
    RuleCase(
        "a generator that other work kept waiting",
        recorded=steps(STEP, waits=[0.01] * 80),
        speed=stacks(fetch=60, other=40),
    ),
    RuleCase("waits on a busy machine", recorded=steps([0.2] * 80, data=[0.15] * 80, waits=[0.18] * 80), fires=ONE),
    RuleCase("only other work makes a wait of it", recorded=steps(STEP, data=[0.008] * 80, waits=[0.018] * 80)),
    RuleCase(
        "the loader is slow, and other work has the processor beside it",
        recorded=steps([0.2] * 80, data=[0.02] * 80, waits=[0.17] * 80, waits_in_data=[0.001] * 80),
        fires=ONE,
    ),
    RuleCase(
        "other work has the processor in the fetch, of a quick loader",
        recorded=steps([0.2] * 80, data=[0.18] * 80, waits=[0.1795] * 80, waits_in_data=[0.1795] * 80),
    ),
    RuleCase(
        "workers that have a processor are slow",
        recorded=steps(STEP, data=LONG, waits=[0.0] * 80, waits_in_data=[0.0] * 80),
        speed=loader(2, waited_share=0.1),
        fires=ONE,
    ),
    RuleCase(
        "workers without a processor",
        recorded=steps(STEP, data=LONG, waits=[0.0] * 80, waits_in_data=[0.0] * 80),
        speed=loader(2, waited_share=0.9),
    ),
    RuleCase(
        "workers that starve one another",
        recorded=steps(STEP, data=LONG),
        speed=loader(24, waited_share=0.9),
        fires=ONE,
    ),
    RuleCase(
        "each twentieth step waits for long", recorded=steps([0.02] * 80, data=([0.0001] * 19 + [0.6]) * 4), fires=ONE
    ),
    RuleCase("a single long wait", recorded=steps([0.02] * 79 + [0.6], data=[0.0001] * 79 + [0.59])),
    RuleCase("too few steps", recorded=steps(STEP[:50], data=LONG[:50])),
    RuleCase("every tenth step waits", recorded=steps(STEP, data=([0.001] * 9 + [0.02]) * 8)),
]


@pytest.mark.parametrize(
    ("line", "place"),
    [pytest.param("train.py:12", "train.py:12", id="sampled"), pytest.param("", "train.py:20", id="the-loader")],
)
def test_names_the_line_and_the_loader(line: str, place: str) -> None:
    window = RuleCase("", recorded=steps(STEP, data=LONG), speed=loader(0, line=line)).window
    (finding,) = RULE.check(window)
    assert finding.place == place
    (suspicion,) = RULE.suspicions([finding], window)
    assert suspicion.because == "the DataLoader of Images has num_workers=0, collate_fn=slow_collate"


test_cases = every_case(RULE, CASES)
