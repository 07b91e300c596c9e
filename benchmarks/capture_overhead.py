"""What capture costs training: CPU and wall time of a training loop, hooked against bare, ours and others'.

    .venv/bin/python benchmarks/capture_overhead.py mlp [--blocks 4] [--rounds 2] [--only loss@1 ...] [--by ours ...]
    .venv/bin/python benchmarks/capture_overhead.py mlp --by ours --against OTHER

With `--against`, each of our cells is followed by the same cell of another tree, by that tree's own benchmark.

Each cell of the table is a process of its own, where bare and hooked stretches of the same training alternate in
blocks of bare, hooked, hooked, bare, so that a drift of the machine cancels out. A figure is the CPU time of the whole
process, the writer thread included, over that of the bare stretches of its block, to the end of what the stretch wrote;
of W&B, the process that it starts beside is included too. The table gives the median of the blocks and the middle half
of them. Wall time is that of the training loop alone. `a/a` compares bare with bare: no figure is finer than its
spread. Ratios travel between machines, milliseconds do not.

The others are found in environments beside ours and run with our PyTorch; a cell whose environment is missing is left
out, and its line says how to build it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from trackside.environment import inherited

STEPS = {"mlp": 400, "conv": 20, "gpt": 20}  # a stretch: about a second or two
NEVER = 10**9
WGB = ("weights", "gradients", "biases")
ALL = (*WGB, "inputs", "outputs", "losses")
REDUCTIONS = ("mean", "std", "min", "max", "l1_norm", "l2_norm", "abs_max")

TOP = Path(__file__).resolve().parents[1]
IN_NEW = "python -m venv {0} && {0}/bin/pip install "
ENVIRONMENTS = {  # of the others, and how each is built
    "smdebug": (".venv/smdebug-peer", "pytest tests/smdebug/test_core.py"),
    "tensorboard": (".venv/tensorboard-overhead-peer", IN_NEW + "tensorboard==2.21.0"),
    "wandb": (".venv/wandb-peer", IN_NEW + "wandb==0.31.0"),
}


@dataclass(frozen=True)
class Kind:
    """What is saved, every how many steps; `target` is ours, by workload; `by` are the others to compare with."""

    name: str
    collections: tuple[str, ...] = ()
    every: int = 1
    reductions: tuple[str, ...] = ()
    target: dict = field(default_factory=dict)
    by: tuple[str, ...] = ()


OTHER_TREE = "the other tree"
EVERYBODY = ("smdebug", "tensorboard", "wandb", "np.save", "raw", "copy")
KINDS = (
    Kind("idle", ("losses",), NEVER, target={"mlp": 1.005}, by=("smdebug",)),
    Kind("loss@1", ("losses",), target={"mlp": 1.05, "gpt": 1.0}, by=("smdebug", "tensorboard", "wandb", "raw")),
    Kind("wgb@10", WGB, 10, target={"mlp": 1.07, "gpt": 1.05, "conv": 1.19}, by=EVERYBODY),
    Kind("wgb@100", WGB, 100, target={"mlp": 1.01}, by=EVERYBODY),
    Kind("red@1", WGB, 1, REDUCTIONS, {"mlp": 1.40, "gpt": 1.22}, ("smdebug", "tensorboard", "wandb", "raw", "copy")),
    Kind("all@50", ALL, 50, target={"mlp": 1.05}, by=("smdebug", "tensorboard", "raw", "copy")),
    Kind("all@10", ALL, 10, target={"gpt": 1.10}, by=("smdebug", "raw", "copy")),
    Kind("always-on", target={"mlp": 1.05, "gpt": 1.02}),
)


@dataclass(frozen=True)
class Cell:
    """One row of the table."""

    kind: Kind
    by: str = "ours"

    @property
    def name(self):
        return self.kind.name if self.by in {"ours", "nobody"} else f"{self.kind.name} {self.by}"


A_A = Cell(Kind("a/a"), "nobody")


def cells_of(workload, against=None):
    """Those that have a target for this workload, those to compare them with, and the floor."""
    selected = [kind for kind in KINDS if workload in kind.target]
    ours = ("ours", OTHER_TREE) if against else ("ours",)
    return [A_A, *(Cell(kind, by) for kind in selected for by in (*ours, *kind.by))]


def environment_of(cell):
    """The folders of packages that this cell needs beside ours; None if they are not there."""
    if cell.by not in ENVIRONMENTS:
        return []
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = TOP / ENVIRONMENTS[cell.by][0] / "lib" / python / "site-packages"
    return [str(packages)] if packages.is_dir() else None


def lacking(cell):
    folder, command = ENVIRONMENTS[cell.by]
    return f"{cell.name}: left out, {folder} is not there, or not for this Python: {command.format(folder)}"


def measured(cell, beside, arguments):
    """What a process of its own has measured, or an error line."""
    top = arguments.against if cell.by == OTHER_TREE else TOP
    by = "ours" if cell.by == OTHER_TREE else cell.by
    variables = {
        **inherited(),
        "PYTHONPATH": os.pathsep.join([str(top / "training_lib" / "src"), *beside]),
        "OMP_NUM_THREADS": "1",
        "SMDEBUG_LOG_LEVEL": "error",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
    }
    steps = arguments.steps or STEPS[arguments.workload]
    script = top / "benchmarks" / "capture_overhead_cell.py"
    order = [arguments.workload, cell.kind.name, by, str(steps), str(arguments.blocks)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *order],
        env=variables,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{middle:.3f} ({low:.3f}-{high:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=STEPS)
    parser.add_argument("--blocks", type=int, default=4, help="blocks of four stretches in a process")
    parser.add_argument("--rounds", type=int, default=2, help="processes a cell; all cells have one before the next")
    parser.add_argument("--minutes", type=float, default=60, help="begin no further process after this time")
    parser.add_argument("--steps", type=int, help="optimizer steps a stretch")
    parser.add_argument("--only", nargs="*", default=(), help="kinds: idle, loss@1, ...")
    parser.add_argument("--by", nargs="*", default=(), help="ours, smdebug, ...")
    parser.add_argument("--against", type=Path, metavar="OTHER", help="the top folder of another tree")
    arguments = parser.parse_args()

    selected = [cell for cell in cells_of(arguments.workload, arguments.against) if is_selected(cell, arguments)]
    cells = [cell for cell in selected if environment_of(cell) is not None]
    left_out = [lacking(cell) for cell in selected if cell not in cells]
    end = time.monotonic() + 60 * arguments.minutes
    loads, found = [], {}
    for cell in cells * arguments.rounds:
        if time.monotonic() > end:
            break
        loads.append(os.getloadavg()[0])
        result = measured(cell, environment_of(cell), arguments)
        print(f"{cell.name}: {json.dumps(result)}", file=sys.stderr)
        if "error" in result:
            left_out.append(f"{cell.name}: failed: {result['error']}")
            continue
        kept = found.setdefault(cell.name, {"cpu": [], "wall": [], "bare_ms": []})
        kept |= {key: kept[key] + result[key] for key in ("cpu", "wall", "bare_ms")}
        kept |= {key: result[key] for key in ("by", "torch", "settled")}
    if not found:
        sys.exit("\n".join(left_out) or "nothing was measured")
    print_table(cells, found, loads, arguments)
    print("\n".join(left_out))


def is_selected(cell, arguments):
    """The floor always is."""
    if cell is A_A:
        return True
    by = "ours" if cell.by == OTHER_TREE else cell.by
    return (not arguments.only or cell.kind.name in arguments.only) and (not arguments.by or by in arguments.by)


def print_table(cells, found, loads, arguments):
    first = next(iter(found.values()))
    step_ms = statistics.median(time_ms for each in found.values() for time_ms in each["bare_ms"])
    steps = arguments.steps or STEPS[arguments.workload]
    print(f"{arguments.workload}: bare step {step_ms:.2f} ms of CPU; blocks of 4 x {steps} steps;", end=" ")
    print(f"{time.strftime('%d %b %Y %H:%M')}; torch {first['torch']}; load {min(loads):.1f} to {max(loads):.1f}")
    print("| cell | by | target | CPU | wall | blocks |\n|---|---|---|---|---|---|")
    for cell in cells:
        if cell.name not in found:
            continue
        result = found[cell.name]
        target = cell.kind.target.get(arguments.workload, "") if cell.by == "ours" else ""
        by = cell.by if cell.by == OTHER_TREE else result["by"]
        columns = [cell.kind.name, by, target, quartiles(result["cpu"]), quartiles(result["wall"])]
        print("|", " | ".join(map(str, [*columns, len(result["cpu"])])), "|")
    for name, each in found.items():
        if each["settled"]:
            print(f"{name}: {each['settled']}")


if __name__ == "__main__":
    main()
