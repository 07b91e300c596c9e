"""Does `trackside compare --max-step-time` find a slow-down of 8 %, and is it silent without one, on this machine?

    python -m benchmarks.speed_gate --runs 5 --minutes 12 --write docs/profiling.md

It trains and judges 20 separate pairs of each kind, each with runs of its own: the program beside itself, and
beside those with more work. The four take turns. Each pair is printed as it ends. None begins that would end after
the limit, and the table has those that were made. The work is 8 % of the quick step of three runs before, as the gate
reads it.

All programs are the same small network; those with more work multiply matrices for 8 % of its step's time besides: one
before its forward pass, the other in equal parts there, within the backward pass and within the optimizer's step. That
number of products is measured once, before the first run. Each run is a forked process with the capture of
`trackside run`. The kinds alternate, so that all meet the same load.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.engine.documents import write_json
from benchmarks.engine.forks import train_each, watched
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.engine.stored import RUN, Outcome, missing_of
from benchmarks.engine.usual import usual_capture
from benchmarks.times import machine
from trackside.runs.recorded_run import read_run
from trackside.speed.performance.step_time_gate import Gate, GateVerdict, TimedRun, judge_step_time, waiting_share
from trackside.trial.trial import open_trial
from trackside.views.comparing.comparison import ComparedRun
from trackside.views.comparing.step_times import timed_run

ROOT = Path("build/speed-gate")
PLAN = "plan.json"
PLANTED = 0.08
STEPS = 600
BATCH = 64
LIMIT = 0.05
KINDS = ("before", "equal", "slower", "everywhere")
MORE = KINDS[2:]
NAMES = {"equal": "equal programs", "slower": "8 % more, in one phase", "everywhere": "8 % more, in all phases"}
START, END = "<!-- measured by `python -m benchmarks.speed_gate` -->", "<!-- /speed_gate -->"


@dataclass(frozen=True)
class Run:
    """A run of a pair: `before`, `equal`, `slower` or `everywhere`."""

    pair: int
    turn: int
    kind: str
    products: int

    @property
    def name(self) -> str:
        return f"{self.pair:02d}/{self.turn}-{self.kind}"

    def folder(self, root: Path) -> Path:
        """Where the run lies."""
        return root / self.name


class Program:
    """The training: one step at each call.

    Args:
        everywhere: Products of matrices in the backward pass, and in the optimizer's step.
    """

    def __init__(self, everywhere: int = 0) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.images, self.labels = torch.randn(BATCH, 64), torch.randint(0, 10, (BATCH,))
        self.matrix = torch.randn(32, 32)
        self.everywhere = everywhere
        self.optimizer.register_step_pre_hook(lambda *_: self.multiply(self.everywhere))

    def step(self, products: int) -> None:
        """Take a step, after so many products of matrices."""
        self.multiply(products)
        self.optimizer.zero_grad()
        output = self.model(self.images)
        output.register_hook(lambda _: self.multiply(self.everywhere))
        nn.functional.cross_entropy(output, self.labels).backward()
        self.optimizer.step()

    def multiply(self, products: int) -> None:
        """Multiply matrices so many times."""
        with torch.no_grad():
            for _ in range(products):
                torch.mm(self.matrix, self.matrix)


def products_of(share: float, *, step_seconds: float) -> int:
    """Return the number of products that take this share of a step of so many seconds, by the quickest of many."""
    program = Program()
    many = 20
    quickest = {count: float("inf") for count in (0, many)}
    for _ in range(1500):
        for count, before in quickest.items():
            began = time.thread_time()
            program.step(count)
            quickest[count] = min(before, time.thread_time() - began)
    return max(1, round(share * step_seconds / ((quickest[many] - quickest[0]) / many)))


def train(run: Run, folder: Path) -> None:
    """Train in this process."""
    with watched(folder / RUN, usual_capture().to_json()):
        began = time.monotonic()
        each = run.products // 3 if run.kind == "everywhere" else 0
        program = Program(each)
        for _ in range(STEPS):
            program.step(run.products - 2 * each)
    Outcome(seconds=time.monotonic() - began).write(folder)


def timed(root: Path, run: Run) -> TimedRun:
    """Return the steps of a stored run."""
    uri = str((run.folder(root) / RUN).absolute())
    return timed_run(ComparedRun(read_run(uri), open_trial(uri)))


@dataclass(frozen=True)
class JudgedPair:
    """The verdicts on the programs of one pair, by kind, and the largest share of a run without a processor."""

    gates: Mapping[str, Gate]
    waiting: float


def judge_pairs(root: Path, *, pairs: int, runs: int, until: float) -> list[JudgedPair]:
    """Train what is missing of pairs, until it is too late for another one, and judge them."""
    torch.set_num_threads(1)
    longest, started, found = 0.0, time.monotonic(), list[JudgedPair]()
    first = [Run(0, turn, "first", 0) for turn in range(3)]
    train_missing(first, root)
    of_first = [timed(root, run) for run in first]
    step = min(one.milliseconds for one in judge_step_time(of_first, of_first, limit=LIMIT).before) / 1000
    plan = root / PLAN
    if not plan.exists():
        write_json(plan, {"products": products_of(PLANTED, step_seconds=step)})
    products = json.loads(plan.read_text(encoding="utf-8"))["products"]
    print(f"a step of {1000 * step:.3f} ms; planted: {products} products", flush=True)
    for pair in range(pairs):
        began = time.monotonic()
        if began + longest > until:
            break
        turns = [
            Run(pair, turn, kind, products if kind in MORE else 0)
            for turn in range(runs)
            for kind in (KINDS if turn % 2 == 0 else reversed(KINDS))
        ]
        train_missing(turns, root)
        by_kind = {kind: [timed(root, run) for run in turns if run.kind == kind] for kind in KINDS}
        gates = {kind: judge_step_time(by_kind["before"], by_kind[kind], limit=LIMIT) for kind in KINDS[1:]}
        waiting = [share for side in by_kind.values() for run in side if (share := waiting_share(run)) is not None]
        found.append(JudgedPair(gates, max(waiting, default=float("nan"))))
        longest = max(longest, time.monotonic() - began)
        print(
            f"pair {pair + 1} of {pairs}, {time.monotonic() - started:.0f} s, load {os.getloadavg()[0]:.1f}: "
            f"{'; '.join(f'{kind} {in_words(gate)}' for kind, gate in gates.items())}; "
            f"{found[-1].waiting:.0%} without a processor",
            flush=True,
        )
    return found


def train_missing(runs: Sequence[Run], root: Path) -> list[str]:
    """Train the runs that are not stored, one at a time; return the names of those without an end."""
    return train_each([(run, partial(train, run)) for run in missing_of(runs, root)], root=root)


def in_words(gate: Gate) -> str:
    """Return an answer with its change and interval."""
    if gate.change is None or gate.low is None or gate.high is None:
        return f"{gate.verdict.value}: {'; '.join(gate.reasons)}"
    by = gate.compared[0].measure.value
    return f"{gate.verdict.value} ({gate.change:+.1%}, {gate.low:+.1%} to {gate.high:+.1%}, {by})"


def pair_lines(found: Sequence[JudgedPair], *, runs: int) -> Iterator[str]:
    """Yield the table."""
    verdicts = (GateVerdict.WITHIN, GateVerdict.UNDECIDED, GateVerdict.SLOWER)
    yield f"| {len(found)} pairs, {runs} runs a side in turns | within | undecided | slower | change: median, range |"
    yield "|---|---|---|---|---|"
    for kind, name in NAMES.items():
        gates = [pair.gates[kind] for pair in found]
        counts = Counter(gate.verdict for gate in gates)
        changes = [gate.change for gate in gates if gate.change is not None]
        spread = f"{np.median(changes):+.1%}, {min(changes):+.1%} to {max(changes):+.1%}" if changes else "none"
        yield f"| {name} | {' | '.join(str(counts[verdict]) for verdict in verdicts)} | {spread} |"
    waiting = [pair.waiting for pair in found]
    yield ""
    units = Counter(
        gate.compared[0].measure
        for pair in found
        for kind, gate in pair.gates.items()
        if kind == "slower" and gate.verdict is GateVerdict.SLOWER
    )
    by = ", ".join(f"{number} by {measure.value}" for measure, number in units.most_common())
    yield (
        f"Of the work in one phase were found: {by or 'none'}. Without a processor, the run of each pair that had it "
        f"least: {min(waiting):.0%} to {max(waiting):.0%} of its time (median {np.median(waiting):.0%}). Load of the "
        f"machine {os.getloadavg()[0]:.1f} at the end. {machine()}"
    )


def main() -> int:
    """Train, judge, and print or write the table."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=4, help="runs of each kind in a pair")
    options.add_argument("--root", type=Path, default=ROOT)
    options.add_argument("--pairs", type=int, default=20, help="separate pairs of each kind")
    options.add_argument("--into", type=Path, metavar="FOLDER", help="of pairs begun before: make those that it lacks")
    options.add_argument("--minutes", type=float, default=12.0, help="no pair begins that would end later")
    options.add_argument("--write", type=Path, metavar="PAGE", help="write the table into a page")
    arguments = options.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    folder = arguments.into or arguments.root / time.strftime("pairs-%Y%m%d-%H%M%S")
    found = judge_pairs(folder, pairs=arguments.pairs, runs=arguments.runs, until=until)
    text = "\n".join(pair_lines(found, runs=arguments.runs)) if found else "No pair was made within the limit."
    put(text, arguments.write if found else None, begin=START, end=END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
