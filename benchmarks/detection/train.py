"""Trains the programs of the corpus under Trackside's capture, and stores the runs.

    python -m benchmarks.detection.train --split tune --seeds 3 --processes 2
    python -m benchmarks.detection.train --split tune --only wine          # what holds this word
    python -m benchmarks.detection.train --split tune --harm               # do the faults harm, do clean runs learn?

Each training is a process of its own, forked from one that has imported PyTorch and loaded the data. A run that is
stored already is not trained again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import os
import shutil
import signal
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import torch

from benchmarks.detection import harm
from benchmarks.detection.capture import capture_request
from benchmarks.detection.corpus import checkpoints, data
from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.detection.corpus.program import REPORT, TUNE, Trained
from benchmarks.detection.stored_runs import ROOT, Job, Outcome, jobs
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter

LONGEST_SECONDS = 180  # a training that takes longer is given up


class Training(Protocol):
    """A training with a name and a folder of its own: a `Job`, or one of another corpus."""

    @property
    def name(self) -> str:
        """Unique among those that are trained together."""

    def folder(self, root: Path) -> Path:
        """Where it lies."""


Train = Callable[[Path], None]  # trains in this process, and stores run and outcome below a folder


def train(job: Job, folder: Path) -> Outcome:
    """Trains in this process, which is then no good for anything else, and stores what was captured below `folder`."""
    began = time.process_time()
    run = folder / "run"
    capture = watching(run, job.request)
    trained, error, score = None, "", None
    try:
        trained = job.program.train(job.seed, job.fault)
    except (ValueError, RuntimeError, ArithmeticError) as raised:  # what training that has gone wrong may end in
        error = f"{type(raised).__name__}: {raised}"
    finally:
        if capture:
            capture.uninstall()
    if trained is not None:
        score = trained.score()
    return Outcome(
        program=job.program.name,
        fault=job.fault,
        seed=job.seed,
        score=score if score is not None and abs(score) < float("inf") else None,
        effect_step=_effect_step(job, trained),
        seconds=time.process_time() - began,
        size_bytes=sum(path.stat().st_size for path in run.rglob("*") if path.is_file()),
        error=error,
    )


def watching(run: Path, request: str) -> PyTorchAdapter | None:
    """What `trackside run` does to a training process, in this one."""
    if not request:
        return None
    capture = PyTorchAdapter(
        CaptureEnvironment(run_uri=str(run.absolute()), capture_request=request, rank=0, world_size=1)
    )
    capture.install()
    return capture


def train_all(todo: Sequence[Job], *, root: Path, processes: int) -> list[str]:
    """Trains them, so many at once; returns the names of those that came to no end."""

    def of(job: Job) -> Train:
        return lambda folder: train(job, folder).write(folder)

    return train_each([(job, of(job)) for job in todo], root=root, processes=processes)


def train_each(
    todo: Sequence[tuple[Training, Train]], *, root: Path, processes: int, until: float = math.inf
) -> list[str]:
    """Trains them in forked processes, so many at once; returns the names of those that came to no end.

    None is begun after `until`, by the monotonic clock.
    """
    warm()
    waiting, running, failed = list(reversed(todo)), dict[int, tuple[Training, float]](), []
    while waiting or running:
        while waiting and len(running) < processes:
            if time.monotonic() >= until:
                waiting.clear()
                break
            job, work = waiting.pop()
            running[_fork(work, job.folder(root))] = (job, time.monotonic())
        if not running:
            break
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            _give_up_on([pid for pid, (_, since) in running.items() if time.monotonic() - since > LONGEST_SECONDS])
            time.sleep(0.01)
            continue
        job, _ = running.pop(pid)
        if status != 0:
            failed.append(job.name)
            print(f"{job.name}: no end, see {job.folder(root) / 'trouble.txt'}", flush=True)
    return failed


def warm() -> None:
    """Loads what all trainings need, without starting a thread: processes are forked from here."""
    torch.set_num_threads(1)
    data.warm()
    checkpoints.warm()
    importlib.import_module("torch.distributed.tensor")  # the capture looks for sharded parameters
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # the first optimizer of a process imports the compiler


def _fork(work: Train, folder: Path) -> int:
    """The id of a child that trains."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with (folder / "trouble.txt").open("w") as told, contextlib.redirect_stderr(told):
            warnings.simplefilter("ignore")  # of programs that are made to go wrong
            try:
                work(folder)
                status = 0
            except BaseException:  # noqa: BLE001 - the child must end here, whatever happened in it
                traceback.print_exc()
    finally:
        os._exit(status)


def _give_up_on(pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _effect_step(job: Job, trained: Trained | None) -> int | None:
    if not job.fault:
        return None
    begins = job.program.fault(job.fault).begins
    if begins is not None:
        return begins
    history = trained.history if trained else ()
    return min(history, key=lambda each: each.valid_loss).step if history else 0


def main(words: Sequence[str] | None = None) -> int:
    """Trains what is not there, says what it took; 1 if a training came to no end or, if asked, a fault is harmless."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_choice(options)
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--fresh", action="store_true", help="train again what is stored")
    options.add_argument("--bare", action="store_true", help="without capture: quicker, for --harm")
    options.add_argument("--harm", action="store_true", help="compare faulty runs with their clean twins")
    arguments = options.parse_args(words)
    chosen = chosen_jobs(arguments)
    todo = [job for job in chosen if arguments.fresh or Outcome.read(job.folder(arguments.root)) is None]
    began = time.perf_counter()
    failed = train_all(todo, root=arguments.root, processes=arguments.processes)
    found = [outcome for job in chosen if (outcome := Outcome.read(job.folder(arguments.root)))]
    print(f"{len(todo)} trained in {time.perf_counter() - began:.0f} s, {len(found)} of {len(chosen)} stored")
    if found:
        seconds, sizes = [each.seconds for each in found], [each.size_bytes for each in found]
        print(f"CPU: median {statistics.median(seconds):.2f} s, most {max(seconds):.1f} s, all {sum(seconds):.0f} s")
        print(f"disk: median {statistics.median(sizes) / 1e3:.0f} kB, all {sum(sizes) / 1e6:.0f} MB")
    harmless = harm.tell(found) if arguments.harm else False
    return 1 if failed or harmless else 0


def add_choice(options: argparse.ArgumentParser) -> None:
    """The arguments by which runs are chosen, the same for all commands."""
    options.add_argument("--split", choices=[TUNE, REPORT], default=TUNE)
    options.add_argument("--seeds", type=int, default=3, help="how many seeds of the split")
    options.add_argument("--only", nargs="*", default=[], help="programs and faults whose name holds one of these")
    options.add_argument("--interval", type=int, help="save tensors of all kinds every so many steps besides")
    options.add_argument("--budget", type=float, default=1.0, help="what the always-on statistics may cost")
    options.add_argument("--root", type=Path, default=ROOT)


def chosen_jobs(arguments: argparse.Namespace) -> list[Job]:
    """The trainings that are meant."""
    is_watched = not getattr(arguments, "bare", False)
    request = capture_request(interval=arguments.interval, budget=arguments.budget).to_json() if is_watched else ""
    found = jobs(list(all_programs().values()), split=arguments.split, seeds=arguments.seeds, request=request)
    return [job for job in found if not arguments.only or any(word in job.name for word in arguments.only)]


if __name__ == "__main__":
    sys.exit(main())
