"""What capture costs a PyTorch training, measured within one process: blocks of steps with it and without take turns.

    python -m benchmarks.blocks tiny half mlp deep [--kinds on idle] [--against OTHER/training_lib/src] [--write PAGE]

Two processes with the same training differ by up to 13 % for as long as they live (`benchmarks.turns`), so they cannot
show 1 %. Here each request has a process with one model. Between blocks the adapter takes its hooks out of PyTorch, or
puts them back. Each kind of block comes once in a round, in an order drawn by chance; steps before its clocks begin let
the adapter come to rest. A figure is the processor time of all threads in a block, to the end of what it stores, over
that of the two blocks without capture of the same round: the mean of the middle 80 % of the rounds, with an interval
that holds 95 % of 2,000 draws of rounds (bootstrap). `off again` is the one block without capture over the other, and
in `1 % planted` a loop takes a hundredth of a step after each: the measure has to find it.

The beginning and the end of a run, and what it leaves in the caches for the script between blocks, are not in it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.framework_cost import AGAIN, OFF, PLANTED, PLANTED_SHARE, shown, spin
from benchmarks.turns import CELLS, HERE, WORKLOADS, Ours, put_table
from benchmarks.workloads import Training

STEPS = {"tiny": 4000, "half": 2000, "mlp": 500, "deep": 50, "gpt": 10}  # of a block: a second, as between two writings
WARM_UP = {"tiny": 80, "half": 40, "mlp": 40, "deep": 2, "gpt": 2}
FIRST_STEPS = {"tiny": 2000, "half": 1500, "mlp": 600, "deep": 450, "gpt": 20}  # until the intervals are settled

Round = dict[str, float]  # seconds of processor of a step, by kind


class Switched:
    """An adapter that can be taken out of PyTorch and put back while its run goes on."""

    def __init__(self, kind: str, folder: str, source: Path) -> None:
        self._part = Ours(kind, folder, source=source)
        self.flush, self.state = self._part.flush, self._part.state

    def leave(self) -> None:
        """Take the hooks out."""
        self._part.capture.leave()

    def join(self) -> None:
        """Put the hooks in again."""
        self._part.capture.install()


def train(options: argparse.Namespace) -> None:
    """Train the blocks of one workload and kind, and print what each step took, by round, and the intervals."""
    (workload,), (kind,) = options.workloads, options.kinds
    steps, warm_up = options.steps or STEPS[workload], WARM_UP[workload]
    if kind == "wgb@100":
        steps = max(steps, 100)
    with tempfile.TemporaryDirectory(prefix="blocks-") as folder:
        capture = Switched(kind, f"{folder}/run", options.against or HERE)
        training = Training(workload)
        training.run(FIRST_STEPS[workload])
        capture.flush()
        capture.leave()
        training.run(warm_up)
        began = time.process_time()
        training.run(steps)
        planted = PLANTED_SHARE * (time.process_time() - began) / steps
        gc.collect()
        gc.freeze()
        rounds: list[Round] = []
        chance = random.Random(0)  # noqa: S311 - an order
        for _ in range(options.rounds):
            found: Round = {}
            for each in chance.sample([OFF, AGAIN, PLANTED, kind], 4):
                if each == kind:
                    capture.join()
                training.run(warm_up)
                if each == kind:
                    capture.flush()
                began = time.process_time()
                if each == PLANTED:
                    for _ in range(steps):
                        training.run(1)
                        spin(planted)
                else:
                    training.run(steps)
                if each == kind:
                    capture.flush()
                found[each] = (time.process_time() - began) / steps
                if each == kind:
                    capture.leave()
            rounds.append(found)
        sys.stdout.write(json.dumps([rounds, capture.state()]) + "\n")
        sys.stdout.flush()
        os._exit(0)


def measured(workload: str, kind: str, options: argparse.Namespace, source: Path) -> tuple[list[Round], str]:
    """Return what `train` printed, of a process of its own."""
    sizes = ["--rounds", str(options.rounds), "--steps", str(options.steps)]
    command = [sys.executable, "-m", "benchmarks.blocks", workload, "--kinds", kind, "--training", *sizes]
    ended = subprocess.run([*command, "--against", str(source)], check=True, stdout=subprocess.PIPE, text=True)
    rounds, state = json.loads(ended.stdout.splitlines()[-1])
    return rounds, state


def shares(rounds: list[Round], kind: str) -> list[float]:
    """Return how much longer a step took than without capture, in per cent, by round."""
    usual = [each[OFF] if kind == AGAIN else (each[OFF] + each[AGAIN]) / 2 for each in rounds]
    return [100 * (each[kind] / without - 1) for each, without in zip(rounds, usual, strict=True)]


def table_of(workload: str, options: argparse.Namespace) -> str:
    """Measure a workload, and return its table."""
    kinds = options.kinds or [kind for kind in WORKLOADS[workload].kinds if "in" not in kind]
    sources = {"": HERE} | ({", other tree": options.against} if options.against else {})
    lines, bare, load = list[str](), list[float](), os.getloadavg()[0]
    for kind in kinds:
        for suffix, source in sources.items():
            rounds, state = measured(workload, kind, options, source)
            usual = [(each[OFF] + each[AGAIN]) / 2 for each in rounds]
            extra = statistics.median(1e6 * (each[kind] - off) for each, off in zip(rounds, usual, strict=True))
            bare.append(1e6 * statistics.median(usual))
            target = CELLS[kind].targets.get(workload)
            goal = f"{100 * (target - 1):.1f} %" if target else ""
            cells = [shown(shares(rounds, each)) for each in (kind, AGAIN, PLANTED)]
            lines.append(f"| {kind}{suffix} | {goal} | {cells[0]} | {extra:+.0f} | {' | '.join(cells[1:])} | {state} |")
    return "\n".join(
        [
            (
                f"{workload}, {time.strftime('%d %B %Y, %H:%M', time.gmtime())} UTC: a step takes {min(bare):.0f} to "
                f"{max(bare):.0f} us of processor; {options.rounds} rounds of blocks of "
                f"{options.steps or STEPS[workload]} steps; load {load:.1f} to {os.getloadavg()[0]:.1f}."
            ),
            "",
            "| | goal | more processor | extra us a step | off again | 1 % planted | |",
            "|---|---|---|---|---|---|---|",
            *lines,
        ]
    )


def main() -> None:
    """Measure each workload, and print or write its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", choices=list(STEPS))
    parser.add_argument("--kinds", nargs="+", choices=list(CELLS), help="(default: those of the workload)")
    parser.add_argument("--rounds", type=int, default=30, help="(default 30)")
    parser.add_argument("--steps", type=int, default=0, help="of a block (default: those of the workload)")
    parser.add_argument("--against", type=Path, help="the source folder of another tree")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put each table into a page, between its marks")
    parser.add_argument("--training", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.training:
        import torch

        torch.set_num_threads(1)
        train(options)
    for workload in options.workloads:
        put_table(table_of(workload, options), f"{workload} by blocks", options.write)


if __name__ == "__main__":
    main()
