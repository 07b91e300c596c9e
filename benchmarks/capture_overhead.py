"""What capture costs training: the CPU time of the digits loop, hooked against bare.

    .venv/bin/python benchmarks/capture_overhead.py [--blocks 12] [--steps 400]

Bare and hooked stretches of the same training alternate in blocks of bare, hooked, hooked, bare, so that a drift of
the machine cancels out. A figure is the CPU time of the whole process, the writer thread included, over that of the
bare stretches of its block; the table gives the median of the blocks and their spread. `a/a` compares bare with bare:
no figure is finer than its spread. Ratios travel between machines, milliseconds do not.
"""

import argparse
import gc
import importlib.util
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional

from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchCapture

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits" / "train.py"
NEVER = 10**9
CELLS = {
    "a/a": None,
    "idle": {"losses": NEVER},
    "loss@1": {"losses": 1},
    "wgb@10": {"weights": 10, "gradients": 10, "biases": 10},
}


def load_example():
    spec = importlib.util.spec_from_file_location("digits_train", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


class Workload:
    """The digits loop, a stretch of steps at a time."""

    def __init__(self, steps, batch_size):
        example = load_example()
        torch.manual_seed(0)
        pixels, _, labels, _ = example.load_data(0)
        self.model = example.DigitClassifier(3, torch.relu)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        picks = [torch.randint(0, len(pixels), (batch_size,)) for _ in range(steps)]
        self.batches = [(pixels[pick], labels[pick]) for pick in picks]

    def run(self):
        for pixels, labels in self.batches:
            self.optimizer.zero_grad()
            loss = functional.cross_entropy(self.model(pixels), labels)
            loss.backward()
            self.optimizer.step()
            loss.item()


def measure(workload, intervals, location):
    """CPU and wall seconds of one stretch, to the end of what it wrote; `intervals` None means bare."""
    gc.collect()
    capture = None
    if intervals is not None:
        collections = (CollectionRequest(name, Schedule(interval, 1)) for name, interval in intervals.items())
        request = CaptureRequest(tuple(collections)).to_json()
        capture = PyTorchCapture(CaptureEnvironment(location, request, 0, 1))
        capture.install()
        workload.run()  # the first step and its one-time costs: naming, the thread, the folders
        capture.flush(60)
        shutil.rmtree(location, ignore_errors=True)
    cpu, wall = time.process_time(), time.perf_counter()
    workload.run()
    wall = time.perf_counter() - wall
    if capture is not None:
        capture.flush(60)
    cpu = time.process_time() - cpu
    if capture is not None:
        capture.uninstall()
        shutil.rmtree(location, ignore_errors=True)
    return cpu, wall


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=4, help="blocks of four stretches a cell")
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps a stretch")
    parser.add_argument("--batch-size", type=int, default=128, help="128: about 2 ms a step")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    workload = Workload(arguments.steps, arguments.batch_size)
    workload.run()

    ratios = {cell: ([], []) for cell in CELLS}
    bare_seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.blocks):
            for cell, intervals in CELLS.items():  # cells are interleaved too: a bad minute hits all of them
                order = [None, intervals, intervals, None]
                a, b, c, d = (measure(workload, i, f"{folder}/run") for i in order)
                bare_seconds += [a[0], d[0]]
                for kind in (0, 1):
                    ratios[cell][kind].append((b[kind] + c[kind]) / (a[kind] + d[kind]))

    step_ms = statistics.median(bare_seconds) / arguments.steps * 1000
    print(f"bare step {step_ms:.2f} ms of CPU; {arguments.blocks} blocks of 4 x {arguments.steps} steps a cell")
    print(f"{'cell':8} {'CPU ratio':>10} {'min':>7} {'max':>7} {'wall ratio':>11}")
    for cell, (cpu, wall) in ratios.items():
        print(
            f"{cell:8} {statistics.median(cpu):10.3f} {min(cpu):7.3f} {max(cpu):7.3f} {statistics.median(wall):11.3f}"
        )


if __name__ == "__main__":
    main()
