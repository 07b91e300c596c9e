"""Trains the programs of the corpus under Trackside's capture, and stores the runs.

    python -m benchmarks.detection.train --split tune --seeds 3 --processes 2
    python -m benchmarks.detection.train --split tune --only wine          # what holds this word
    python -m benchmarks.detection.train --split tune --harm               # do the faults harm, do clean runs learn?

Each training is a process of its own, forked from one that has imported PyTorch and loaded the data. A run that is
stored already is not trained again. It lies in `<root>/<program>/<fault or "clean">/<seed>-<key>/run`. The key covers
the code of the program, what it is built of and what was captured; it does not cover Trackside itself, so that
`--fresh` is needed after the capture has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch

from benchmarks.detection import harm
from benchmarks.detection.corpus import checkpoints, data
from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.detection.corpus.program import REPORT, SEEDS, TUNE, Program, Trained
from benchmarks.engine.forks import train_each, watched
from benchmarks.engine.options import add_place, add_rest, parser, rests
from benchmarks.engine.stored import RUN, Outcome, missing_of, stored_of
from benchmarks.engine.usual import usual_capture, whole_capture

ROOT = Path("build/detection")
CLEAN = "clean"
_CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Job:
    """One training: a program, the fault planted in it ("" for none), a seed, and what is captured (JSON)."""

    program: Program
    fault: str
    seed: int
    request: str

    @property
    def name(self) -> str:
        return f"{self.program.name}/{self.fault or CLEAN}/{self.seed}"

    def folder(self, root: Path) -> Path:
        """Return the folder of this very training."""
        text = "\n".join([_code_digest(self.program.module), torch.__version__, self.request])
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        return root / self.program.name / (self.fault or CLEAN) / f"{self.seed}-{key}"


def jobs(programs: Iterable[Program], *, split: str, seeds: int, request: str) -> Iterator[Job]:
    """Yield every training of a split: each program clean and with each of its faults, by the split's first seeds."""
    for program in programs:
        if program.split == split:
            for fault in ("", *(fault.name for fault in program.faults)):
                yield from (Job(program, fault, seed, request) for seed in SEEDS[split][:seeds])


@cache
def _code_digest(module: str) -> str:
    """Return a digest of a program's own file and of all that programs share."""
    own = _CORPUS / "programs" / f"{module.rpartition('.')[2]}.py"
    digest = hashlib.sha256()
    for path in sorted([*_CORPUS.glob("*.py"), *(_CORPUS / "planted").glob("*.py"), own]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def train(job: Job, folder: Path) -> Outcome:
    """Train in this process, which is then no good for anything else, and store run and outcome below `folder`."""
    began, run = time.process_time(), folder / RUN
    trained, error, score = None, "", None
    try:
        with watched(run, job.request):
            trained = job.program.train(job.seed, job.fault)
    except (ValueError, RuntimeError, ArithmeticError) as raised:  # what training that has gone wrong may end in
        error = f"{type(raised).__name__}: {raised}"
    if trained is not None:
        score = trained.score()
    outcome = Outcome(
        score=score if score is not None and abs(score) < float("inf") else None,
        effect_step=_effect_step(job, trained),
        seconds=time.process_time() - began,
        size_bytes=sum(path.stat().st_size for path in run.rglob("*") if path.is_file()),
        error=error,
    )
    outcome.write(folder)
    return outcome


def train_all(todo: Sequence[Job], *, root: Path, processes: int) -> list[str]:
    """Train them, so many at once; return the names of those that came to no end."""
    warm()
    return train_each([(job, partial(train, job)) for job in todo], root=root, processes=processes)


def warm() -> None:
    """Load the data that programs of the corpus share."""
    data.warm()
    checkpoints.warm()


def _effect_step(job: Job, trained: Trained | None) -> int | None:
    if not job.fault:
        return None
    begins = job.program.fault(job.fault).begins
    if begins is not None:
        return begins
    history = trained.history if trained else ()
    return min(history, key=lambda each: each.valid_loss).step if history else 0


def add_choice(options: argparse.ArgumentParser) -> None:
    """Add the arguments by which runs are chosen, the same for all commands."""
    options.add_argument("--split", choices=[TUNE, REPORT], default=TUNE)
    options.add_argument("--seeds", type=int, default=3, help="how many seeds of the split")
    options.add_argument("--only", nargs="*", default=[], help="programs and faults whose name holds one of these")
    add_place(options, root=ROOT, processes=2)
    add_rest(options)


def chosen_jobs(arguments: argparse.Namespace) -> list[Job]:
    """Return the trainings that are meant. With `--rest-after` this process and its forks let a training rest."""
    captured = usual_capture() if rests(arguments) else whole_capture()
    request = "" if getattr(arguments, "bare", False) else captured.to_json()
    found = jobs(all_programs().values(), split=arguments.split, seeds=arguments.seeds, request=request)
    return [job for job in found if not arguments.only or any(word in job.name for word in arguments.only)]


def main(words: Sequence[str] | None = None) -> int:
    """Train what is not there, say what it took; 1 if a training came to no end or, if asked, a fault is harmless."""
    options = parser(__doc__)
    add_choice(options)
    options.add_argument("--fresh", action="store_true", help="train again what is stored")
    options.add_argument("--bare", action="store_true", help="without capture: quicker, for --harm")
    options.add_argument("--harm", action="store_true", help="compare faulty runs with their clean twins")
    arguments = options.parse_args(words)
    chosen = chosen_jobs(arguments)
    todo = chosen if arguments.fresh else missing_of(chosen, arguments.root)
    began = time.perf_counter()
    failed = train_all(todo, root=arguments.root, processes=arguments.processes)
    found = [(job, outcome) for job, folder in stored_of(chosen, arguments.root) if (outcome := Outcome.read(folder))]
    print(f"{len(todo)} trained in {time.perf_counter() - began:.0f} s, {len(found)} of {len(chosen)} stored")
    if found:
        seconds, sizes = [each.seconds for _, each in found], [each.size_bytes for _, each in found]
        print(f"CPU: median {statistics.median(seconds):.2f} s, most {max(seconds):.1f} s, all {sum(seconds):.0f} s")
        print(f"disk: median {statistics.median(sizes) / 1e3:.0f} kB, all {sum(sizes) / 1e6:.0f} MB")
    return 1 if failed or (arguments.harm and harm.tell(found)) else 0


if __name__ == "__main__":
    sys.exit(main())
