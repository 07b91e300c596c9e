"""The three figures side by side: clean runs of the own corpus and of other people's trainers, and mutants that count.

    python -m benchmarks.three_figures --write docs/rule-quality.md
    python -m benchmarks.three_figures                              # prints them

It judges the clean runs that are stored (twins of `benchmarks.mutants.run`, runs of `benchmarks.wild.run`) by the rules
of `trackside run`, and takes the mutants from the readings of the half `report`: it makes none of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detection.corpus.program import Program as OwnProgram
from benchmarks.detection.wilson import Share
from benchmarks.kept import code_digest
from benchmarks.mutants.judge import judge_all as judge_twins
from benchmarks.mutants.readings import Reading, read_all
from benchmarks.mutants.stored_runs import ROOT as MUTANTS
from benchmarks.mutants.stored_runs import Mutant
from benchmarks.mutants.subjects import all_subjects
from benchmarks.wild.catalogue import all_programs
from benchmarks.wild.judge import judge_all as judge_wild
from benchmarks.wild.settled import is_false_or_open, read_answers
from benchmarks.wild.stored_runs import RUNS, jobs
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
    found = [(twin, judged) for twin, judged in judge_twins(twins, root=root, processes=processes) if judged.steps]
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
    chosen = list(jobs([each for each in all_programs() if each.split == half], seeds=seeds))
    found = [judged for _, judged in judge_wild(chosen, root=root, processes=processes) if judged.steps]
    answers = read_answers()
    alarms = [
        [each for each in run.at_least(Severity.WARNING) if is_false_or_open(run, each, answers)] for run in found
    ]
    return CleanRuns(
        f"other people's trainers, clean runs, half `{half}`",
        len({judged.program for judged in found}),
        len(found),
        sum(bool(each) for each in alarms),
        sum(any(alarm.severity is Severity.CRITICAL for alarm in each) for each in alarms),
    )


def lines(clean: Sequence[CleanRuns], readings: Sequence[Reading]) -> Iterator[str]:
    """Yield the table, line by line."""
    day = time.strftime("%d %B %Y, %H:%M UTC", time.gmtime()).lstrip("0")
    yield FIRST
    yield ""
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
    yield ""
    yield LAST


def written(page: str, block: Sequence[str]) -> str:
    """Return the page with the block in place of the old one.

    Raises:
        ValueError: The page has no place for it.
    """
    before, first, rest = page.partition(FIRST)
    _, last, after = rest.partition(LAST)
    if not (first and last):
        raise ValueError(f"The page lacks the lines {FIRST} and {LAST}.")
    return f"{before}{chr(10).join(block)}{after}"


def main(words: Sequence[str] | None = None) -> int:
    """Judge, and write or print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3, help="the most seeds of each program (default 3)")
    options.add_argument("--mutants", type=Path, default=MUTANTS)
    options.add_argument("--wild", type=Path, default=RUNS)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--write", type=Path, help="the page with the table")
    arguments = options.parse_args(words)
    share = {"seeds": arguments.seeds, "processes": arguments.processes}
    clean = [own_runs(root=arguments.mutants, **share)]
    clean += [wild_runs(half, root=arguments.wild, **share) for half in ("tune", "report")]
    block = list(lines(clean, read_all()))
    if not arguments.write:
        print("\n".join(block))
        return 0
    partial = arguments.write.with_name(f"{arguments.write.name}.partial")
    partial.write_text(written(arguments.write.read_text(encoding="utf-8"), block), encoding="utf-8")
    os.replace(partial, arguments.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
