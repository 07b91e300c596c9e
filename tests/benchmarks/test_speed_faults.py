"""The tables of planted faults of speed: a fault that is missed and a twin that is blamed are counted."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.engine.usual import speed_rules
from benchmarks.speed_faults.catalogue import FAULTS, LOOPS, SCRIPTS, SpeedFault
from benchmarks.speed_faults.play import Played
from benchmarks.speed_faults.report import Pair, card_lines, fault_lines, summary_of

FAULT = SpeedFault("slow", "slow collate", ("data-starvation",), ("input-bound",), "in collate")
FAULTY = Played(
    script="slow", is_right=False, found={"data-starvation": "0.8 > 0.3"}, judged=["data-starvation", "dataloader"],
    bottleneck="input-bound", headline="", causes="input-bound · t.py:9 in collate: sleep\nhost-bound · t.py:4 in f: g",
    waiting="", load=1.0, seconds=1.0,
)  # fmt: skip
RIGHT = replace(FAULTY, is_right=True, found={}, bottleneck="compute-bound", causes="")


@pytest.mark.parametrize(
    ("faulty", "right", "counts"),
    [
        pytest.param(FAULTY, RIGHT, (1, 1, 1), id="all-is-well"),
        pytest.param(replace(FAULTY, found={"dataloader": ""}), RIGHT, (0, 1, 1), id="another-rule"),
        pytest.param(replace(FAULTY, bottleneck="host-bound"), RIGHT, (1, 0, 1), id="another-verdict"),
        pytest.param(replace(FAULTY, causes="x\nt.py:9 in collate"), RIGHT, (1, 0, 1), id="the-second-cause"),
        pytest.param(FAULTY, replace(RIGHT, found={"hang": ""}), (1, 1, 0), id="a-rule-on-the-twin"),
        pytest.param(FAULTY, replace(RIGHT, bottleneck="input-bound"), (1, 1, 0), id="the-verdict-on-the-twin"),
    ],
)
def test_counts_what_is_named_and_what_is_blamed(faulty: Played, right: Played, counts: tuple[int, int, int]) -> None:
    pair = Pair(FAULT, (faulty,), (right,))
    assert (pair.named_by_rule, pair.named_by_profile, pair.silent) == counts
    row = next(line for line in fault_lines([pair]) if line.startswith("| slow collate"))
    assert [cell.split()[0] for cell in row.split("|")[3:7:2]] + [row.split("|")[6].split()[0]] == [*map(str, counts)]


def test_the_card_of_a_rule_has_the_twins_that_it_judged() -> None:
    pairs = [Pair(FAULT, (FAULTY, replace(FAULTY, found={"dataloader": ""})), (RIGHT, replace(RIGHT, judged=[])))]
    rows = {line.split("`")[1]: line for line in card_lines(pairs) if "`" in line}
    assert rows.keys() == set(speed_rules())
    assert rows["data-starvation"].startswith("| `data-starvation` | 1 of 2 | 0 of 1 (")
    assert rows["dataloader"].endswith("| slow collate |")
    assert "could not judge here" in rows["throttled-gpu"]


def test_rules_of_faults_exist_and_each_script_is_listed() -> None:
    assert {rule for fault in (*FAULTS, *LOOPS) for rule in fault.rules} <= set(speed_rules())
    assert {fault.path for fault in (*FAULTS, *LOOPS)} == set(SCRIPTS.glob("*.py"))


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_a_script_knows_nothing_of_trackside(script: Path) -> None:
    tree = ast.parse(script.read_text("utf-8"))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in imported if name.startswith(("trackside", "traceml"))]


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        pytest.param("|  Verdict: SLOW   |\n|  Why: 85 %.  |\n|  Next: Wait.   |\n", "SLOW: Wait.", id="both"),
        pytest.param("Aggregator stopped.\n", "no summary", id="none"),
    ],
)
def test_reads_the_summary_of_traceml(output: str, answer: str) -> None:
    assert summary_of(output) == answer
