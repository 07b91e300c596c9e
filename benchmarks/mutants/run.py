"""Trains mutants and their twins under capture, and stores the runs.

    python -m benchmarks.mutants.run --half tune                       # one seed of each chosen program
    python -m benchmarks.mutants.run --half tune --seeds 3 --minutes 60
    python -m benchmarks.mutants.run --half report --only own wine-mlp labels
    python -m benchmarks.mutants.run --half report --only own --seeds 3 --sample 60   # mutants drawn by lot
    python -m benchmarks.mutants.run --half tune --rest-after 50 --root build/mutants-rest   # watched in bursts

It may be ended and started again at any time: a run that is stored is not trained again. `--minutes` begins none after
that time. Programs of other libraries need their environments: `python -m benchmarks.wild.environments build`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.detection.corpus.program import Program as OwnProgram
from benchmarks.detection.train import warm
from benchmarks.engine.forks import train_each, watched
from benchmarks.engine.options import add_place, add_rest, parser, rests
from benchmarks.engine.stored import RUN, Outcome
from benchmarks.engine.usual import usual_capture
from benchmarks.mutants.launch import TWIN, plant
from benchmarks.mutants.operator import REPORT, TUNE, all_operators
from benchmarks.mutants.stored_runs import LOSSES, ROOT, Mutant, drawn, has_no_effect, mutants
from benchmarks.mutants.subjects import CHOSEN, all_subjects
from benchmarks.wild.environments import is_built
from benchmarks.wild.program import all_families
from benchmarks.wild.run import order_of, trained_in_forks
from trackside.contracts.capture_request import CaptureRequest

OWN_ALONE = "own"  # a word of `--only`: programs of the own corpus


def train_here(mutant: Mutant, request: CaptureRequest, folder: Path) -> None:
    """Train a program of the own corpus in this process, and store run and outcome."""
    assert isinstance(mutant.subject.program, OwnProgram)
    began = time.process_time()
    planted = plant(mutant.operator.name if mutant.operator else TWIN, seed=mutant.seed)
    score, error = None, ""
    try:
        with watched(folder / RUN, request.to_json()):
            trained = mutant.subject.program.train(mutant.seed, "")
        score = trained.score()  # by the model as it was trained: the mistake is still in place
    except Exception as raised:  # noqa: BLE001 - a mistake may end in any
        error = f"{type(raised).__name__}: {raised}"
    planted.write(folder / LOSSES)
    is_number = score is not None and math.isfinite(score)
    seconds = round(time.process_time() - began, 2)
    Outcome(1 if error else 0, score if is_number else None, seconds, error).write(folder)


def _train_elsewhere(
    chosen: Sequence[Mutant], request: CaptureRequest, *, family: str, root: Path, until: float
) -> Iterator[str]:
    """Train programs of one family in its environment. Yield the names."""
    begun: list[Mutant] = []

    def orders() -> Iterator[dict[str, Any]]:
        for mutant in chosen:
            if time.monotonic() >= until:
                return
            begun.append(mutant)
            folder = mutant.folder(root)
            yield {
                **order_of(mutant.subject.name, mutant.seed, folder, request),
                "operator": mutant.operator.name if mutant.operator else TWIN,
                "losses": str((folder / LOSSES).absolute()),
            }

    for outcome in trained_in_forks(orders(), family=all_families()[family]):
        mutant = begun[-1]
        outcome.write(mutant.folder(root))
        yield mutant.name


def train_missing(
    chosen: Sequence[Mutant], request: CaptureRequest, *, root: Path, processes: int, until: float = math.inf
) -> None:
    """Train what is not stored: by seed, the own programs first, then the others family by family.

    A mutant that has no effect, or raises, with one seed does not count: it is not trained with another.
    """
    stored = [each for each in chosen if Outcome.read(each.folder(root)) is not None]
    todo = [each for each in chosen if each not in set(stored)]
    idle = {(each.subject, each.operator) for each in stored if has_no_effect(each, root)}
    for (place, _), group in groupby(todo, key=lambda each: (_place(each), each.seed)):
        several = [each for each in group if (each.subject, each.operator) not in idle]
        if place == OWN_ALONE:
            warm()
            here = [(each, partial(train_here, each, request)) for each in several]
            train_each(here, root=root, processes=processes, until=until)
        elif time.monotonic() >= until:
            return
        elif not is_built(all_families()[place]):
            print(f"No environment: {place}. Build it first.", file=sys.stderr)
        else:
            for name in _train_elsewhere(several, request, family=place, root=root, until=until):
                print(name, flush=True)
        idle |= {(each.subject, each.operator) for each in several if has_no_effect(each, root)}


def _place(mutant: Mutant) -> str:
    program = mutant.subject.program
    return OWN_ALONE if isinstance(program, OwnProgram) else program.family


def add_choice(options: argparse.ArgumentParser) -> None:
    """Add the arguments by which mutants are chosen, the same for both commands."""
    options.add_argument("--half", choices=[TUNE, REPORT], help="one half; both by default")
    options.add_argument("--seeds", type=int, default=1, help="the number of seeds")
    options.add_argument(
        "--only", nargs="*", default=[], help="programs, libraries, operators or their families; `own`"
    )
    options.add_argument("--all", action="store_true", help="every program of both corpora, not the chosen ones alone")
    options.add_argument("--sample", type=int, help="as many mutants of each half, drawn by lot, with all seeds")
    options.add_argument("--draw", default="1", help="the lot: any text; another one draws other mutants (default 1)")
    add_place(options, root=ROOT)


def chosen_mutants(arguments: argparse.Namespace) -> list[Mutant]:
    """Return the trainings that the arguments of `add_choice` mean.

    Raises:
        ValueError: A word of `--only` is no name.
    """
    only = set(arguments.only)
    subjects = [each for each in all_subjects() if arguments.all or each.name in CHOSEN | only]
    operators = list(all_operators().values())
    of_subject = {word for each in all_subjects() for word in (each.name, each.library)} | {OWN_ALONE}
    of_operator = {word for each in operators for word in (each.name, each.family)}
    if unknown := only - of_subject - of_operator:
        raise ValueError(f"Neither a program, a library, an operator nor a family: {', '.join(sorted(unknown))}.")
    if words := only & of_subject:
        subjects = [
            each
            for each in subjects
            if words & {each.name, each.library} or (OWN_ALONE in words and isinstance(each.program, OwnProgram))
        ]
    if words := only & of_operator:
        operators = [each for each in operators if words & {each.name, each.family}]
    found = list(mutants(subjects, half=arguments.half, seeds=arguments.seeds, operators=operators))
    return found if arguments.sample is None else drawn(found, count=arguments.sample, draw=arguments.draw)


def main(words: Sequence[str] | None = None) -> int:
    """Train what is missing; 1 if something still is."""
    options = parser(__doc__)
    add_choice(options)
    options.add_argument("--minutes", type=float, default=math.inf, help="begin no training after that time")
    add_rest(options)
    arguments = options.parse_args(words)
    try:
        chosen = chosen_mutants(arguments)
    except ValueError as error:
        options.error(str(error))
    until = time.monotonic() + 60 * arguments.minutes
    request = usual_capture(budget=None if rests(arguments) else 1.0)
    train_missing(chosen, request, root=arguments.root, processes=arguments.processes, until=until)
    missing = unstored(chosen, arguments.root)
    print(f"{len(chosen) - len(missing)} of {len(chosen)} trainings stored, or known to have no effect")
    return 1 if missing else 0


def unstored(chosen: Sequence[Mutant], root: Path) -> list[Mutant]:
    """Return the trainings that are still to be made."""
    idle = {(each.subject, each.operator) for each in chosen if has_no_effect(each, root)}
    return [
        each for each in chosen if (each.subject, each.operator) not in idle and Outcome.read(each.folder(root)) is None
    ]


if __name__ == "__main__":
    sys.exit(main())
