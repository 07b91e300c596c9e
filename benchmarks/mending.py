"""Mend faulty scripts by the JSON verdict alone, and count the runs that are well after.

    python -m benchmarks.mending [--programs classifier regression] [--only WORD ...] [--write docs/agents.md]

The scripts are the right programs of `benchmarks.rehearsal` with one mistake each. Each is run by `trackside run`, and
a fixed recipe edits it by the `repair` and the likeliest cause of its first problem: it knows neither the mistake nor
the right program. It runs again, at most three times, until `trackside compare` gives "mended" against the first run.
A place counts as right within two lines of a line that the mistake changed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.pages import replaced
from benchmarks.rehearsal.mistakes import MISTAKES, PROGRAMS, Mistake, right
from trackside.environment import inherited

ROOT = Path("build/mending")
BEGIN, END = "<!-- mended -->", "<!-- end -->"
MOST_CHANGES = 3
NEAR = 2  # lines
TRACKSIDE = (sys.executable, "-m", "trackside")

Lines = list[str]


@dataclass(frozen=True)
class Mended:
    """The result for one script.

    is_found  True if a problem was found
    is_place  True if its place is right
    changes   changes until it was well; None if it never was
    """

    mistake: str
    program: str
    is_found: bool = False
    is_place: bool = False
    changes: int | None = None


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    chosen = [each for each in MISTAKES if any(word in each.name for word in options.only)]
    results = []
    for program in options.programs:
        for mistake in chosen:
            results.append(mended(mistake, program))
            print(results[-1], flush=True)
    print(in_a_sentence(results))
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        page = replaced(page, in_a_sentence(results), begin=BEGIN, end=END)
        options.write.write_text(page, encoding="utf-8")


def in_a_sentence(results: list[Mended]) -> str:
    found = [each for each in results if each.is_found]
    places, well = sum(each.is_place for each in found), sum(each.changes is not None for each in found)
    return textwrap.fill(
        f"Of {len(results)} faulty scripts ({', '.join(dict.fromkeys(each.program for each in results))}), "
        f"{len(found)} had a problem; its place was right in {places}, and a fixed recipe that reads the JSON alone "
        f"mended {well}.",
        120,
    )


def mended(mistake: Mistake, program: str) -> Mended:
    """Run a script, and mend it by its verdicts."""
    folder, text = ROOT / program / mistake.name, mistake.planted(program)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    problems = problems_of(folder, "before", text)
    if not problems:
        return Mended(mistake.name, program)
    place = problems[0]["repair"]["place"]
    is_place = place is not None and any(abs(place["line"] - line) <= NEAR for line in changed(right(program), text))
    for change in range(1, MOST_CHANGES + 1):
        edited = by_recipe(text, problems[0])
        if edited is None or edited == text:
            break
        text = edited
        name = f"after-{change}"
        problems = problems_of(folder, name, text)
        if call(folder, "compare", "before", name, "--fail-on", "not-mended").returncode == 0:
            return Mended(mistake.name, program, True, is_place, change)
        if not problems:
            break
    return Mended(mistake.name, program, True, is_place)


def problems_of(folder: Path, name: str, text: str) -> list[Mapping[str, Any]]:
    """Return the standing problems of a run of the script, as JSON has them."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    call(folder, "run", "-q", "--out", f".trackside/runs/{name}", "--", sys.executable, "train.py")
    waited = call(folder, "wait", name, "--until", "end", "--json")
    found: list[Mapping[str, Any]] = json.loads(waited.stdout)["problems"] if waited.stdout else []
    return found


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**inherited(), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*TRACKSIDE, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def changed(before: str, after: str) -> set[int]:
    """Return the lines of a text that differ from another one; of lines left out the neighbours."""
    blocks = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    found: set[int] = set()
    for kind, _, _, first, last in blocks:
        if kind != "equal":
            found |= set(range(first + 1, last + 1)) or {first, first + 1}
    return found


def by_recipe(text: str, problem: Mapping[str, Any]) -> str | None:
    """Return the text with the change that a problem asks for; None if the recipe has none for its cause."""
    repair, causes = problem["repair"], problem["causes"]
    place, cause = repair["place"], causes[0]["cause"] if causes else ""
    if place is None:
        return None
    lines, at = text.splitlines(), place["line"] - 1
    if repair["setting"]:
        lines[at] = with_setting(lines[at], repair["setting"], repair["proposed"])
    elif cause in RECIPES:
        RECIPES[cause](lines, at)
    else:
        return None
    return "\n".join([*lines, ""])


def with_setting(line: str, name: str, value: float) -> str:
    given = re.compile(rf"\b{name}=[-+0-9.e]+")
    return given.sub(f"{name}={value!r}", line) if given.search(line) else f"{line.rstrip(')')}, {name}={value!r})"


def _clear(lines: Lines, at: int) -> None:
    lines.insert(at, f"{_indent(lines[at])}{_optimizer(lines)}.zero_grad()")


def _clear_after_the_step(lines: Lines, at: int) -> None:
    cleared = lines.pop(at)
    step = next((number for number, line in enumerate(lines) if ".step()" in line), at)
    lines.insert(step + 1, _indent(lines[step]) + cleared.strip())


def _make_before_the_loop(lines: Lines, at: int) -> None:
    made = re.sub(r"\([\w.]+\(\)", "(model.parameters()", lines.pop(at))
    loop = next((number for number, line in enumerate(lines) if line.startswith(("for ", "while "))), at)
    while loop < at:  # a loop that came before
        loop = next((n for n in range(loop + 1, len(lines)) if lines[n].startswith(("for ", "while "))), len(lines))
    lines.insert(loop, made)


def _drop_softmax(lines: Lines, at: int) -> None:
    lines[at] = re.sub(r"\.(log_)?softmax\([^()]*\)", "", lines[at])


def _turn_the_sign(lines: Lines, at: int) -> None:
    lines[at] = lines[at].replace("= -", "= ", 1)


def _rectify(lines: Lines, at: int) -> None:
    lines[at] = re.sub(r"\b(Sigmoid|Tanh)\b", "ReLU", re.sub(r"\b(sigmoid|tanh)\b", "relu", lines[at]))


def _attach(lines: Lines, at: int) -> None:
    lines[at] = lines[at].replace(".detach()", "").replace("requires_grad_(False)", "requires_grad_(True)")


def _leave_out(lines: Lines, at: int) -> None:
    lines[at] = f"{_indent(lines[at])}pass"


def _train_mode(lines: Lines, at: int) -> None:
    cleared = next((number for number, line in enumerate(lines) if ".zero_grad(" in line), at)
    lines.insert(cleared, f"{_indent(lines[cleared])}model.train()")


def _raise_the_limit(lines: Lines, at: int) -> None:
    lines[at] = re.sub(r"[-+0-9.e]+(?=\)\s*$)", "1.0", lines[at])


RECIPES: Mapping[str, Callable[[Lines, int], None]] = {
    "missing-zero-grad": _clear,
    "step-order": _clear_after_the_step,
    "parameters-not-in-optimizer": _make_before_the_loop,
    "double-softmax": _drop_softmax,
    "loss-sign": _turn_the_sign,
    "vanishing-gradients": _rectify,
    "saturated-units": _rectify,
    "frozen-parameters": _attach,
    "symmetric-initialization": _leave_out,
    "train-eval-mode": _train_mode,
    "clipping-too-low": _raise_the_limit,
}


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _optimizer(lines: Lines) -> str:
    found = re.search(r"(\w+)\.step\(\)", "\n".join(lines))
    return found[1] if found else "optimizer"


if __name__ == "__main__":
    main(sys.argv[1:])
