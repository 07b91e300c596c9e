"""Judges the stored runs of the corpus and writes the tables of docs/wild.md.

    python -m benchmarks.wild.report --seeds 3 --write docs/wild.md
    python -m benchmarks.wild.report --seeds 1 --split tune            # prints them

Of the report half only sums over all of its programs are shown, by level, by rule and by answer: people who change
rules read neither its single runs nor the answers to them.
What stands above the marker in the file is left as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.detection.wilson import Share
from benchmarks.wild.judge import Judged, judge_all
from benchmarks.wild.program import REPORT, TUNE, Program
from benchmarks.wild.run import add_choice, chosen_programs
from benchmarks.wild.settled import Answer, is_false_or_open, read_answers
from benchmarks.wild.stored_runs import Job, Outcome, jobs
from trackside.contracts.verdict import Severity

MARKER = "<!-- What follows is written by `python -m benchmarks.wild.report`. -->"
LEVELS = (Severity.CRITICAL, Severity.WARNING)
LEVEL_NAMES = {Severity.CRITICAL: "critical", Severity.WARNING: "warning or above"}
Answers = Mapping[tuple[str, str], Answer]


def tables(programs: Sequence[Program], found: Sequence[tuple[Job, Judged]], answers: Answers) -> Iterator[str]:
    """Yield the tables, line by line."""
    halves = {half: [judged for job, judged in found if job.program.split == half] for half in (TUNE, REPORT)}
    yield from _alarmed(halves, answers)
    yield ""
    yield from _by_rule(halves)
    yield ""
    yield from _by_program(programs, found)
    yield ""
    yield from _answers(halves[TUNE], answers)
    yield ""
    yield _sum_of_answers(halves[REPORT], answers)


def _alarmed(halves: Mapping[str, Sequence[Judged]], answers: Answers) -> Iterator[str]:
    both = [*halves[TUNE], *halves[REPORT]]
    yield f"| runs with an alarm | {TUNE} | {REPORT} | both |"
    yield "|---|---|---|---|"
    for level in LEVELS:

        def is_alarmed(run: Judged, level: Severity = level) -> bool:
            return bool(run.at_least(level))

        def is_wrongly_alarmed(run: Judged, level: Severity = level) -> bool:
            return any(is_false_or_open(run, alarm, answers) for alarm in run.at_least(level))

        name = LEVEL_NAMES[level]
        shares = (_share(runs, is_alarmed) for runs in (halves[TUNE], halves[REPORT], both))
        yield f"| {name} | {' | '.join(map(str, shares))} |"
        shares = (_share(runs, is_wrongly_alarmed) for runs in (halves[TUNE], halves[REPORT], both))
        yield f"| {name}, settled as true left out | {' | '.join(map(str, shares))} |"

    def is_still_alarmed(run: Judged) -> bool:
        return any(not alarm.is_recovered for alarm in run.at_least(Severity.WARNING))

    counts = (_share(runs, is_still_alarmed) for runs in (halves[TUNE], halves[REPORT], both))
    yield f"| warning or above, not recovered at the end | {' | '.join(map(str, counts))} |"


def _by_rule(halves: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    rules = sorted({alarm.rule for runs in halves.values() for run in runs for alarm in run.alarms})
    yield "| rule | tune: critical | tune: warning or above | report: critical | report: warning or above |"
    yield "|---|---|---|---|---|"
    for rule in rules:
        cells = [
            str(Share(sum(bool(run.at_least(level, rule)) for run in halves[half]), len(halves[half])))
            for half in (TUNE, REPORT)
            for level in LEVELS
        ]
        yield f"| {rule} | {' | '.join(cells)} |"


def _by_program(programs: Sequence[Program], found: Sequence[tuple[Job, Judged]]) -> Iterator[str]:
    runs: dict[str, list[Judged]] = {program.name: [] for program in programs}
    for job, judged in found:
        runs[job.program.name].append(judged)
    yield "| program | library | half | what it does | data | runs | steps | loss, first to last | alarms |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for program in programs:
        each = runs[program.name]
        first = each[0] if each else None
        counts = Counter(f"{a.rule} {a.severity.value}" for run in each for a in run.at_least(Severity.WARNING))
        alarms = ", ".join(f"{name} {count}x" for name, count in sorted(counts.items()))
        cells = [
            program.name,
            program.library,
            program.split,
            program.summary,
            program.data,
            str(len(each)),
            str(first.steps) if first else "-",
            " to ".join(f"{loss:.3g}" for loss in first.losses) if first and first.losses else "-",
            "not shown" if program.split == REPORT else alarms or "-",
        ]
        yield f"| {' | '.join(cells)} |"


def _answers(runs: Sequence[Judged], answers: Answers) -> Iterator[str]:
    alarmed = _alarmed_pairs(runs)
    yield f"{len(alarmed)} pairs of program and rule with an alarm in the half `{TUNE}`:"
    yield ""
    yield "| program | rule | settled as | why |"
    yield "|---|---|---|---|"
    for pair in alarmed:
        answer = answers.get(pair)
        yield f"| {pair[0]} | {pair[1]} | {_settled_as(answer)} | {answer.why if answer else '-'} |"


def _sum_of_answers(runs: Sequence[Judged], answers: Answers) -> str:
    """Return how many alarms of the half `report` are settled, without the name of a program or rule."""
    alarmed = _alarmed_pairs(runs)
    counts = Counter(_settled_as(answers.get(pair)) for pair in alarmed)
    settled = ", ".join(f"{counts[word]} {word}" for word in ("true", "false", "open"))
    return f"{len(alarmed)} pairs of program and rule with an alarm in the half `{REPORT}`: {settled}."


def _alarmed_pairs(runs: Sequence[Judged]) -> list[tuple[str, str]]:
    return sorted({(run.program, alarm.rule) for run in runs for alarm in run.at_least(Severity.WARNING)})


def _settled_as(answer: Answer | None) -> str:
    if answer is None:
        return "open"
    return "true" if answer.is_true else "false"


def _share(runs: Sequence[Judged], holds: Callable[[Judged], bool]) -> Share:
    return Share(sum(holds(run) for run in runs), len(runs))


def page(chosen: Sequence[Job], found: Sequence[tuple[Job, Judged]], answers: Answers, *, root: Path) -> Iterator[str]:
    """Yield the written part of the page."""
    unseen = sorted({judged.program for _, judged in found if not judged.steps})
    found = [each for each in found if each[1].steps]
    programs = sorted(
        {job.program.name: job.program for job in chosen}.values(), key=lambda one: (one.family, one.name)
    )
    outcomes = [outcome for job, _ in found if (outcome := Outcome.read(job.folder(root)))]
    by = Counter(outcome.by for outcome in outcomes)
    seeds = max((job.seed for job in chosen), default=-1) + 1
    yield MARKER
    yield ""
    yield (
        f"{len(found)} of {len(chosen)} runs: {len(programs)} programs of {len({one.library for one in programs})} "
        f"libraries, at most {seeds} seeds of each; "
        + ", ".join(f"{count} by {name}" for name, count in sorted(by.items()))
        + f"; {sum(outcome.seconds for outcome in outcomes) / 60:.0f} minutes of processor. Default rules, "
        "torch 2.13.0. Intervals are Wilson's at 95 %, and count a program's seeds as independent."
    )
    if unseen:
        yield ""
        yield f"Trained to the end without anything captured, and not counted: {', '.join(unseen)}."
    yield ""
    yield from tables(programs, found, answers)
    if crashed := sorted({rule for _, run in found for rule in run.crashed}):
        yield ""
        yield f"Crashed: {', '.join(crashed)}."


def write(path: Path, lines: Sequence[str]) -> None:
    """Put the lines in place of what follows the marker, or at the end of a file that has none."""
    before = path.read_text(encoding="utf-8").partition(MARKER)[0].rstrip() if path.exists() else "# In the wild"
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text("\n".join([before, "", *lines]) + "\n", encoding="utf-8")
    os.replace(partial, path)


def main(words: Sequence[str] | None = None) -> int:
    """Judge and write; 1 if a rule crashed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_choice(options)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--write", type=Path, help="the page whose tables are replaced; else they are printed")
    arguments = options.parse_args(words)
    chosen = list(jobs(chosen_programs(arguments), seeds=arguments.seeds))
    found = list(judge_all(chosen, root=arguments.root, processes=arguments.processes))
    lines = [*page(chosen, found, read_answers(), root=arguments.root)]
    if arguments.write:
        write(arguments.write, lines)
    else:
        print("\n".join(lines))
    return 1 if any(judged.crashed for _, judged in found) else 0


if __name__ == "__main__":
    sys.exit(main())
