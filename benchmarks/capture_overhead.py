"""What capture costs training: CPU and wall time of a training loop, hooked against bare, ours and others'.

    .venv/bin/python benchmarks/capture_overhead.py mlp [--blocks 8] [--only loss@1 ...]

Bare and hooked stretches of the same training alternate in blocks of bare, hooked, hooked, bare, so that a drift of
the machine cancels out. A figure is the CPU time of the whole process, the writer thread included, over that of the
bare stretches of its block, to the end of what the stretch wrote; the table gives the median of the blocks and the
middle half of them. Wall time is that of the training loop alone. `a/a` compares bare with bare: no figure is finer
than its spread. Ratios travel between machines, milliseconds do not. TensorBoard's cells need the tensorboard package:
they are left out where it is missing.
"""

import argparse
import gc
import itertools
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from capture_workloads import Workload

from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchCapture

STEPS = {"mlp": 400, "conv": 20, "gpt": 20}  # a stretch: about a second or two
NEVER = 10**9
WGB = ("weights", "gradients", "biases")
REDUCTIONS = ("mean", "std", "min", "max", "l1_norm", "l2_norm", "abs_max")


@dataclass(frozen=True)
class Cell:
    """One row of the table: what is saved, every how many steps, and by whom."""

    name: str
    collections: tuple[str, ...] = ()
    every: int = 1
    by: str = "ours"
    reductions: tuple[str, ...] = ()
    target: dict = field(default_factory=dict)  # by workload


CELLS = (
    Cell("a/a", by="nobody"),
    Cell("idle", ("losses",), NEVER, target={"mlp": 1.005}),
    Cell("loss@1", ("losses",), target={"mlp": 1.05, "gpt": 1.0}),
    Cell("loss@1 tensorboard", ("losses",), by="tensorboard"),
    Cell("loss@1 raw write", ("losses",), by="raw"),
    Cell("wgb@10", WGB, 10, target={"mlp": 1.07, "gpt": 1.05, "conv": 1.19}),
    Cell("wgb@10 tensorboard", WGB, 10, by="tensorboard"),
    Cell("wgb@10 np.save", WGB, 10, by="np.save"),
    Cell("wgb@10 raw write", WGB, 10, by="raw"),
    Cell("wgb@10 copy only", WGB, 10, by="copy"),
    Cell("wgb@100", WGB, 100, target={"mlp": 1.01}),
    Cell("red@1", WGB, reductions=REDUCTIONS, target={"mlp": 1.40, "gpt": 1.22}),
    Cell("all@50", (*WGB, "inputs", "outputs", "losses"), 50, target={"mlp": 1.05}),
    Cell("all@10", (*WGB, "inputs", "outputs", "losses"), 10, target={"gpt": 1.10}),
    Cell("always-on", target={"mlp": 1.05, "gpt": 1.02}),
)


class Nobody:
    """Bare."""

    after_backward = None

    def flush(self):
        pass

    def close(self):
        pass


class Ours:
    """This library, attached as it would be to a script that knows nothing of it."""

    after_backward = None

    def __init__(self, cell, location):
        # From the first step on, so that looking the names up, once, is not within what is measured.
        schedule = Schedule(cell.every, 1 if cell.every == NEVER else 0)
        requests = tuple(CollectionRequest(name, schedule, reductions=cell.reductions) for name in cell.collections)
        request = CaptureRequest(requests, statistics=StatisticsRequest(enabled=cell.name == "always-on"))
        self.capture = PyTorchCapture(CaptureEnvironment(location, request.to_json(), 0, 1))
        self.capture.install()

    def flush(self):
        self.capture.flush(60)

    def close(self):
        self.capture.uninstall()


class ByHand:
    """What a script would do itself, in its loop."""

    def __init__(self, cell, location, model):
        self.cell, self.location, self.model = cell, location, model
        self.saves = 0
        self.slabs = {}
        os.makedirs(location)

    def tensors(self, loss):
        if self.cell.collections == ("losses",):
            return {"loss": loss.detach()}
        tensors = {}
        for name, parameter in self.model.named_parameters():
            tensors[name] = parameter.detach()
            tensors[f"gradient/{name}"] = parameter.grad
        return tensors

    def after_backward(self, step, loss):
        if step % self.cell.every == 0:
            self.save(self.tensors(loss))
            self.saves += 1

    def flush(self):
        pass

    def close(self):
        pass


class Copy(ByHand):
    """The bound: a copy into warm memory, and nothing done with it."""

    def save(self, tensors):
        if not self.slabs:
            self.slabs = [torch.empty_like(value) for value in tensors.values()]
        torch._foreach_copy_(self.slabs, list(tensors.values()))


class Raw(ByHand):
    """The bound of all that write: the bytes of a step in one file, without names or checksums."""

    def save(self, tensors):
        data = b"".join(
            value.numpy().data.cast("B") if value.ndim else value.numpy().tobytes() for value in tensors.values()
        )
        descriptor = os.open(f"{self.location}/{self.saves}", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, data)
        os.close(descriptor)


