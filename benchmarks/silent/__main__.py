"""Which silent errors of TrainCheck's list are found without a reference run?

    python -m benchmarks.silent                       # all, each beside its clean twin: some minutes
    python -m benchmarks.silent --only shared-seed

Each program trains in a forked process under capture, two ranks in two, and is judged by the rules as they are by
default. A table is printed: findings of the faulty program beyond those of its twin, and those of the twin.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from benchmarks.engine.forks import empty, forked, warm, watched
from benchmarks.engine.judge import judge
from benchmarks.engine.options import parser
from benchmarks.engine.stored import RUN
from benchmarks.engine.usual import whole_capture
from benchmarks.silent.programs import ON_TWO_RANKS, PROGRAMS
from trackside.contracts.verdict import Severity

ROOT = Path("build/silent")


def train(name: str, folder: Path, *, is_faulty: bool) -> None:
    """Train a program in one process for each rank, and store its run below `folder`."""
    empty(folder)
    ranks = 2 if name in ON_TWO_RANKS else 1
    children = [
        forked(partial(_run, name, folder, rank, ranks, is_faulty=is_faulty), trouble=folder / f"trouble-{rank}.txt")
        for rank in range(ranks)
    ]
    states = [os.waitpid(child, 0)[1] for child in children]  # of all: none is left behind
    if any(states):
        raise RuntimeError(f"{name} came to no end: see {folder}/trouble-0.txt")


def _run(name: str, folder: Path, rank: int, ranks: int, *, is_faulty: bool) -> None:
    if ranks > 1:
        where = f"file://{folder.absolute()}/meeting"
        torch.distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks)
    with watched(folder / RUN, whole_capture().to_json(), rank=rank, ranks=ranks):
        torch.manual_seed(0)
        os.chdir(folder)  # for what it saves
        PROGRAMS[name](is_faulty)
    if ranks > 1:
        torch.distributed.barrier()


def issues(folder: Path) -> dict[str, Severity]:
    """Return the severity of each rule with a warning or worse on a stored run."""
    return {alarm.rule: alarm.severity for alarm in judge(folder / RUN).at_least(Severity.WARNING)}


def main(words: Sequence[str] | None = None) -> int:
    """Train and judge the programs, and print the table. Return 1 if a clean twin has an issue."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="*", default=list(PROGRAMS), help="names of programs")
    options.add_argument("--root", type=Path, default=ROOT)
    arguments = options.parse_args(words)
    warm()
    print("| program | found beyond the clean twin | the clean twin |\n|---|---|---|")
    is_alarmed = False
    for name in arguments.only:
        of = {}
        for state in ("clean", "faulty"):
            folder = arguments.root / name / state
            train(name, folder, is_faulty=state == "faulty")
            of[state] = issues(folder)
        beyond = [f"{rule} ({severity.value})" for rule, severity in of["faulty"].items() if rule not in of["clean"]]
        print(f"| {name} | {', '.join(beyond) or 'nothing'} | {', '.join(of['clean']) or 'nothing'} |", flush=True)
        is_alarmed |= bool(of["clean"])
    return int(is_alarmed)


if __name__ == "__main__":
    sys.exit(main())
