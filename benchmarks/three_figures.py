"""The three figures side by side: clean runs of the own corpus and of other people's trainers, and mutants that count.

    python -m benchmarks.three_figures --write docs/rule-quality.md
    python -m benchmarks.three_figures                              # prints them

It judges the clean runs that are stored (twins of `benchmarks.mutants.run`, runs of `benchmarks.wild.run`) by the rules
of `trackside run`, and takes the mutants from the readings of the half `report`: it makes none of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detection.corpus.program import Program as OwnProgram
from benchmarks.engine.figures import Share
from benchmarks.engine.judge import judge_all
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.engine.stored import code_digest, stored_of
from benchmarks.mutants.readings import Reading, read_all
from benchmarks.mutants.stored_runs import ROOT as MUTANTS
from benchmarks.mutants.stored_runs import Mutant
from benchmarks.mutants.subjects import all_subjects
from benchmarks.wild.program import all_programs
from benchmarks.wild.run import RUNS, jobs
from benchmarks.wild.settled import is_false_or_open, read_answers
from trackside.contracts.verdict import Severity

FIRST, LAST = "<!-- Written by `python -m benchmarks.three_figures`. -->", "<!-- End of the three figures. -->"


@dataclass(frozen=True)
class CleanRuns:
    """Runs that are right, and the number of them with an alarm.

    corpus    a clause
    programs  number of programs
    runs      number of runs
    warned    runs with a card of warning level or above, alarms that are settled as true left out
    critical  runs with a critical card, the same left out
    """

    corpus: str
    programs: int
    runs: int
    warned: int
    critical: int


def own_runs(*, root: Path, seeds: int, processes: int) -> CleanRuns:
    """Return the twins of mutants in the own corpus, of both halves: sums alone."""
    subjects = [each for each in all_subjects() if isinstance(each.program, OwnProgram)]
    twins = [Mutant(each, None, seed) for each in subjects for seed in each.seeds[:seeds]]
    stored = stored_of(twins, root)
    cards = judge_all([folder for _, folder in stored], processes=processes)
    found = [(twin, judged) for (twin, _), judged in zip(stored, cards, strict=True) if judged.steps]
    severities = [max((card.severity.rank for card in judged.cards), default=-1) for _, judged in found]
    return CleanRuns(
        "own corpus, clean runs",
        len({twin.subject for twin, _ in found}),
        len(found),
        sum(rank >= Severity.WARNING.rank for rank in severities),
        sum(rank >= Severity.CRITICAL.rank for rank in severities),
    )


def wild_runs(half: str, *, root: Path, seeds: int, processes: int) -> CleanRuns:
    """Return the runs of other people's trainers in one half: sums alone."""
    stored = stored_of(list(jobs([each for each in all_programs() if each.split == half], seeds=seeds)), root)
    judged = judge_all([folder for _, folder in stored], processes=processes)
    found = [(job.program.name, run) for (job, _), run in zip(stored, judged, strict=True) if run.steps]
    answers = read_answers()
    alarms = [
        [each for each in run.at_least(Severity.WARNING) if is_false_or_open(program, each, answers)]
        for program, run in found
    ]
    return CleanRuns(
        f"other people's trainers, clean runs, half `{half}`",
        len({program for program, _ in found}),
        len(found),
        sum(bool(each) for each in alarms),
        sum(any(alarm.severity is Severity.CRITICAL for alarm in each) for each in alarms),
    )


def lines(clean: Sequence[CleanRuns], readings: Sequence[Reading]) -> Iterator[str]:
    """Yield the table, line by line."""
    day = time.strftime("%d %B %Y, %H:%M UTC", time.gmtime()).lstrip("0")
    yield f"Rules `{code_digest()}`, {day}. Intervals are Wilson's at 95 %."
    yield ""
    yield "| corpus | programs | runs | warned of | critical |"
    yield "|---|---|---|---|---|"
    for each in clean:
        shares = f"{Share(each.warned, each.runs)} | {Share(each.critical, each.runs)}"
        yield f"| {each.corpus} | {each.programs} | {each.runs} | {shares} |"
    yield ""
    yield "| mutants that count | mutants | runs | found beyond the twin | named first | named in the first two |"
    yield "|---|---|---|---|---|---|"
    if not readings:
        yield "| half `report` | never read | - | - | - | - |"
    for number, read in enumerate(readings, 1):
        found = (Share(read.found, read.runs), Share(read.first, read.nameable), Share(read.in_two, read.nameable))
        name = f"half `report`, reading {number} of {read.date}, rules `{read.rules}`, `{read.choice}`"
        yield f"| {name} | {read.mutants} | {read.runs} | {' | '.join(map(str, found))} |"


def main(words: Sequence[str] | None = None) -> int:
    """Judge, and write or print."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=3, help="the most seeds of each program (default 3)")
    options.add_argument("--mutants", type=Path, default=MUTANTS)
    options.add_argument("--wild", type=Path, default=RUNS)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--write", type=Path, help="the page with the table")
    arguments = options.parse_args(words)
    share = {"seeds": arguments.seeds, "processes": arguments.processes}
    clean = [own_runs(root=arguments.mutants, **share)]
    clean += [wild_runs(half, root=arguments.wild, **share) for half in ("tune", "report")]
    put([*lines(clean, read_all())], arguments.write, begin=FIRST, end=LAST)
    return 0


if __name__ == "__main__":
    sys.exit(main())
