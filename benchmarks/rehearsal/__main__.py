"""Which of the commonest mistakes fail `trackside check`, and does a right program pass?

    python -m benchmarks.rehearsal                         # every mistake in every program: some minutes
    python -m benchmarks.rehearsal --only no-zero-grad     # names that hold one of these words
    python -m benchmarks.rehearsal --write docs/check.md   # the table between the marks of that page

Each is a `trackside check` of a script in a folder of its own, in a forked process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.marked import replaced
from benchmarks.rehearsal.forked import Rehearsed, result_of, start, warm
from benchmarks.rehearsal.mistakes import MISTAKES, PROGRAMS, right

ROOT = Path("build/rehearsal")
BEGIN, END = "<!-- rehearsed: begin -->", "<!-- rehearsed: end -->"
RIGHT = "right"


def rehearse_all(cells: Sequence[tuple[str, str, str]], *, processes: int) -> Iterator[tuple[str, str, Rehearsed]]:
    """Yield (mistake, program, result) of each script, in the order in which they end, so many processes at once."""
    waiting, running = list(reversed(cells)), dict[int, tuple[str, str]]()
    while waiting or running:
        while waiting and len(running) < processes:
            mistake, program, text = waiting.pop()
            folder = (ROOT / program / mistake).absolute()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "train.py").write_text(text, encoding="utf-8")
            running[start(folder / "train.py")] = (mistake, program)
        pid, _ = os.wait()
        mistake, program = running.pop(pid)
        yield mistake, program, result_of(ROOT / program / mistake)


def table(found: Mapping[tuple[str, str], Rehearsed]) -> str:
    """Return the table of mistakes and programs, with the reasons for which each failed."""
    lines = ["| mistake | " + " | ".join(PROGRAMS) + " |", "|---" * (len(PROGRAMS) + 1) + "|"]
    for name, summary in ((RIGHT, "no mistake"), *((each.name, each.summary) for each in MISTAKES)):
        cells = [_cell(found.get((name, program))) for program in PROGRAMS]
        lines.append(f"| {summary} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Rehearse what was chosen, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args(arguments)
    cells = [cell for cell in _cells() if any(word in f"{cell[1]}/{cell[0]}" for word in chosen.only)]
    warm()
    found = {}
    for mistake, program, one in rehearse_all(cells, processes=chosen.processes):
        found[mistake, program] = one
        print(f"{program}/{mistake}: {one.exit_code} {', '.join(one.reasons)}", flush=True)
    if chosen.write:
        chosen.write.write_text(replaced(chosen.write.read_text(), table(found), begin=BEGIN, end=END))
    else:
        print(table(found))


def _cells() -> Iterator[tuple[str, str, str]]:
    for program in PROGRAMS:
        yield RIGHT, program, right(program)
    for mistake in MISTAKES:
        for program in PROGRAMS:
            yield mistake.name, program, mistake.planted(program)


def _cell(one: Rehearsed | None) -> str:
    if one is None:
        return ""
    return ("" if one.exit_code else "**passes** ") + ", ".join(one.reasons)


if __name__ == "__main__":
    main(sys.argv[1:])
