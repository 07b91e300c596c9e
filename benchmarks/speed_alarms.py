"""How often do the rules about speed err on right programs? Trains clean programs with profiling, and judges them.

    python -m benchmarks.speed_alarms --programs 80 --minutes 40      # trains what is missing, then judges
    python -m benchmarks.speed_alarms --programs 80 --minutes 0       # judges what is stored
    python -m benchmarks.speed_alarms --draw 28                       # other programs, with another seed
    python -m benchmarks.wild.run --warm --root build/speed/others    # other people's programs
    python -m benchmarks.speed_alarms --minutes 0 --others build/speed/others --write docs/profiling.md

The programs are a seeded sample of the corpus of `detection`, both halves, and all of the family `pytorch` of `wild`.
Each trains in a forked process with the capture of `trackside run` without any option, beside the sampler of the
machine, under whatever load the machine has. A finding of a rule is right or wrong by what the run itself measured:
the table lists each one, so that a reader can judge it. Runs of `--others` have no samples of the machine.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import times
from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.detection.train import warm
from benchmarks.engine.figures import Share
from benchmarks.engine.forks import train_each, watched
from benchmarks.engine.judge import judge as judge_run
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.engine.stored import RUN, Outcome, missing_of, stored_of
from benchmarks.engine.usual import speed_rules, usual_capture
from benchmarks.wild.program import all_families
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run.recorded_names import PROCESSOR_WAIT_SECONDS, STEP_SECONDS
from trackside.contracts.run_layout import PROFILES
from trackside.environment import inherited
from trackside.speed.machine.sampler_process import SamplerProcess
from trackside.speed.performance.profile import open_profile
from trackside.trial.trial import Trial, open_trial

ROOT = Path("build/speed")
INTERVAL_MS = 500
FIRST_DRAW = 21
STARTED, ENDED = "<!-- measured by `python -m benchmarks.speed_alarms` -->", "<!-- /speed_alarms -->"


@dataclass(frozen=True)
class Right:
    """A right program, and the seed that it trains with."""

    name: str
    train: Callable[[int], object]
    seed: int = 0

    def folder(self, root: Path) -> Path:
        """Where the run lies."""
        return root / self.name / str(self.seed)


@dataclass(frozen=True)
class Judged:
    """Verdicts of the rules about speed on one run.

    found     the comparison of each issue, by rule
    clean     rules that judged, and found nothing; of `data-starvation` only runs with a DataLoader
    steps     measured steps
    step_ms   the median step, in milliseconds
    waiting   the share of all steps without a processor; NaN if unknown
    hangs     hangs that the training process reported
    """

    program: str
    found: Mapping[str, str]
    clean: frozenset[str]
    steps: int
    step_ms: float
    waiting: float
    hangs: int


def right_programs(count: int, *, wild_seeds: int, draw: int) -> list[Right]:
    """Return the family `pytorch` of `wild` with so many seeds, and a sample of the corpus of `detection`.

    Args:
        count: Programs of the corpus.
        wild_seeds: Seeds of each program of the family.
        draw: Seed of the sample; also the first seed that the programs train with.
    """
    family = all_families()["pytorch"].programs.values()
    first = draw - FIRST_DRAW
    wild = [Right(each.name, each.train, first + seed) for each in family for seed in range(wild_seeds)]
    corpus = [
        Right(each.name, lambda seed, each=each: each.train(seed, ""), first)  # type: ignore[misc]
        for each in all_programs().values()
    ]
    return [*wild, *random.Random(draw).sample(corpus, min(count, len(corpus)))]  # noqa: S311 - a sample


def train(program: Right, folder: Path) -> None:
    """Train a program in this process, beside the sampler of the machine."""
    run = folder / RUN
    sampler = SamplerProcess(
        str(run / PROFILES),
        process=os.getpid(),
        interval_ms=INTERVAL_MS,
        environment=inherited(),
        monotonic=time.monotonic,
        start_after_seconds=0.0,  # these trainings are short
    )
    began = time.monotonic()
    with watched(run, usual_capture().to_json()):
        sampler.tend()
        try:
            program.train(program.seed)
        finally:
            sampler.finish()
    Outcome(seconds=time.monotonic() - began).write(folder)


def judge(name: str, run: Path) -> Judged | None:
    """Judge a run by all rules about speed, with their defaults; None for one that no adapter saw."""
    judged = judge_run(run, [RuleConfiguration(rule_id) for rule_id in speed_rules()])
    if not judged.steps:
        return None
    if judged.crashed:
        raise SystemExit(f"{name}: {judged.crashed} crashed")
    trial, clean = open_trial(str(run.absolute())), set(judged.clean)
    issues = {alarm.rule: alarm.lead.partition(": ")[2] for alarm in judged.alarms}
    steps = open_profile(str(run.absolute())).steps()
    if not any("data" in worker.phases for worker in steps):
        clean.discard("data-starvation")  # without a DataLoader it never finds anything
    seconds = np.concatenate([np.empty(0), *(worker.seconds for worker in steps)])
    waits, total = _sum(trial, PROCESSOR_WAIT_SECONDS), _sum(trial, STEP_SECONDS)
    return Judged(
        program=name,
        found=issues,
        clean=frozenset(clean - set(issues)),
        steps=len(seconds),
        step_ms=float(1000 * np.median(seconds)) if len(seconds) else float("nan"),
        waiting=waits / total if total else float("nan"),
        hangs=sum(facts.hang is not None for facts in trial.profile.facts().values()),
    )


def _sum(trial: Trial, name: str) -> float:
    """Return the sum of a number over all steps; NaN if none has it."""
    try:
        return float(sum(column.values.sum() for column in trial.tensor(name).columns("mean")))
    except TensorNotSavedError:
        return float("nan")


def lines(judged: list[Judged]) -> Iterator[str]:
    """Yield the table of the rules, then each finding."""
    fired = Counter(rule for each in judged for rule in each.found)
    clean = Counter(rule for each in judged for rule in each.clean)
    waiting = [each.waiting for each in judged if np.isfinite(each.waiting)]
    yield f"{len(judged)} right programs, {sum(each.steps for each in judged):,} steps"
    if waiting:
        yield f"time without a processor: median {np.median(waiting):.0%} of a run, most {max(waiting):.0%}"
    yield f"hangs reported by a training process: {sum(each.hangs for each in judged)}"
    yield ""
    yield "| rule | found in | judged in | share, 95 % interval |"
    yield "|---|---|---|---|"
    for rule in sorted({*fired, *clean}):
        share = Share(fired[rule], fired[rule] + clean[rule])
        low, high = share.interval
        yield f"| `{rule}` | {share.count} | {share.of} | {share.value:.1%} ({low:.1%} to {high:.1%}) |"
    yield ""
    for each in judged:
        for rule, comparison in sorted(each.found.items()):
            yield (
                f"- {rule}: {each.program}, {each.steps} steps of {each.step_ms:.3g} ms,"
                f" {each.waiting:.0%} without a processor: {comparison}"
            )


def main() -> int:
    """Train what is missing, judge what is stored, and print the table."""
    options = parser(__doc__)
    options.add_argument("--programs", type=int, default=80, help="programs of the corpus `detection`")
    options.add_argument("--wild-seeds", type=int, default=1, help="seeds of each program of `wild`")
    options.add_argument("--draw", type=int, default=FIRST_DRAW, help="another number: other programs and seeds")
    options.add_argument("--minutes", type=float, default=40, help="no training begins after that")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument(
        "--others", type=Path, nargs="*", default=[], help="folders with runs of `benchmarks.wild.run`"
    )
    options.add_argument("--write", type=Path, help="the page with the markers")
    options.add_argument("--root", type=Path, default=ROOT)
    arguments = options.parse_args()
    programs = right_programs(arguments.programs, wild_seeds=arguments.wild_seeds, draw=arguments.draw)
    if arguments.minutes > 0:
        warm()
        todo = [(each, partial(train, each)) for each in missing_of(programs, arguments.root)]
        until = time.monotonic() + 60 * arguments.minutes
        train_each(todo, root=arguments.root, processes=arguments.processes, until=until)
    runs = [(each.name, folder / RUN) for each, folder in stored_of(programs, arguments.root)]
    for folder in arguments.others:
        runs += [(run.parts[-3], run) for run in sorted(folder.glob("*/*/*/run"))]
    judged = [found for name, run in runs if (found := judge(name, run))]
    put([*lines(judged), "", times.machine()], arguments.write, begin=STARTED, end=ENDED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
