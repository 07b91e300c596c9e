"""The commonest mistakes of training scripts: each fails `trackside check` in at least one program, no right one does.

Which of them fail in which program is measured by `python -m benchmarks.rehearsal`: docs/check.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.rehearsal.__main__ import Cell, right_lines, spread
from benchmarks.rehearsal.forked import Rehearsed, judged, variables
from benchmarks.rehearsal.mistakes import LANGUAGE, MISTAKES, PROGRAMS, REGRESSION, Mistake, pairs, right
from tests.warm_python import WarmPython
from trackside.environment import inherited

UNSEEN = {"labels-shuffled"}  # the steps of a rehearsal are too few to see that nothing can be learned
ONLY_IN = {  # programs that do not show it in so few steps: docs/check.md
    "rate-100": REGRESSION,
    "inputs-unscaled": REGRESSION,
    "one-batch": LANGUAGE,
}


def chosen() -> list[tuple[Mistake, str]]:
    """Return each mistake with one program, the programs in turns."""
    seen = [mistake for mistake in MISTAKES if mistake.name not in UNSEEN]
    return [(one, ONLY_IN.get(one.name, PROGRAMS[number % len(PROGRAMS)])) for number, one in enumerate(seen)]


def exit_code(warm_python: WarmPython, folder: Path, text: str) -> tuple[int, tuple[str, ...]]:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    run = folder / "run"
    done = warm_python.run(script, env={**inherited(), **variables(run)}, cwd=folder)
    result = judged(run, status=done.returncode)
    return result.exit_code, result.reasons


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_right_program_passes(warm_python: WarmPython, tmp_path: Path, program: str) -> None:
    assert exit_code(warm_python, tmp_path, right(program)) == (0, ())


@pytest.mark.parametrize(
    ("mistake", "program"), [pytest.param(*pair, id=f"{pair[0].name}-{pair[1]}") for pair in chosen()]
)
def test_a_mistake_fails(warm_python: WarmPython, tmp_path: Path, mistake: Mistake, program: str) -> None:
    code, reasons = exit_code(warm_python, tmp_path, mistake.planted(program))
    assert (code, bool(reasons)) == (1, True), reasons


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param({"a": Rehearsed(0, ()), "b": Rehearsed(0, ())}, ["Of 2 of the 9", "2 pass"], id="all-pass"),
        pytest.param({"a": Rehearsed(0, ()), "b": Rehearsed(1, ("`overfit`",))}, ["1 pass", "1 fail", "- b: `overfit`"],
                     id="one-fails"),
        pytest.param({"a": Rehearsed(8, ())}, ["0 pass", "1 are not judged", "1 came to no end"], id="no-end"),
    ],
)  # fmt: skip
def test_right_programs_that_fail_are_named(found: dict[str, Rehearsed], words: list[str]) -> None:
    text = "\n".join(right_lines(found, 2, 9))
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(("count", "numbers"), [(2, [0, 5]), (3, [0, 3, 6]), (10, range(10)), (99, range(10))])
def test_a_sample_is_spread_evenly(count: int, numbers: Sequence[int]) -> None:
    cells = [Cell("right", str(number), "") for number in range(10)]
    assert [int(cell.program) for cell in spread(cells, count)] == list(numbers)


def test_each_mistake_changes_each_program() -> None:
    for mistake, program in pairs():
        text = mistake.planted(program)
        compile(text, program, "exec")
        assert text != right(program), (mistake.name, program)
