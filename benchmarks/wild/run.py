"""Trains the programs of the corpus, and stores the runs.

    python -m benchmarks.wild.run                        # one seed of each program with an environment
    python -m benchmarks.wild.run --seeds 3 --warm
    python -m benchmarks.wild.run --only peft vit-digits # of these families, libraries or programs

Each training is a process of its own in an empty folder, with the capture of `trackside run` without any option. By
default `trackside run` starts it, as a user would, and judges it while it trains. With `--warm` it is a fork of a
process with the libraries imported, which takes a fifth of the time; rules judge it afterwards. A run that is stored
already is not trained again. Build the environments first: `python -m benchmarks.wild.environments build`.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.engine.forks import empty
from benchmarks.engine.options import parser
from benchmarks.engine.stored import RUN, Outcome
from benchmarks.engine.usual import usual_capture
from benchmarks.wild.environments import FRAMEWORKS, is_built, python_of
from benchmarks.wild.program import FAMILIES, REPORT, TORCH, TUNE, Family, Program, all_families, all_programs
from trackside.capture.statistics import rest
from trackside.contracts.capture_request import CaptureRequest, capture_environment
from trackside.environment import inherited

RUNS = Path("build/wild/runs")
OUTPUT = "output.txt"
LONGEST_SECONDS = 900  # of the clock: a training that takes longer is ended
SURROUNDINGS = {
    # One thread: two trainings on two cores must not wait for one another.
    "OMP_NUM_THREADS": "1",
    # Nothing but the package index can be reached, and no library may try for minutes.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "YOLO_OFFLINE": "true",
    "MPLBACKEND": "Agg",
    "TOKENIZERS_PARALLELISM": "false",
}
LAUNCHER = Path(__file__).with_name("launch.py").resolve()


@dataclass(frozen=True)
class Job:
    """One training: a program and a seed."""

    program: Program
    seed: int

    @property
    def name(self) -> str:
        return f"{self.program.family}/{self.program.name}/{self.seed}"

    def folder(self, root: Path) -> Path:
        """Return the folder of this training, which may not exist."""
        return root / self.program.family / self.program.name / f"{self.seed}-{_digest(self.program)}"


def jobs(programs: Iterable[Program], *, seeds: int) -> Iterator[Job]:
    """Yield every training, all programs by the first seed before any by the second."""
    chosen = list(programs)
    yield from (Job(program, seed) for seed in range(seeds) for program in chosen)


def _digest(program: Program) -> str:
    """Return a digest of the program, the file around it without its other programs, and the lock file."""
    family = all_families()[program.family]
    text = (FAMILIES / f"{program.family}.py").read_text(encoding="utf-8")
    text = re.sub(r"imports=\([^)]*\)", "", text, count=1)  # when they are imported changes nothing
    for other in family.programs.values():
        if other != program:
            text = text.replace(inspect.getsource(other.train), "")
    lock = family.lock.read_text(encoding="utf-8") if family.lock.exists() else ""
    return hashlib.sha256(f"{text}\n{lock}".encode()).hexdigest()[:12]


def train(job: Job, folder: Path, *, python: Path) -> Outcome:
    """Train one program under `trackside run`, and store run and output below `folder`.

    Args:
        job: The program and its seed.
        folder: A folder for this training; its content is deleted first.
        python: The interpreter of the program's environment.

    Returns:
        The outcome, which is stored too.
    """
    empty(folder)
    run = str((folder / RUN).absolute())
    # A critical issue must not look like a training that failed.
    trackside = [sys.executable, "-m", "trackside", "run", "--fail-on", "never", "--out", run]
    training = [str(python), str(LAUNCHER), job.program.family, job.program.name, str(job.seed)]
    spent = _children_seconds()
    with tempfile.TemporaryDirectory() as work, (folder / OUTPUT).open("wb") as output:
        process = subprocess.Popen(
            [*trackside, "--", *training],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**inherited(), **SURROUNDINGS},
        )
        try:
            status = process.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # `trackside run` passes it on, and kills what is left after its grace
            status = process.wait()
    outcome = Outcome(status, seconds=round(_children_seconds() - spent, 2), by="trackside run")
    outcome.write(folder)
    return outcome


def train_warm(chosen: Sequence[tuple[Job, Path]], *, family: Family) -> Iterator[Outcome]:
    """Train programs of one family one after the other, each in a fork of one process, and store their runs.

    Args:
        chosen: Each training with its folder.
        family: The family of them all.

    Yields:
        The outcome of each, which is stored too.
    """
    orders = (order_of(job.program.name, job.seed, folder) for job, folder in chosen)
    for (_, folder), outcome in zip(chosen, trained_in_forks(orders, family=family), strict=True):
        outcome.write(folder)
        yield outcome


def order_of(program: str, seed: int, folder: Path, capture: CaptureRequest | None = None) -> dict[str, Any]:
    """Return what the launcher needs for a training below `folder`, which is emptied."""
    empty(folder)
    run = str((folder / RUN).absolute())
    return {
        "program": program,
        "seed": seed,
        "environment": dict(capture_environment(run, capture or usual_capture())),
        "output": str((folder / OUTPUT).absolute()),
        "first_watched": (rest.FIRST_WATCHED, rest.FEWEST_WATCHED),
    }


def trained_in_forks(orders: Iterable[Mapping[str, Any]], *, family: Family) -> Iterator[Outcome]:
    """Train one after the other in forks of one process of the family's environment. Yield each outcome."""
    command = [str(python_of(family)), str(LAUNCHER), family.name, "--warm"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**inherited(), **SURROUNDINGS}
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for order in orders:
            server.stdin.write(json.dumps(order) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline() or '{"status": 1, "seconds": 0.0}')
            yield Outcome(answer["status"], seconds=answer["seconds"])
        server.stdin.close()


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def chosen_programs(arguments: argparse.Namespace) -> list[Program]:
    """Return the programs that the arguments of `add_choice` mean."""
    return [
        each
        for each in all_programs(arguments.framework)
        if (not arguments.split or each.split == arguments.split)
        and (not arguments.only or set(arguments.only) & {each.family, each.library, each.name})
    ]


