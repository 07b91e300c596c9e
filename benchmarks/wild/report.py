"""Judges the stored runs of the corpus and writes the tables of docs/wild.md.

    python -m benchmarks.wild.report --seeds 3 --write docs/wild.md
    python -m benchmarks.wild.report --seeds 1 --split tune            # prints them

Of the report half only sums over all of its programs are shown, by level, by rule and by answer: people who change
rules read neither its single runs nor the answers to them.
What stands above the marker in the file is left as it is.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.engine.figures import share
from benchmarks.engine.judge import Judged, judge_all
from benchmarks.engine.options import parser
from benchmarks.engine.pages import follows, put, table
from benchmarks.engine.stored import Outcome, stored_of
from benchmarks.wild.program import REPORT, TUNE, Program
from benchmarks.wild.run import Job, add_choice, chosen_programs, jobs
from benchmarks.wild.settled import Answer, is_false_or_open, read_answers
from trackside.contracts.verdict import Severity

MARKER = follows("benchmarks.wild.report")
LEVELS = {Severity.CRITICAL: "critical", Severity.WARNING: "warning or above"}
Answers = Mapping[tuple[str, str], Answer]
Found = tuple[Job, Judged]


def tables(programs: Sequence[Program], found: Sequence[Found], answers: Answers) -> Iterator[str]:
    """Yield the tables, line by line."""
    halves = {half: [each for each in found if each[0].program.split == half] for half in (TUNE, REPORT)}
    yield from _alarmed(halves, answers)
    yield ""
    yield from _by_rule(halves)
    yield ""
    yield from _by_program(programs, found)
    yield ""
    yield from _answers(halves[TUNE], answers)
    yield ""
    yield _sum_of_answers(halves[REPORT], answers)


def _alarmed(halves: Mapping[str, Sequence[Found]], answers: Answers) -> Iterator[str]:
    columns = (halves[TUNE], halves[REPORT], [*halves[TUNE], *halves[REPORT]])
    rows: list[tuple[object, ...]] = []
    for level, name in LEVELS.items():

        def is_wrongly_alarmed(run: Found, level: Severity = level) -> bool:
            return any(is_false_or_open(run[0].program.name, alarm, answers) for alarm in run[1].at_least(level))

        alarmed = (share([run for _, run in runs], partial(Judged.at_least, severity=level)) for runs in columns)
        rows.append((name, *alarmed))
        rows.append((f"{name}, settled as true left out", *(share(runs, is_wrongly_alarmed) for runs in columns)))

    def is_still_alarmed(run: Found) -> bool:
        return any(not alarm.is_recovered for alarm in run[1].at_least(Severity.WARNING))

    rows.append(("warning or above, not recovered at the end", *(share(runs, is_still_alarmed) for runs in columns)))
    yield from table(f"runs with an alarm | {TUNE} | {REPORT} | both", rows)


def _by_rule(halves: Mapping[str, Sequence[Found]]) -> Iterator[str]:
    runs = {half: [run for _, run in halves[half]] for half in (TUNE, REPORT)}
    rules = sorted({alarm.rule for several in runs.values() for run in several for alarm in run.alarms})
    columns = [(several, level) for several in runs.values() for level in LEVELS]
    heads = "rule | tune: critical | tune: warning or above | report: critical | report: warning or above"
    yield from table(
        heads,
        (
            (rule, *(share(several, partial(Judged.at_least, severity=level, rule=rule)) for several, level in columns))
            for rule in rules
        ),
    )


def _by_program(programs: Sequence[Program], found: Sequence[Found]) -> Iterator[str]:
    runs: dict[str, list[Judged]] = {program.name: [] for program in programs}
    for job, judged in found:
        runs[job.program.name].append(judged)
    heads = "program | library | half | what it does | data | runs | steps | loss, first to last | alarms"
    yield from table(heads, (_row(program, runs[program.name]) for program in programs))


def _row(program: Program, runs: Sequence[Judged]) -> Sequence[object]:
    first = runs[0] if runs else None
    counts = Counter(f"{a.rule} {a.severity.value}" for run in runs for a in run.at_least(Severity.WARNING))
    alarms = ", ".join(f"{name} {count}x" for name, count in sorted(counts.items()))
    return [
        program.name,
        program.library,
        program.split,
        program.summary,
        program.data,
        len(runs),
        first.steps if first else "-",
        " to ".join(f"{loss:.3g}" for loss in first.losses) if first and first.losses else "-",
        "not shown" if program.split == REPORT else alarms or "-",
    ]


def _answers(runs: Sequence[Found], answers: Answers) -> Iterator[str]:
    alarmed = _alarmed_pairs(runs)
    yield f"{len(alarmed)} pairs of program and rule with an alarm in the half `{TUNE}`:"
    yield ""
    found = ((pair, answers.get(pair)) for pair in alarmed)
    rows = ((*pair, _settled_as(answer), answer.why if answer else "-") for pair, answer in found)
    yield from table("program | rule | settled as | why", rows)


def _sum_of_answers(runs: Sequence[Found], answers: Answers) -> str:
    """Return how many alarms of the half `report` are settled, without the name of a program or rule."""
    alarmed = _alarmed_pairs(runs)
    counts = Counter(_settled_as(answers.get(pair)) for pair in alarmed)
    settled = ", ".join(f"{counts[word]} {word}" for word in ("true", "false", "open"))
    return f"{len(alarmed)} pairs of program and rule with an alarm in the half `{REPORT}`: {settled}."


def _alarmed_pairs(runs: Sequence[Found]) -> list[tuple[str, str]]:
    return sorted({(job.program.name, alarm.rule) for job, run in runs for alarm in run.at_least(Severity.WARNING)})


def _settled_as(answer: Answer | None) -> str:
    if answer is None:
        return "open"
    return "true" if answer.is_true else "false"


def page(chosen: Sequence[Job], found: Sequence[Found], answers: Answers, *, root: Path) -> Iterator[str]:
    """Yield the written part of the page."""
    unseen = sorted({job.program.name for job, judged in found if not judged.steps})
    found = [each for each in found if each[1].steps]
    programs = sorted(
        {job.program.name: job.program for job in chosen}.values(), key=lambda one: (one.family, one.name)
    )
    outcomes = [outcome for job, _ in found if (outcome := Outcome.read(job.folder(root)))]
    by = Counter(outcome.by for outcome in outcomes)
    seeds = max((job.seed for job in chosen), default=-1) + 1
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


def main(words: Sequence[str] | None = None) -> int:
    """Judge and write; 1 if a rule crashed."""
    options = parser(__doc__)
    add_choice(options)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--write", type=Path, help="the page whose tables are replaced")
    arguments = options.parse_args(words)
    chosen = list(jobs(chosen_programs(arguments), seeds=arguments.seeds))
    stored = stored_of(chosen, arguments.root)
    judged = judge_all([folder for _, folder in stored], processes=arguments.processes)
    found = [(job, each) for (job, _), each in zip(stored, judged, strict=True)]
    put([*page(chosen, found, read_answers(), root=arguments.root)], arguments.write, begin=MARKER)
    return 1 if any(judged.crashed for _, judged in found) else 0


if __name__ == "__main__":
    sys.exit(main())
