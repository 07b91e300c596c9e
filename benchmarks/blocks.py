"""What capture costs a PyTorch training: blocks of steps with it and without take turns, on a CPU or a GPU.

    python -m benchmarks.blocks tiny half mlp deep [--kinds on idle] [--against OTHER/training_lib/src] [--write PAGE]
    python -m benchmarks.blocks mlp conv gpt --device cuda --steps 200 [--compiled]

`benchmarks.engine.blocks` says how. Each request has a process with one model. Between blocks the adapter takes its
hooks out of PyTorch, or puts them back; steps before its clocks begin let it come to rest. Times are those of the
processor, of all threads, to the end of what a block stores; on a GPU also by the clock, to the end of its last step:
the training asks for no number of its own there, so that the processor runs ahead, and its batches are larger.

The beginning and the end of a run, and what it leaves in the caches for the script between blocks, are not in it.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.engine.blocks import (
    AGAIN,
    ALWAYS,
    PLANTED,
    PLANTED_SHARE,
    Round,
    answer,
    answer_of,
    shown,
    spin,
    turns,
    without,
)
from benchmarks.engine.options import parser
from benchmarks.turns import CELLS, HERE, WORKLOADS, Ours, put_table
from benchmarks.workloads import Training

# Of a block: a second, as between two writings.
STEPS = {"tiny": 4000, "half": 2000, "mlp": 500, "deep": 50, "conv": 10, "gpt": 10}
WARM_UP = {"tiny": 80, "half": 40, "mlp": 40, "deep": 2, "conv": 2, "gpt": 2}
# Until the intervals are settled.
FIRST_STEPS = {"tiny": 2000, "half": 1500, "mlp": 600, "deep": 450, "conv": 20, "gpt": 20}
GPU_BATCHES = 16  # times as large as on a CPU


def train(options: argparse.Namespace) -> None:
    """Train the blocks of one workload and kind, and answer with what a step of each took, and the intervals."""
    import torch

    torch.set_num_threads(1)
    (workload,), (kind,) = options.workloads, options.kinds
    steps, warm_up = options.steps or STEPS[workload], WARM_UP[workload]
    if kind == "wgb@100":
        steps = max(steps, 100)
    is_gpu = options.device != "cpu"
    wait = torch.cuda.synchronize if is_gpu else lambda: None
    with tempfile.TemporaryDirectory(prefix="blocks-") as folder:
        part = Ours(kind, f"{folder}/run", source=options.against or HERE)
        training = Training(
            workload, device=options.device, batch_times=GPU_BATCHES if is_gpu else 1, reads_losses=not is_gpu
        )
        if options.compiled:
            training.forward = torch.compile(training.model)
        training.run(FIRST_STEPS[workload])
        part.flush()
        part.capture.leave()
        training.run(warm_up)
        began = time.process_time()
        training.run(steps)
        planted = PLANTED_SHARE * (time.process_time() - began) / steps
        gc.collect()
        gc.freeze()

        def block(each: str) -> list[float]:
            if each == kind:
                part.capture.install()
            training.run(warm_up)
            if each == kind:
                part.flush()
            wait()
            began, clock = time.process_time(), time.perf_counter()
            if each == PLANTED:
                for _ in range(steps):
                    training.run(1)
                    spin(planted)
            else:
                training.run(steps)
            wait()
            clock = time.perf_counter() - clock
            if each == kind:
                part.flush()
            processor = time.process_time() - began
            if each == kind:
                part.capture.leave()
            return [processor / steps, clock / steps]

        answer([turns([*ALWAYS, kind], options.rounds, block), part.state()])


def measured(workload: str, kind: str, options: argparse.Namespace, source: Path) -> tuple[list[Round], str]:
    """Return what `train` answered, in a process of its own."""
    words = ["--rounds", str(options.rounds), "--steps", str(options.steps), "--device", options.device]
    words += ["--against", str(source), *(["--compiled"] if options.compiled else [])]
    rounds, state = answer_of(
        [sys.executable, "-m", "benchmarks.blocks", workload, "--kinds", kind, "--training", *words]
    )
    return rounds, state


def table_of(workload: str, options: argparse.Namespace) -> str:
    """Measure a workload, and return its table."""
    kinds = options.kinds or [kind for kind in WORKLOADS[workload].kinds if "in" not in kind]
    sources = {"": HERE} | ({", other tree": options.against} if options.against else {})
    is_gpu = options.device != "cpu"
    lines, bare, load = list[str](), list[float](), os.getloadavg()[0]
    for kind in kinds:
        for suffix, source in sources.items():
            rounds, state = measured(workload, kind, options, source)
            extra = statistics.median(1e6 * (each[kind][0] - without(each)) for each in rounds)
            bare.append(1e6 * statistics.median(map(without, rounds)))
            target = CELLS[kind].targets.get(workload)
            goal = f"{100 * (target - 1):.1f} %" if target else ""
            cells = [shown(rounds, kind), *([shown(rounds, kind, 1)] if is_gpu else []), f"{extra:+.0f}"]
            cells += [shown(rounds, each) for each in (AGAIN, PLANTED)]
            lines.append(f"| {kind}{suffix} | {goal} | {' | '.join(cells)} | {state} |")
    on = f" on {options.device}{', compiled' if options.compiled else ''}" if is_gpu or options.compiled else ""
    heads = ["", "goal", "more processor", *(["more time"] if is_gpu else []), "extra us a step"]
    heads += ["off again", "1 % planted", ""]
    return "\n".join(
        [
            (
                f"{workload}{on}, {time.strftime('%d %B %Y, %H:%M', time.gmtime())} UTC: a step takes {min(bare):.0f} "
                f"to {max(bare):.0f} us of processor; {options.rounds} rounds of blocks of "
                f"{options.steps or STEPS[workload]} steps; load {load:.1f} to {os.getloadavg()[0]:.1f}."
            ),
            "",
            f"| {' | '.join(heads)} |".replace("|  |", "| |"),
            "|---" * len(heads) + "|",
            *lines,
        ]
    )


def main() -> None:
    """Measure each workload, and print or write its table."""
    options = parser(__doc__)
    options.add_argument("workloads", nargs="+", choices=list(STEPS))
    options.add_argument("--kinds", nargs="+", choices=list(CELLS), help="(default: those of the workload)")
    options.add_argument("--rounds", type=int, default=30, help="(default 30)")
    options.add_argument("--steps", type=int, default=0, help="of a block (default: those of the workload)")
    options.add_argument("--device", default="cpu")
    options.add_argument("--compiled", action="store_true", help="by torch.compile")
    options.add_argument("--against", type=Path, help="the source folder of another tree")
    options.add_argument("--write", type=Path, metavar="PAGE", help="put each table into a page, between its marks")
    options.add_argument("--training", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.training:
        train(given)
    for workload in given.workloads:
        put_table(table_of(workload, given), f"{workload} by blocks", given.write)


if __name__ == "__main__":
    main()
