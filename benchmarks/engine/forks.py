"""Trainings in processes of their own, forked from one that has imported PyTorch, under Trackside's capture."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from benchmarks.engine.stored import Training
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter

LONGEST_SECONDS = 180  # a training that takes longer is given up
TROUBLE = "trouble.txt"  # what a training printed on stderr
_Training = TypeVar("_Training", bound=Training)
Train = Callable[[Path], object]  # trains in this process, and stores run and outcome below a folder


@contextlib.contextmanager
def watched(run: Path, request: str, *, rank: int = 0, ranks: int = 1) -> Iterator[None]:
    """Do to this process what `trackside run` does to a training; nothing without a request (JSON)."""
    if not request:
        yield
        return
    capture = PyTorchAdapter(
        CaptureEnvironment(run_uri=str(run.absolute()), capture_request=request, rank=rank, world_size=ranks)
    )
    capture.install()
    try:
        yield
    finally:
        capture.uninstall()


def warm() -> None:
    """Load what all trainings need, without starting a thread: processes are forked from here."""
    torch.set_num_threads(1)
    importlib.import_module("torch.distributed.tensor")  # the capture looks for sharded parameters
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # the first optimizer of a process imports the compiler


def train_each(
    todo: Sequence[tuple[_Training, Train]],
    *,
    root: Path,
    processes: int = 1,
    until: float = math.inf,
    told: Callable[[_Training], object] = lambda _: None,
) -> list[str]:
    """Train in forked processes, each with an empty folder.

    Args:
        todo: Trainings, and the function that makes each.
        root: Folder of all.
        processes: Number of them at once.
        until: Begin none after that time of the monotonic clock.
        told: Is given each training that has come to its end.

    Returns:
        The names of those that came to no end.
    """
    warm()
    waiting, running, failed = list(reversed(todo)), dict[int, tuple[_Training, float]](), []
    while waiting or running:
        while waiting and len(running) < processes:
            if time.monotonic() >= until:
                waiting.clear()
                break
            training, train = waiting.pop()
            running[_fork(train, training.folder(root))] = (training, time.monotonic())
        if not running:
            break
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            for late in [pid for pid, (_, since) in running.items() if time.monotonic() - since > LONGEST_SECONDS]:
                os.kill(late, signal.SIGKILL)
            time.sleep(0.01)
            continue
        training, _ = running.pop(pid)
        if status == 0:
            told(training)
        else:
            failed.append(training.name)
            print(f"{training.name}: no end, see {training.folder(root) / TROUBLE}", flush=True)
    return failed


def _fork(train: Train, folder: Path) -> int:
    """Return the id of a child that trains."""
    empty(folder)
    return forked(lambda: train(folder), trouble=folder / TROUBLE)


def forked(work: Callable[[], object], *, trouble: Path) -> int:
    """Return the id of a child that works, and ends with 0 unless that raised; its stderr goes into a file."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with trouble.open("w") as told, contextlib.redirect_stderr(told):
            warnings.simplefilter("ignore")  # of programs that are made to go wrong
            try:
                work()
                status = 0
            except BaseException:  # noqa: BLE001 - the child must end here, whatever happened in it
                traceback.print_exc()
    finally:
        os._exit(status)


def empty(folder: Path) -> None:
    """Make a folder, without what is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
