"""Does `trackside compare --max-step-time` find a slow-down of 8 %, and is it silent without one, on this machine?

    python -m benchmarks.speed_gate record --runs 24        # trains a program, and the same with 8 % more work
    python -m benchmarks.speed_gate judge                   # 20 comparisons of each kind, of 1 to 5 runs a side

Both programs are the same small network; the second one multiplies matrices for 8 % of its step's time besides. That
number of products is measured once, before the first run. Each run is a forked process with the capture of
`trackside run`. The two kinds alternate, so that both meet the same load.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.detection.train import Train, train_each, watching
from benchmarks.kept import read_outcome, write_json, write_outcome
from benchmarks.wild.run import default_plan
from trackside.local.comparison import ComparedRun
from trackside.local.recorded_run import read_run
from trackside.local.step_times import timed_run
from trackside.performance.step_time_gate import GateVerdict, TimedRun, judge_step_time, waiting_share
from trackside.trial.trial import open_trial

ROOT = Path("build/speed-gate")
PLAN = "plan.json"
PLANTED = 0.08
STEPS = 600
BATCH = 64
LIMIT = 0.05


@dataclass(frozen=True)
class Trained:
    """A training that came to its end."""

    seconds: float


@dataclass(frozen=True)
class Run:
    """One training: `plain` or `slower`, and its number."""

    kind: str
    number: int
    products: int

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.number:02d}"

    def folder(self, root: Path) -> Path:
        """Where the run lies."""
        return root / self.kind / f"{self.number:02d}"


class Program:
    """The training: one step at each call."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.images, self.labels = torch.randn(BATCH, 64), torch.randint(0, 10, (BATCH,))
        self.matrix = torch.randn(32, 32)

    def step(self, products: int) -> None:
        """Take a step, after so many products of matrices."""
        for _ in range(products):
            torch.mm(self.matrix, self.matrix)
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self.images), self.labels).backward()
        self.optimizer.step()


def products_of(share: float) -> int:
    """Return the number of products that take this share of a step, by the quickest of many."""
    program = Program()
    many = 20
    quickest = {count: float("inf") for count in (0, many)}
    for _ in range(1500):
        for count, before in quickest.items():
            began = time.thread_time()
            program.step(count)
            quickest[count] = min(before, time.thread_time() - began)
    return max(1, round(share * quickest[0] / ((quickest[many] - quickest[0]) / many)))


def training_of(run: Run) -> Train:
    """Return the function that trains in a process of its own."""

    def work(folder: Path) -> None:
        capture = watching(folder / "run", default_plan().capture.to_json())
        began = time.monotonic()
        program = Program()
        for _ in range(STEPS):
            program.step(run.products)
        if capture:
            capture.uninstall()
        write_outcome(Trained(time.monotonic() - began), folder)

    return work


def record(root: Path, *, runs: int) -> None:
    """Train what is missing, one at a time."""
    torch.set_num_threads(1)
    plan = root / PLAN
    if not plan.exists():
        root.mkdir(parents=True, exist_ok=True)
        write_json(plan, {"products": products_of(PLANTED)})
    products = json.loads(plan.read_text(encoding="utf-8"))["products"]
    chosen = [
        Run(kind, number, products if kind == "slower" else 0) for number in range(runs) for kind in ("plain", "slower")
    ]
    todo = [(run, training_of(run)) for run in chosen if read_outcome(Trained, run.folder(root)) is None]
    failed = train_each(todo, root=root, processes=1)
    print(f"{len(todo)} trained, {len(failed)} without an end; planted: {products} products")


def timed(root: Path, run: Run) -> TimedRun:
    """Return the steps of a stored run."""
    uri = str((run.folder(root) / "run").absolute())
    return timed_run(ComparedRun(read_run(uri), open_trial(uri)))


def judge(root: Path, *, runs: range, comparisons: int) -> None:
    """Print how many comparisons of equal and of slower programs were called slower, by the number of runs a side."""
    plain, slower = ([timed(root, Run(kind, number, 0)) for number in runs] for kind in ("plain", "slower"))
    waiting = [share for run in (*plain, *slower) if (share := waiting_share(run)) is not None]
    print(f"{len(plain)} runs of each kind; without a processor: {min(waiting):.0%} to {max(waiting):.0%} of a run")
    walls = np.log([np.median(run.seconds) for run in plain])
    steps = np.log([step.milliseconds for step in judge_step_time(plain, slower, limit=LIMIT).before])
    print(f"deviation from run to run: {np.std(walls, ddof=1):.1%} of the clock, {np.std(steps, ddof=1):.1%} as judged")
    print("| runs a side | equal: within, undecided, slower | 8 % more work: within, undecided, slower |")
    print("|---|---|---|")
    draw = random.Random(21)  # noqa: S311 - a sample
    for count in range(1, len(plain) // 2 + 1):
        cells = []
        for others in (plain, slower):
            found: Counter[GateVerdict] = Counter()
            for _ in range(comparisons):
                chosen = draw.sample(plain, 2 * count)
                later = chosen[count:] if others is plain else draw.sample(slower, count)
                found[judge_step_time(chosen[:count], later, limit=LIMIT).verdict] += 1
            cells.append(
                ", ".join(str(found[v]) for v in (GateVerdict.WITHIN, GateVerdict.UNDECIDED, GateVerdict.SLOWER))
            )
        print(f"| {count} | {cells[0]} | {cells[1]} |")


def main() -> int:
    """Record or judge."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("act", choices=["record", "judge"])
    options.add_argument("--runs", type=int, default=24, help="runs of each kind")
    options.add_argument("--first", type=int, default=0, help="judge the runs from this number on")
    options.add_argument("--comparisons", type=int, default=20, help="of each kind")
    options.add_argument("--root", type=Path, default=ROOT)
    arguments = options.parse_args()
    if arguments.act == "record":
        record(arguments.root, runs=arguments.runs)
    else:
        judge(arguments.root, runs=range(arguments.first, arguments.runs), comparisons=arguments.comparisons)
    return 0


if __name__ == "__main__":
    sys.exit(main())
