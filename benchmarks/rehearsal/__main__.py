"""Which of the commonest mistakes fail `trackside check`, and does a right program pass?

    python -m benchmarks.rehearsal                         # every mistake in every program: some minutes
    python -m benchmarks.rehearsal --only no-zero-grad     # names that hold one of these words
    python -m benchmarks.rehearsal --write docs/check.md   # the table between the marks of that page
    python -m benchmarks.rehearsal --right                 # the right programs of the corpus: none may fail
    python -m benchmarks.rehearsal --right --sample 40     # so many of them, spread evenly

Each is a `trackside check` of a script in a folder of its own, in a forked process.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.detection.corpus.program import SEEDS
from benchmarks.detection.train import warm as load_data
from benchmarks.engine.forks import train_each
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.rehearsal.forked import Rehearsed, rehearse, result_of
from benchmarks.rehearsal.mistakes import MISTAKES, PROGRAMS, right
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.exit_code import NOT_JUDGED

ROOT = Path("build/rehearsal")
BEGIN, END = "<!-- rehearsed: begin -->", "<!-- rehearsed: end -->"
BEGIN_RIGHT, END_RIGHT = "<!-- right programs: begin -->", "<!-- right programs: end -->"
RIGHT = "right"
FINE = (0, NOT_JUDGED)  # what is not judged is no false alarm


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


def right_cells() -> Iterator[Cell]:
    """Yield a script for each program of the corpus of trainings, without a fault."""
    for name, program in all_programs().items():
        call = f"all_programs()[{name!r}].train({SEEDS[program.split][0]}, '')"
        yield Cell(RIGHT, name, f"from benchmarks.detection.corpus.catalogue import all_programs\n\n{call}\n")


def spread(cells: Sequence[Cell], count: int) -> list[Cell]:
    """Return so many of the scripts, at even distances."""
    return [cells[len(cells) * number // count] for number in range(count)] if count < len(cells) else list(cells)


def right_lines(found: Mapping[str, Rehearsed], chosen: int, known: int) -> Iterator[str]:
    """Yield how many of the chosen right programs pass, of all that are known, and a line for each that fails."""
    codes = Counter(one.exit_code for one in found.values())
    failing = {name: one for name, one in found.items() if one.exit_code not in FINE}
    yield (
        f"Of {chosen} of the {known} right programs of the [corpus](rule-quality.md) {codes[0]} pass, "
        f"{codes[NOT_JUDGED]} are not judged, {len(failing)} fail, and {chosen - len(found)} came to no end."
    )
    yield from (f"\n- {name}: {', '.join(one.reasons)}" for name, one in sorted(failing.items()))


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
    options.add_argument("--right", action="store_true", help="rehearse the right programs of the corpus")
    options.add_argument("--sample", type=int, metavar="COUNT", help="rehearse so many of the chosen scripts")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options.add_argument("--write", type=Path)
    arguments = options.parse_args(words)
    known = list(right_cells() if arguments.right else cells())
    named = [cell for cell in known if any(word in cell.name for word in arguments.only)]
    chosen = spread(named, arguments.sample or len(named))
    built_in_catalogue()  # once for all forks
    if arguments.right:
        load_data()
    found: dict[str, Rehearsed] = {}

    def ended(cell: Cell) -> None:
        found[cell.name] = one = result_of(cell.folder(ROOT))
        print(f"{cell.name}: {one.exit_code} {', '.join(one.reasons)}", flush=True)

    todo = [(cell, partial(rehearse, cell.text)) for cell in chosen]
    failed = train_each(todo, root=ROOT, processes=arguments.processes, told=ended)
    if arguments.right:
        put("\n".join(right_lines(found, len(chosen), len(known))), arguments.write, begin=BEGIN_RIGHT, end=END_RIGHT)
        return int(bool(failed) or any(one.exit_code not in FINE for one in found.values()))
    put(table(found), arguments.write, begin=BEGIN, end=END)
    return 1 if failed else 0


def _cell(one: Rehearsed | None) -> str:
    if one is None:
        return ""
    words = {0: "**passes**", NOT_JUDGED: "not judged"}.get(one.exit_code, "")
    return " ".join(filter(None, (words, ", ".join(one.reasons))))


if __name__ == "__main__":
    sys.exit(main())
