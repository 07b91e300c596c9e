"""The corpus of other people's trainers: its declarations, its launcher, its report; and a few programs for real.

Most programs need an environment of their own, outside these tests; those of PyTorch alone run here.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from benchmarks.engine.judge import Alarm, Judged
from benchmarks.engine.stored import stored_of
from benchmarks.wild import report, run, settled
from benchmarks.wild.environments import EVERYWHERE, FRAMEWORKS
from benchmarks.wild.program import (
    FAMILIES,
    REPORT,
    TUNE,
    Family,
    Program,
    all_families,
    all_programs,
    split_of,
)
from benchmarks.wild.run import Job, jobs
from benchmarks.wild.settled import Answer
from tests.for_each import for_each
from trackside.contracts.verdict import Severity

PROGRAMS = all_programs()


@for_each({each.name: (each,) for each in PROGRAMS})
def test_each_program_says_what_it_does_and_on_which_data(program: Program) -> None:
    assert program.summary.endswith(".")
    assert program.data


class TestPrograms:
    def test_are_as_many_as_asked_for(self) -> None:
        assert len(PROGRAMS) >= 60
        assert len({each.library for each in PROGRAMS}) >= 30

    @pytest.mark.parametrize("half", [TUNE, REPORT])
    def test_each_half_has_its_share(self, half: str) -> None:
        assert sum(each.split == half for each in PROGRAMS) >= len(PROGRAMS) / 4

    @pytest.mark.parametrize("framework", ["keras", "xgboost"])
    def test_of_other_frameworks_are_ten_and_all_are_read(self, framework: str) -> None:
        programs = all_programs(framework)
        assert len(programs) >= 10
        assert all(each.summary.endswith(".") and each.data and each.split == TUNE for each in programs)

    def test_one_library_is_in_one_half(self) -> None:
        halves: dict[str, set[str]] = {}
        for each in PROGRAMS:
            halves.setdefault(each.library, set()).add(each.split)
        assert all(len(found) == 1 for found in halves.values())


@pytest.mark.parametrize(
    ("library", "half"),
    [
        pytest.param("transformers", TUNE, id="read before the corpus existed"),
        pytest.param("lightning", TUNE, id="read before, odd digest"),
        pytest.param("torch", TUNE, id="read in these tests"),
        pytest.param("timm", TUNE, id="even digest"),
        pytest.param("trl", REPORT, id="odd digest"),
        pytest.param("ultralytics", REPORT, id="another odd digest"),
    ],
)
def test_the_name_of_a_library_decides_on_its_half(library: str, half: str) -> None:
    assert split_of(library) == half


@pytest.mark.parametrize("family", all_families().values(), ids=lambda each: each.name)
class TestFamilies:
    def test_imports_its_libraries_inside_its_programs_only(self, family: Family) -> None:
        tree = ast.parse((FAMILIES / f"{family.name}.py").read_text(encoding="utf-8"))
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in top}
        assert modules <= {"__future__", "typing", "benchmarks.wild.program"}

    def test_lock_file_pins_every_package_and_all_that_are_asked_for(self, family: Family) -> None:
        lines = family.lock.read_text(encoding="utf-8").split()
        assert all(re.fullmatch(r"[a-z0-9._-]+==[0-9a-z.!]+", line) for line in lines)
        pinned = {line.partition("==")[0] for line in lines}
        frameworks = FRAMEWORKS[family.framework]
        asked = {re.split(r"[=<>\[]", each)[0] for each in (*frameworks, *EVERYWHERE, *family.requirements)}
        assert asked <= pinned
        assert set(frameworks) <= set(lines)


def test_two_programs_of_one_name_are_refused() -> None:
    family = Family("mine", ())
    family.program("torch", data="none")(lambda seed: None)
    with pytest.raises(ValueError, match="already"):
        family.program("torch", data="none")(lambda seed: None)


def test_all_programs_train_by_one_seed_before_any_by_the_next() -> None:
    chosen = PROGRAMS[:2]
    assert [(job.program.name, job.seed) for job in jobs(chosen, seeds=2)] == [
        (chosen[0].name, 0),
        (chosen[1].name, 0),
        (chosen[0].name, 1),
        (chosen[1].name, 1),
    ]


class TestStoredRuns:
    def test_a_program_has_a_folder_of_its_own_for_each_seed(self, tmp_path: Path) -> None:
        folders = {Job(program, seed).folder(tmp_path) for program in PROGRAMS for seed in (0, 1)}
        assert len(folders) == 2 * len(PROGRAMS)


def alarm(rule: str = "overfit", severity: Severity = Severity.WARNING, *, is_recovered: bool = False) -> Alarm:
    """Return an alarm at step 10."""
    return Alarm(rule, severity, 10, 5, "group", "Words.", is_recovered=is_recovered)


def judged(*alarms: Alarm) -> Judged:
    """Return a judgement."""
    return Judged(100, (2.0, 1.0), alarms)


TUNED = next(each for each in PROGRAMS if each.split == TUNE)
REPORTED = next(each for each in PROGRAMS if each.split == REPORT)


def tables_of(*found: tuple[Program, Judged], answers: dict[tuple[str, str], Answer] | None = None) -> str:
    """Return the tables as one text."""
    runs = [(Job(program, 0), one) for program, one in found]
    return "\n".join(report.tables([TUNED, REPORTED], runs, answers or {}))


def answer_to(program: Program, is_true: bool | None) -> dict[tuple[str, str], Answer]:
    """Return an answer to the program's alarm of `overfit`, or none."""
    return {} if is_true is None else {(program.name, "overfit"): Answer(program.name, "overfit", is_true, "Because.")}


