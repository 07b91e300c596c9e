"""The corpus of training programs: what must hold for all of them, and that a few of each kind run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import torch

from benchmarks.detection import train
from benchmarks.detection.capture import capture_request
from benchmarks.detection.card import Judged, Told, card_of
from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.detection.corpus.fault_classes import FAULT_CLASSES
from benchmarks.detection.corpus.program import REPORT, SEEDS, TUNE, Fault, Program
from benchmarks.detection.harm import harm_of
from benchmarks.detection.programs_table import tables
from benchmarks.detection.stored_runs import Job, Outcome, jobs
from benchmarks.detection.wilson import Share
from tests.patience import HANGS_SECONDS
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Severity

PROGRAMS = all_programs()
PLANTED = [(program, fault) for program in PROGRAMS.values() for fault in program.faults]
REPOSITORY = Path(__file__).parents[2]

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


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class TestPrograms:
    def test_there_are_enough_clean_ones_to_report_on(self):
        assert Counter(program.split for program in PROGRAMS.values())[REPORT] >= 60

    def test_many_are_right_but_odd(self):
        assert sum(bool(program.odd) for program in PROGRAMS.values()) >= 30

    @pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
    def test_each_says_what_it_is(self, program: Program):
        assert program.data
        assert program.model
        assert program.summary.endswith((".", "?"))
        assert program.split in {TUNE, REPORT}
        assert program.at_least > program.chance
        assert program.module.startswith("benchmarks.detection.corpus.programs.")

    def test_no_seed_is_of_both_splits(self):
        assert not set(SEEDS[TUNE]) & set(SEEDS[REPORT])

    def test_no_run_is_of_both_splits(self):
        names = {
            split: {job.name for job in jobs(list(PROGRAMS.values()), split=split, seeds=3, request="")}
            for split in SEEDS
        }
        assert not names[TUNE] & names[REPORT]
        assert len(names[TUNE]) + len(names[REPORT]) == 3 * (len(PROGRAMS) + len(PLANTED))

    def test_the_table_names_all(self):
        text = "\n".join(tables(PROGRAMS))
        assert all(f"| {name} |" in text for name in [*PROGRAMS, *FAULT_CLASSES])


class TestFaults:
    def test_there_are_more_than_twenty_classes(self):
        assert len(FAULT_CLASSES) >= 22

    @pytest.mark.parametrize("kind", FAULT_CLASSES)
    def test_each_class_is_planted_in_three_programs_to_report_on_and_one_to_tune_on(self, kind: str):
        where = defaultdict(set)
        for program, fault in PLANTED:
            if fault.kind == kind:
                where[program.split].add(program.name)
        assert len(where[REPORT]) >= 3
        assert where[TUNE]

    @pytest.mark.parametrize("kind", FAULT_CLASSES.values(), ids=FAULT_CLASSES)
    def test_each_class_says_what_it_is_and_what_names_it(self, kind):
        assert kind.summary.endswith(".")
        assert kind.causes

    @pytest.mark.parametrize(("program", "fault"), PLANTED, ids=[f"{p.name} {f.name}" for p, f in PLANTED])
    def test_each_says_what_is_wrong_and_since_when(self, program: Program, fault: Fault):
        assert fault.what.endswith(".")
        assert fault.kind in FAULT_CLASSES
        assert fault.begins is None or fault.begins >= 0
        assert set(fault.causes) <= set(Cause)
        assert program.fault(fault.name) is fault

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


def _command(name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.detection.{name}", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    return done.stdout


class TestCard:
    RATE, SIGN = Cause.LEARNING_RATE_TOO_HIGH, Cause.LOSS_SIGN

    def told(self, step: int, *causes: Cause, severity: Severity = Severity.WARNING, group: str = "a") -> Told:
        return Told(rule="some-rule", severity=severity, step=step, group=group, causes=causes, message="")

    def run(self, *told: Told, kind: str = "", effect_step: int | None = None) -> Judged:
        return Judged("name", "program", kind, frozenset({self.RATE} if kind else ()), effect_step, told)

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
        card = card_of([faulty], preset="calibrated", rules=["some-rule"])
        assert (card.found().count, card.named().count) == (found, named)
        assert card.found("another-kind").of == 0

    def test_steps_count_from_the_effect_to_the_alarm_that_names_it(self):
        faulty = self.run(self.told(5, self.SIGN), self.told(24, self.RATE), kind="some-kind", effect_step=4)
        assert card_of([faulty], preset="calibrated", rules=["some-rule"]).steps() == 20

    def test_alarms_of_clean_runs_count_by_level(self):
        runs = [
            self.run(),
            self.run(self.told(1, severity=Severity.INFO)),
            self.run(self.told(1)),
            self.run(self.told(1), self.told(2, severity=Severity.CRITICAL)),
        ]
        card = card_of(runs, preset="calibrated", rules=["some-rule"])
        assert card.false_alarms(Severity.WARNING).count == 2
        assert card.false_alarms(Severity.CRITICAL).count == 1
        assert card.false_alarms(Severity.CRITICAL, rule="another-rule").count == 0

    def test_findings_are_groups(self):
        faulty = self.run(
            self.told(5, group="a"), self.told(6, group="a"), self.told(7, group="b"), kind="some-kind", effect_step=0
        )
        assert card_of([faulty], preset="calibrated", rules=["some-rule"]).most_findings() == 2

    def test_it_can_be_printed_and_is_plain_json(self):
        card = card_of(
            [self.run(), self.run(kind="some-kind", effect_step=0)], preset="calibrated", rules=["some-rule"]
        )
        assert any(line.startswith("| some-kind | 1 | 0% |") for line in card.markdown())
        assert json.loads(json.dumps(card.document()))["clean"]["runs"] == 1


@pytest.mark.parametrize(
    ("share", "low", "high"),
    [  # from SciPy: binomtest(count, of).proportion_ci(method="wilson")
        pytest.param(Share(0, 180), 0.0, 0.02090, id="none of 180"),
        pytest.param(Share(9, 180), 0.02653, 0.09224, id="one in twenty"),
        pytest.param(Share(180, 180), 0.97910, 1.0, id="all"),
        pytest.param(Share(0, 0), 0.0, 1.0, id="of none"),
    ],
)
def test_wilson_interval(share: Share, low: float, high: float):
    assert share.interval == pytest.approx((low, high), abs=2e-4)


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


# A subset of the tuning programs, which every change of a rule must still judge as well.
SILENT = ("bandit-policy", "cancer-logistic", "digits-two-rates", "friedman-silu", "gan-digits", "wine-sigmoid")
NAMED = (
    "autoencoder-plain/frozen-layers",
    "autoencoder-plain/missing-zero-grad",
    "autoencoder-plain/parameters-not-in-optimizer",
    "digits-clipped/clipping-too-low",
    "digits-clipped/double-softmax",
    "digits-mlp/constant-inputs",
    "digits-mlp/shuffled-labels",
    "digits-mlp/symmetric-initialisation",
    "wine-mlp/nan-in-data",
)
ONLY = (*(f"{name}/clean" for name in SILENT), *NAMED)
CHOICE = ("--split", "tune", "--seeds", "1", "--only", *ONLY)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the subset lies: trained by the command, judged by the command."""
    root = tmp_path_factory.mktemp("corpus")
    assert _command("train", *CHOICE, "--root", str(root)).startswith(f"{len(ONLY)} trained")
    card = _command("judge", *CHOICE, "--root", str(root), "--json", str(root / "card.json"))
    assert f"{len(SILENT)} clean runs, {len(NAMED)} faulty ones" in card
    return root


def test_the_rules_do_as_well_as_before_on_a_subset(root: Path):
    runs = {run["run"]: run for run in json.loads((root / "card.json").read_text())["runs"]}
    alarmed = [name for name in SILENT if any(told["severity"] != "info" for told in runs[f"{name}/clean/0"]["told"])]
    unnamed = [name for name in NAMED if not runs[f"{name}/0"]["named"]]
    assert (alarmed, unnamed) == ([], [])


def test_runs_are_stored_once(root: Path, capsys):
    assert train.main([*CHOICE, "--root", str(root)]) == 0
    again = capsys.readouterr().out
    assert again.startswith("0 trained")
    assert f"{len(ONLY)} of {len(ONLY)} stored" in again

    job = Job(PROGRAMS["wine-mlp"], "nan-in-data", 0, capture_request().to_json())
    outcome = Outcome.read(job.folder(root))
    assert outcome is not None
    assert outcome.score is None or outcome.score < PROGRAMS["wine-mlp"].at_least
    assert outcome.effect_step == 0
    assert (job.folder(root) / "run" / "debug-output" / "training_job_end.ts").exists()