class NumpySave(ByHand):
    """A file for each tensor."""

    def save(self, tensors):
        for name, value in tensors.items():
            np.save(f"{self.location}/{self.saves}-{name.replace('/', '-')}.npy", value.numpy())


class TensorBoard(ByHand):
    """Scalars of losses, histograms of all else, as its users do."""

    def __init__(self, cell, location, model):
        from torch.utils.tensorboard import SummaryWriter

        super().__init__(cell, location, model)
        self.writer = SummaryWriter(location)

    def save(self, tensors):
        for name, value in tensors.items():
            if value.ndim:
                self.writer.add_histogram(name, value, self.saves)
            else:
                self.writer.add_scalar(name, value, self.saves)

    def flush(self):
        self.writer.flush()

    def close(self):
        self.writer.close()


BY_HAND = {"copy": Copy, "raw": Raw, "np.save": NumpySave, "tensorboard": TensorBoard}


def watch(cell, location, model):
    if cell.by == "nobody":
        return Nobody()
    return Ours(cell, location) if cell.by == "ours" else BY_HAND[cell.by](cell, location, model)


def measure(workload, cell, steps, location):
    """CPU and wall seconds of one stretch."""
    gc.collect()
    watcher = watch(cell, location, workload.model)
    # The first step and its one-time costs: naming, the thread, the folders. The always-on statistics settle slowly.
    workload.run(steps if cell.name == "always-on" else min(steps, 12), watcher.after_backward)
    watcher.flush()
    cpu, wall = time.process_time(), time.perf_counter()
    workload.run(steps, watcher.after_backward)
    wall = time.perf_counter() - wall
    watcher.flush()
    cpu = time.process_time() - cpu
    watcher.close()
    return cpu, wall


def chosen_cells(workload_name, only):
    """The cells that have a target for this workload, those to compare them with, and the floor."""
    asked = {cell.name.split()[0] for cell in CELLS if workload_name in cell.target}
    cells = [cell for cell in CELLS if cell.by == "nobody" or cell.name.split()[0] in asked]
    try:
        import tensorboard  # noqa: F401 - only whether it is there
    except ImportError:
        cells = [cell for cell in cells if cell.by != "tensorboard"]
    return [cell for cell in cells if not only or cell.name in only]


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{middle:.3f} ({low:.3f}-{high:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=STEPS)
    parser.add_argument("--blocks", type=int, default=8, help="blocks of four stretches a cell")
    parser.add_argument("--minutes", type=float, default=60, help="begin no further round of the cells after this time")
    parser.add_argument("--steps", type=int, help="optimizer steps a stretch")
    parser.add_argument("--only", nargs="*", default=(), help="names of cells")
    arguments = parser.parse_args()
    steps = arguments.steps or STEPS[arguments.workload]
    torch.set_num_threads(1)
    workload = Workload(arguments.workload)
    workload.run(steps)
    cells = chosen_cells(arguments.workload, arguments.only)
    bare = CELLS[0]

    ratios = {cell: ([], []) for cell in (cell.name for cell in cells)}
    bare_seconds = []
    folder = Path(tempfile.mkdtemp(prefix="capture-overhead-"))
    try:
        locations = (str(folder / f"run{place}") for place in itertools.count())
        end = time.monotonic() + 60 * arguments.minutes
        for _ in range(arguments.blocks):
            if bare_seconds and time.monotonic() > end:
                break
            for cell in cells:  # cells are interleaved too: a bad minute hits all of them
                results = [measure(workload, one, steps, next(locations)) for one in (bare, cell, cell, bare)]
                a, b, c, d = results
                bare_seconds += [a[0], d[0]]
                for kind in (0, 1):
                    ratios[cell.name][kind].append((b[kind] + c[kind]) / (a[kind] + d[kind]))
                if arguments.workload != "mlp":
                    # Large runs would fill the disk. Small ones stay: ext4 makes new files slowly for seconds after
                    # others were removed.
                    shutil.rmtree(folder)
                    folder.mkdir()
    finally:
        shutil.rmtree(folder, ignore_errors=True)

    parameters = sum(parameter.numel() for parameter in workload.model.parameters()) / 1e6
    step_ms = statistics.median(bare_seconds) / steps * 1000
    print(f"{arguments.workload}: {parameters:.2f} million parameters, bare step {step_ms:.2f} ms of CPU;", end=" ")
    blocks = len(ratios[cells[0].name][0])
    print(f"{blocks} blocks of 4 x {steps} steps a cell; torch {torch.__version__}; load {os.getloadavg()[0]:.1f}")
    print("| cell | target | CPU | wall |\n|---|---|---|---|")
    for cell in cells:
        cpu, wall = ratios[cell.name]
        target = cell.target.get(arguments.workload, "")
        print(f"| {cell.name} | {target} | {quartiles(cpu)} | {quartiles(wall)} |")


if __name__ == "__main__":
    main()