class TestReport:
    def test_counts_runs_by_level_in_each_half(self) -> None:
        text = tables_of(
            (TUNED, judged(alarm(severity=Severity.CRITICAL))),
            (TUNED, judged()),
            (REPORTED, judged(alarm())),
        )
        critical = next(line for line in text.splitlines() if line.startswith("| critical |"))
        assert re.findall(r"\d+/\d+", critical) == ["1/2", "0/1", "1/3"]
        warning = next(line for line in text.splitlines() if line.startswith("| warning or above |"))
        assert re.findall(r"\d+/\d+", warning) == ["1/2", "1/1", "2/3"]

    def test_never_shows_a_single_run_of_the_report_half(self) -> None:
        text = tables_of((REPORTED, judged(alarm("exploding-tensor"))))
        (line,) = [each for each in text.splitlines() if each.startswith(f"| {REPORTED.name} ")]
        assert "exploding-tensor" not in line
        assert "not shown" in line

    @pytest.mark.parametrize(
        ("answer", "counted"),
        [
            pytest.param(None, "1/1", id="open"),
            pytest.param(False, "1/1", id="false alarm"),
            pytest.param(True, "0/1", id="the training is wrong"),
        ],
    )
    def test_an_alarm_settled_as_true_is_no_false_one(self, answer: bool | None, counted: str) -> None:
        for program, expected in ((TUNED, [counted, "-", counted]), (REPORTED, ["-", counted, counted])):
            text = tables_of((program, judged(alarm())), answers=answer_to(program, answer))
            (line,) = [each for each in text.splitlines() if each.startswith("| warning or above, settled")]
            assert [cell.split()[0] for cell in line.split("|")[2:-1]] == expected

    def test_a_run_counts_until_every_alarm_is_settled_as_true(self) -> None:
        found = judged(alarm(), alarm("exploding-tensor"))
        text = tables_of((REPORTED, found), answers=answer_to(REPORTED, True))
        (line,) = [each for each in text.splitlines() if each.startswith("| warning or above, settled")]
        assert re.findall(r"\d+/\d+", line) == ["1/1", "1/1"]

    @pytest.mark.parametrize(
        ("answer", "counted"),
        [
            pytest.param(None, "0 true, 0 false, 1 open", id="open"),
            pytest.param(False, "0 true, 1 false, 0 open", id="false alarm"),
            pytest.param(True, "1 true, 0 false, 0 open", id="the training is wrong"),
        ],
    )
    def test_shows_the_sum_of_answers_of_the_report_half_alone(self, answer: bool | None, counted: str) -> None:
        text = tables_of((REPORTED, judged(alarm())), answers=answer_to(REPORTED, answer))
        line = text.splitlines()[-1]
        assert line == f"1 pairs of program and rule with an alarm in the half `report`: {counted}."
        assert "Because." not in text

    def test_a_recovered_alarm_is_not_one_at_the_end(self) -> None:
        text = tables_of((TUNED, judged(alarm(is_recovered=True))))
        (line,) = [each for each in text.splitlines() if "not recovered" in each]
        assert re.findall(r"\d+/\d+", line)[0] == "0/1"


class TestAnswers:
    @pytest.mark.parametrize(
        ("path", "half"),
        [pytest.param(settled.TUNE_ANSWERS, TUNE, id=TUNE), pytest.param(settled.REPORT_ANSWERS, REPORT, id=REPORT)],
    )
    def test_of_a_file_are_about_programs_of_its_half(self, path: Path, half: str) -> None:
        programs = {each.name for name in FRAMEWORKS for each in all_programs(name) if each.split == half}
        misplaced = {program for program, _ in settled.read_answers([path])} - programs
        assert not misplaced

    def test_of_both_files_are_read(self) -> None:
        sizes = [len(settled.read_answers([path])) for path in (settled.TUNE_ANSWERS, settled.REPORT_ANSWERS)]
        assert min(sizes) > 0
        assert len(settled.read_answers()) == sum(sizes)

    def test_give_a_reason(self) -> None:
        assert all(len(answer.why) > 20 for answer in settled.read_answers().values())

    @pytest.mark.parametrize("counts", [pytest.param([2], id="in one file"), pytest.param([1, 1], id="in two files")])
    def test_two_about_the_same_are_refused(self, counts: list[int], tmp_path: Path) -> None:
        paths = [tmp_path / f"{number}.toml" for number in range(len(counts))]
        for path, count in zip(paths, counts, strict=True):
            path.write_text('[[answer]]\nprogram = "a"\nrule = "b"\nis_true = true\nwhy = "c"\n' * count)
        with pytest.raises(ValueError, match="same program and rule"):
            settled.read_answers(paths)


def test_a_program_that_fails_is_no_run(tmp_path: Path) -> None:
    missing = Program("no-such-program", "pytorch", "torch", "none", "Does nothing.", lambda seed: None)
    job = Job(all_families()["pytorch"].programs["torch-line-search"], 0)
    outcome = run.train(Job(missing, 0), job.folder(tmp_path), python=Path(sys.executable))
    assert outcome.status == 1
    assert stored_of([job], tmp_path) == []