def add_choice(options: argparse.ArgumentParser) -> None:
    """Add the arguments by which runs are chosen, the same for all commands."""
    options.add_argument("--framework", choices=tuple(FRAMEWORKS), default=TORCH)
    options.add_argument("--split", choices=[TUNE, REPORT], help="one half of the corpus")
    options.add_argument("--seeds", type=int, default=1, help="the number of seeds, from 0")
    options.add_argument("--only", nargs="*", default=[], help="families, libraries or programs")
    options.add_argument("--root", type=Path, default=RUNS)


def _missing(chosen: Iterable[Job], root: Path, *, fresh: bool) -> Iterator[tuple[Job, Path]]:
    for job in chosen:
        folder = job.folder(root)
        before = Outcome.read(folder)
        if fresh or before is None or before.status != 0:
            yield job, folder


def _each(
    todo: Iterable[tuple[Job, Path]], families: Mapping[str, Family], *, is_warm: bool
) -> Iterator[tuple[Job, Outcome]]:
    """Train, family by family for each seed."""
    for name, group in groupby(todo, key=lambda each: each[0].program.family):
        chosen = list(group)
        if is_warm:
            yield from zip((job for job, _ in chosen), train_warm(chosen, family=families[name]), strict=True)
        else:
            for job, folder in chosen:
                yield job, train(job, folder, python=python_of(families[name]))


def main(words: Sequence[str] | None = None) -> int:
    """Train what is missing; 1 if a training failed or has no environment."""
    options = parser(__doc__)
    add_choice(options)
    options.add_argument("--warm", action="store_true", help="in forks of a process with the libraries imported")
    options.add_argument("--fresh", action="store_true", help="train again what is stored")
    arguments = options.parse_args(words)
    families = all_families()
    programs = chosen_programs(arguments)
    lacking = {each.family for each in programs if not is_built(families[each.family])}
    ready = [each for each in programs if each.family not in lacking]
    todo = _missing(jobs(ready, seeds=arguments.seeds), arguments.root, fresh=arguments.fresh)
    failed = []
    for job, outcome in _each(todo, families, is_warm=arguments.warm):
        print(f"{job.name}: code {outcome.status}, {outcome.seconds:.1f} s of processor", flush=True)
        if outcome.status != 0:
            failed.append(job.name)
    if lacking:
        print(f"No environment: {', '.join(sorted(lacking))}. Build it first.", file=sys.stderr)
    if failed:
        print(f"Failed: {', '.join(failed)}. See {OUTPUT} in the folder of each.", file=sys.stderr)
    return 1 if failed or lacking else 0


if __name__ == "__main__":
    sys.exit(main())
