"""docs/smdebug-differences.md: each of its rows is shown by questions to both packages, or by a test of what we do."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.smdebug import test_core, test_drop_in_scenarios, test_same_answers
from tests.smdebug.sides import HERE, ours, theirs

ROOT = HERE.parents[1]
PAGE = (ROOT / "docs" / "smdebug-differences.md").read_text("utf-8")
DEFECTS = 26  # that are known of the original

# Of hooks: what the drop-in answers, and the real one.
IN_HOOKS: dict[str, tuple[Any, Any]] = {
    "hook: a tensor in two collections": (["first", "second"], ["second"]),
    "hook: a tensor in a new collection": ([1], "AttributeError"),
    "hook: a scalar at every step": ([1, 1, 1, 1], [1, 2, 1]),
    "hook: error of a constructor": ("RuntimeError", "AttributeError"),
    "hook: another one after an error": ([0], "AttributeError"),
    "hook: dry_run": (True, False),
    "hook: shapes without reductions": ([False, True], [True, False]),
    "hook: steps of accumulated gradients": ([0, 1, 2], [0, 1, 2, 3, 4, 5]),
    "hook: used after the end": ([True, False], [True, True]),
    "hook: mode of a script that sets none": (["TRAIN", [0], [0]], ["GLOBAL", [], [0]]),
    "profiler: buffer by variable": ([], "TypeError"),
    "profiler: two threads of one group": ([["inner", 25], ["outer", 20]], [["inner", 15], ["outer", 30]]),
    "profiler: type of Horovod's events": ("HorovodMetrics", ""),
    "profiler: folder in upper case": ("/Upper/Case", "/upper/case"),
    "profiler: range from step 0": ([True, True], [False, True]),
    "hook: attributes of its inner works": ([], ["module_set", "tensor_to_collections", "timeline_writer"]),
}
KEPT_IN_HOOKS: dict[str, Any] = {
    "hook: a tensor at unsaved steps": [0, 2],
    "hook: spread while saving and while reading": [0.5, 0.25],
}
# What the real one answers; the drop-in refuses each.
IN_WHAT_IS_NOT_OFFERED: dict[str, Any] = {
    "action: prefix of a job": ["myjob"],
}
# Kept as they were: what both answer.
KEPT = {
    "collection made by asking": ["inputs", "new", "some"],
    "range from 0": [[0, 1, 2], [0, 1, 2]],
    "value beyond the end": "StepUnavailable",
    "reduction median": "SMDebugValueError",
    "reduction flags alone": [True, True],
    "std of two numbers": 0.5,
}
ALL_KEPT = KEPT | KEPT_IN_HOOKS
DIFFERENT: dict[str, tuple[Any, Any]] = {
    **test_core.DIFFERENT,
    **test_core.DIFFERENT_CORE,
    **test_core.DIFFERENT_S3,
    **test_same_answers.DIFFERENT,
    **IN_HOOKS,
    **{question: ("NotOfferedError", answer) for question, answer in IN_WHAT_IS_NOT_OFFERED.items()},
    **{f"script: {name}": departure for name, departure in test_drop_in_scenarios.DEPARTURES.items()},
}


def rows() -> list[tuple[list[str], list[str]]]:
    """(cells, what shows it) of each row of the page's tables."""
    found = []
    for line in PAGE.partition("## The original's own tests")[0].splitlines():
        if line.startswith("| ") and not line.startswith(("| --- |", "| No. |", "| The original |")):
            shown_by = [each.strip() for text in re.findall(r"<!--(.*?)-->", line) for each in text.split(";")]
            found.append(([cell.strip() for cell in line.strip("| ").split(" | ")], shown_by))
    return found


ROWS = rows()


def test_every_known_defect_has_its_row() -> None:
    numbered = [cells for cells, _ in ROWS if cells[0].isdecimal()]
    assert [int(cells[0]) for cells in numbered] == list(range(1, DEFECTS + 1))
    assert [len(cells) for cells in numbered] == [3] * DEFECTS
    assert [cells[0] for cells in numbered if not cells[2].startswith(("Fixed", "Kept", "Not here"))] == []
    assert len(ROWS) - DEFECTS > 15


@pytest.mark.parametrize(
    ("cells", "shown_by"), [pytest.param(*row, id=" ".join(row[0][0].split()[:6])) for row in ROWS]
)
def test_every_row_is_shown(cells: list[str], shown_by: list[str]) -> None:
    assert shown_by, "nothing is named that shows it"
    tests = [each for each in shown_by if each.startswith("tests/")]
    assert [each for each in tests if not exists(each)] == []
    questions = [each for each in shown_by if each not in tests]
    assert [each for each in questions if each not in DIFFERENT and each not in ALL_KEPT] == []
    assert questions, "no question shows what the original does"
    if cells[0].isdecimal() and cells[-1].startswith("Kept"):
        assert any(each in ALL_KEPT for each in questions)
    else:
        assert any(each in DIFFERENT for each in questions)


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return name in names_in(ROOT / file)


@cache
def names_in(file: Path) -> frozenset[str]:
    return frozenset(node.name for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.FunctionDef))


def test_every_difference_that_a_question_shows_has_its_row() -> None:
    named = {each for _, shown_by in ROWS for each in shown_by}
    assert sorted({*DIFFERENT, *ALL_KEPT} - named) == []


def test_hooks_and_what_is_not_offered(smdebug_python: Path, tmp_path: Path) -> None:
    """The original's hooks run on the PyTorch of this environment."""
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    found = []
    for side in (ours(), theirs(smdebug_python)):
        folder = tmp_path / side.name
        folder.mkdir()
        order = {"folder": str(folder), "torch": str(Path(torch.origin).parents[1])}
        found.append(side.ask(HERE / "hook_questions.py", order, tmp_path / f"{side.name}.json"))
    our_answers, their_answers = found
    assert {question: test_core.shortened(answer) for question, answer in their_answers.items()} == (
        {question: theirs for question, (_, theirs) in IN_HOOKS.items()} | KEPT_IN_HOOKS | IN_WHAT_IS_NOT_OFFERED
    )
    offered = {q: test_core.shortened(a) for q, a in our_answers.items() if q not in IN_WHAT_IS_NOT_OFFERED}
    assert offered == {question: ours for question, (ours, _) in IN_HOOKS.items()} | KEPT_IN_HOOKS
    for question in IN_WHAT_IS_NOT_OFFERED:
        assert our_answers[question]["raises"] == "NotOfferedError", question
        assert "is not offered by trackside-smdebug." in our_answers[question]["says"]


def test_what_is_kept_is_as_it_was(smdebug_python: Path, tmp_path: Path) -> None:
    for side in (ours(), theirs(smdebug_python)):
        folder = tmp_path / side.name
        folder.mkdir()
        answers = side.ask(
            HERE / "difference_questions.py",
            {"folder": str(folder), "only": list(KEPT)},
            tmp_path / f"{side.name}.json",
        )
        assert {question: test_core.shortened(answer) for question, answer in answers.items()} == KEPT, side.name
