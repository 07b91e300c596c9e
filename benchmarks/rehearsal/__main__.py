"""Which of the commonest mistakes fail `trackside check`, and does a right program pass?

    python -m benchmarks.rehearsal                         # every mistake in every program: some minutes
    python -m benchmarks.rehearsal --only no-zero-grad     # names that hold one of these words
    python -m benchmarks.rehearsal --write docs/check.md   # the table between the marks of that page

Each is a `trackside check` of a script in a folder of its own, in a forked process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.engine.forks import train_each
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.rehearsal.forked import Rehearsed, rehearse, result_of
from benchmarks.rehearsal.mistakes import MISTAKES, PROGRAMS, right
from trackside.contracts.rule_catalogue import built_in_catalogue

ROOT = Path("build/rehearsal")
BEGIN, END = "<!-- rehearsed: begin -->", "<!-- rehearsed: end -->"
RIGHT = "right"


@dataclass(frozen=True)
class Cell:
    """A script: a program with a mistake, or without one (`right`)."""

    mistake: str
    program: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.program}/{self.mistake}"

    def folder(self, root: Path) -> Path:
        """Return the folder of its rehearsal."""
        return (root / self.program / self.mistake).absolute()


def cells() -> Iterator[Cell]:
    """Yield every script."""
    yield from (Cell(RIGHT, program, right(program)) for program in PROGRAMS)
    yield from (Cell(each.name, program, each.planted(program)) for each in MISTAKES for program in PROGRAMS)


def table(found: Mapping[str, Rehearsed]) -> str:
    """Return the table of mistakes and programs, with the reasons for which each failed."""
    lines = ["| mistake | " + " | ".join(PROGRAMS) + " |", "|---" * (len(PROGRAMS) + 1) + "|"]
    for name, summary in ((RIGHT, "no mistake"), *((each.name, each.summary) for each in MISTAKES)):
        cells = [_cell(found.get(f"{program}/{name}")) for program in PROGRAMS]
        lines.append(f"| {summary} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Rehearse what was chosen, and print or write the table; 1 if a rehearsal came to no end."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="*", default=[""])
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options.add_argument("--write", type=Path)
    arguments = options.parse_args(words)
    chosen = [cell for cell in cells() if any(word in cell.name for word in arguments.only)]
    built_in_catalogue()  # once for all forks
    found: dict[str, Rehearsed] = {}

    def ended(cell: Cell) -> None:
        found[cell.name] = one = result_of(cell.folder(ROOT))
        print(f"{cell.name}: {one.exit_code} {', '.join(one.reasons)}", flush=True)

    todo = [(cell, partial(rehearse, cell.text)) for cell in chosen]
    failed = train_each(todo, root=ROOT, processes=arguments.processes, told=ended)
    put(table(found), arguments.write, begin=BEGIN, end=END)
    return 1 if failed else 0


def _cell(one: Rehearsed | None) -> str:
    if one is None:
        return ""
    return ("" if one.exit_code else "**passes** ") + ", ".join(one.reasons)


if __name__ == "__main__":
    sys.exit(main())
