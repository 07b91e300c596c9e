"""The corpus of training programs: what must hold for all of them, and that a few of each kind run."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict

import pytest

from benchmarks.detection.card import Card, Run
from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.detection.corpus.fault_classes import FAULT_CLASSES, FaultClass
from benchmarks.detection.corpus.program import REPORT, SEEDS, TUNE, Fault, Program
from benchmarks.detection.harm import harm_of
from benchmarks.detection.train import jobs
from benchmarks.engine.judge import Alarm, Judged
from tests.for_each import for_each
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Severity

PROGRAMS = all_programs()
PLANTED = [(program, fault) for program in PROGRAMS.values() for fault in program.faults]

# Quick ones, of each kind of loop and of edit; `train --bare --harm` runs them all.
SAMPLE = [
    ("cancer-logistic", ""),
    ("cancer-lbfgs", "missing-zero-grad"),
    ("diabetes-linear", ""),
    ("diabetes-ranking", "wrong-loss-sign"),
    ("moons-wide", "precision-overflow"),
    ("topics-mlp", "leakage"),
    ("wine-mlp", "nan-in-data"),
    ("wine-mlp", "weight-decay-with-wrong-sign"),
]


@for_each({name: (program,) for name, program in PROGRAMS.items()})
def test_each_program_says_what_it_is(program: Program):
    assert program.data
    assert program.model
    assert program.summary.endswith((".", "?"))
    assert program.split in {TUNE, REPORT}
    assert program.at_least > program.chance
    assert program.module.startswith("benchmarks.detection.corpus.programs.")


class TestPrograms:
    def test_there_are_enough_clean_ones_to_report_on(self):
        assert Counter(program.split for program in PROGRAMS.values())[REPORT] >= 60

    def test_many_are_right_but_odd(self):
        assert sum(bool(program.odd) for program in PROGRAMS.values()) >= 30

    def test_no_seed_is_of_both_splits(self):
        assert not set(SEEDS[TUNE]) & set(SEEDS[REPORT])

    def test_no_run_is_of_both_splits(self):
        names = {
            split: {job.name for job in jobs(PROGRAMS.values(), split=split, seeds=3, request="")} for split in SEEDS
        }
        assert not names[TUNE] & names[REPORT]
        assert len(names[TUNE]) + len(names[REPORT]) == 3 * (len(PROGRAMS) + len(PLANTED))


@for_each({kind: (kind,) for kind in FAULT_CLASSES})
def test_each_class_is_planted_in_three_programs_to_report_on_and_one_to_tune_on(kind: str):
    where = defaultdict(set)
    for program, fault in PLANTED:
        if fault.kind == kind:
            where[program.split].add(program.name)
    assert len(where[REPORT]) >= 3
    assert where[TUNE]


@for_each({name: (kind,) for name, kind in FAULT_CLASSES.items()})
def test_each_class_says_what_it_is_and_what_names_it(kind: FaultClass):
    assert kind.summary.endswith(".")
    assert kind.causes


@for_each({f"{program.name} {fault.name}": (program, fault) for program, fault in PLANTED})
def test_each_fault_says_what_is_wrong_and_since_when(program: Program, fault: Fault):
    assert fault.what.endswith(".")
    assert fault.kind in FAULT_CLASSES
    assert fault.begins is None or fault.begins >= 0
    assert set(fault.causes) <= set(Cause)
    assert program.fault(fault.name) is fault


class TestFaults:
    def test_there_are_more_than_twenty_classes(self):
        assert len(FAULT_CLASSES) >= 22

    def test_some_begin_while_training(self):
        assert sum(fault.begins is None or fault.begins > 0 for _, fault in PLANTED) >= 10


@pytest.mark.parametrize(("name", "fault"), SAMPLE, ids=[f"{name} {fault or 'clean'}" for name, fault in SAMPLE])
def test_training_is_a_pure_function_of_seed_and_fault(name: str, fault: str):
    program = PROGRAMS[name]
    first, second = (program.train(3, fault) for _ in range(2))
    scores = [first.score(), second.score()]
    assert scores[0] == scores[1] or all(map(math.isnan, scores))
    assert [str(each) for each in first.history] == [str(each) for each in second.history]
    if not fault:
        assert scores[0] >= program.at_least


class TestCard:
    RATE, SIGN = Cause.LEARNING_RATE_TOO_HIGH, Cause.LOSS_SIGN

    def told(self, step: int, *causes: Cause, severity: Severity = Severity.WARNING, group: str = "a") -> Alarm:
        return Alarm("some-rule", severity, step, group=group, causes=causes)

    def run(self, *told: Alarm, kind: str = "", effect_step: int = 0) -> Run:
        return Run("name", kind, frozenset({self.RATE} if kind else ()), effect_step, Judged(50, alarms=told))

    def card(self, *runs: Run) -> Card:
        return Card("calibrated", ("some-rule",), runs)

    @pytest.mark.parametrize(
        ("run", "found", "named"),
        [
            pytest.param([], 0, 0, id="silent"),
            pytest.param([(5, RATE)], 1, 1, id="named"),
            pytest.param([(5, SIGN)], 1, 0, id="found, but not what it is"),
            pytest.param([(3, RATE)], 0, 0, id="before the fault acts: by chance"),
            pytest.param([(5, SIGN), (9, SIGN, RATE)], 1, 1, id="named by a second alarm"),
        ],
    )
    def test_what_counts_as_found_and_as_named(self, run, found, named):
        faulty = self.run(*(self.told(step, *causes) for step, *causes in run), kind="some-kind", effect_step=4)
        card = self.card(faulty)
        assert (card.found().count, card.named().count) == (found, named)
        assert card.found("another-kind").of == 0

    def test_steps_count_from_the_effect_to_the_alarm_that_names_it(self):
        faulty = self.run(self.told(5, self.SIGN), self.told(24, self.RATE), kind="some-kind", effect_step=4)
        assert self.card(faulty).steps() == 20

    def test_alarms_of_clean_runs_count_by_level(self):
        runs = [
            self.run(),
            self.run(self.told(1, severity=Severity.INFO)),
            self.run(self.told(1)),
            self.run(self.told(1), self.told(2, severity=Severity.CRITICAL)),
        ]
        card = self.card(*runs)
        assert card.false_alarms(Severity.WARNING).count == 2
        assert card.false_alarms(Severity.CRITICAL).count == 1
        assert card.false_alarms(Severity.CRITICAL, rule="another-rule").count == 0

    def test_findings_are_groups(self):
        faulty = self.run(
            self.told(5, group="a"), self.told(6, group="a"), self.told(7, group="b"), kind="some-kind", effect_step=0
        )
        assert self.card(faulty).findings() == "2.0, 2"

    def test_it_can_be_printed_and_a_run_is_plain_json(self):
        faulty = self.run(self.told(3, self.RATE), kind="some-kind")
        assert any(
            line.startswith("| some-kind | 2 | 50% |")
            for line in self.card(faulty, self.run(kind="some-kind")).markdown()
        )
        assert json.loads(json.dumps(faulty.document()))["named"] is True
        assert faulty.line() == "name since 0, named: some-rule warning @3 (learning-rate-too-high)"


@pytest.mark.parametrize(
    ("clean", "faulty", "harm"),
    [
        pytest.param(0.9, 0.9, 0.0, id="none"),
        pytest.param(0.9, 0.1, 1.0, id="all"),
        pytest.param(0.9, 0.5, 0.5, id="half"),
        pytest.param(0.9, None, 1.0, id="no score at all"),
        pytest.param(0.9, -1e9, 1.0, id="worse than nothing counts as all"),
    ],
)
def test_harm_is_the_share_that_is_not_learned(clean, faulty, harm):
    assert harm_of(clean, faulty, chance=0.1) == pytest.approx(harm)
