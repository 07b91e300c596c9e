"""What capture costs a training, measured in one run: all participants are forked from one process and take turns.

    python -m benchmarks.turns mlp --kind on --against OTHER/training_lib/src

Each round every participant trains the same number of steps, in the order A B C, then C B A. A figure is the processor
time of all threads of a participant, to the end of what it stores, over that of the first bare one in the same round:
median (middle half). `bare again` is the floor: no figure is finer than its spread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

HERE = Path(__file__).resolve().parents[1] / "training_lib" / "src"
REDUCTIONS = ("mean", "std", "min", "max", "l1_norm", "l2_norm", "abs_max")
STEPS = {"tiny": 1000, "mlp": 100, "deep": 20}
BATCHES = 8
ANSWER_BYTES = 128


class Participant(NamedTuple):
    """A forked process that trains when it is asked to."""

    name: str
    ask: int
    answer: int


def training(workload: str) -> Callable[[int], None]:
    """Return a function that trains a number of steps: 2 layers, 0.15 million parameters, or 300 thin layers."""
    torch.manual_seed(0)
    sizes, rows = {"tiny": ([8, 16, 2], 64), "mlp": ([64, 256, 256, 256, 10], 144), "deep": ([16] * 301, 16)}[workload]
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = [(torch.randn(rows, sizes[0]), torch.randint(0, sizes[-1], (rows,))) for _ in range(BATCHES)]

    def train(steps: int) -> None:
        for step in range(steps):
            inputs, labels = batches[step % BATCHES]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            loss.item()

    return train


def captured(kind: str, source: Path, *, has_loops: bool) -> Any:
    """Return a capture of this process, by the library in `source`."""
    sys.path.insert(0, str(source))
    from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
    from trackside.environment import CaptureEnvironment

    if not has_loops:
        from trackside.capture import one_pass

        one_pass.LOOPS = None
    from trackside.frameworks.pytorch.adapter import PyTorchAdapter

    collections: tuple[CollectionRequest, ...] = ()
    if kind == "idle":
        collections = (CollectionRequest("losses", Schedule(10**9, 1)),)
    if kind == "reductions":
        names = ("weights", "gradients", "biases")
        collections = tuple(CollectionRequest(name, Schedule(1), reductions=REDUCTIONS) for name in names)
    request = CaptureRequest(collections, statistics=StatisticsRequest(enabled=kind == "on"))
    run = tempfile.mkdtemp(prefix="turns-")
    capture = PyTorchAdapter(CaptureEnvironment(f"{run}/run", request.to_json(), 0, 1))
    capture.install()
    return capture


def take_part(options: argparse.Namespace, make: Callable[[], Any], ask: int, answer: int) -> None:
    """Train a stretch for each byte that comes, and answer with its processor time."""
    capture = make()
    train = training(options.workload)
    train(3 * options.steps)
    os.write(answer, b" " * ANSWER_BYTES)
    while os.read(ask, 1) == b"g":
        began = time.process_time()
        train(options.steps)
        if capture is not None:
            capture.flush(60)
        costs = capture.session.statistics.budget if capture is not None and options.kind == "on" else None
        found = [time.process_time() - began, f"{costs.intervals}" if costs else ""]
        os.write(answer, json.dumps(found).encode().ljust(ANSWER_BYTES))
    os._exit(0)


def forked(name: str, options: argparse.Namespace, make: Callable[[], Any]) -> Participant:
    """Return a participant that is ready."""
    (asked, ask), (answer, answered) = os.pipe(), os.pipe()
    if os.fork() == 0:
        take_part(options, make, asked, answered)
    os.read(answer, ANSWER_BYTES)
    return Participant(name, ask, answer)


def main() -> None:
    """Let all participants take turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=STEPS)
    parser.add_argument("--kind", choices=["on", "idle", "reductions"], default="on")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, help="of a turn")
    parser.add_argument("--against", type=Path, help="the source folder of another tree")
    options = parser.parse_args()
    options.steps = options.steps or STEPS[options.workload]
    torch.set_num_threads(1)
    makes: dict[str, Callable[[], Any]] = {"bare": lambda: None, "bare again": lambda: None}
    if options.against:
        makes["other tree"] = lambda: captured(options.kind, options.against, has_loops=True)
    makes["without the loops"] = lambda: captured(options.kind, HERE, has_loops=False)
    makes["this tree"] = lambda: captured(options.kind, HERE, has_loops=True)
    participants = [forked(name, options, make) for name, make in makes.items()]
    found: dict[str, list[float]] = {name: [] for name in makes}
    states: dict[str, str] = {}
    for number in range(options.rounds):
        for each in participants if number % 2 == 0 else participants[::-1]:
            os.write(each.ask, b"g")
            seconds, states[each.name] = json.loads(os.read(each.answer, ANSWER_BYTES))
            found[each.name].append(seconds / options.steps)
    for each in participants:
        os.write(each.ask, b"q")
    bare = found["bare"]
    bare_us = 1e6 * statistics.median(bare)
    print(f"{options.workload}, {options.kind}: a bare step takes {bare_us:.0f} us of processor;", end=" ")
    print(f"{options.rounds} turns of {options.steps} steps; torch {torch.__version__}; load {os.getloadavg()[0]:.1f}")
    print("| | CPU | microseconds a step | |\n|---|---|---|---|")
    for name, times in found.items():
        low, middle, high = statistics.quantiles([a / b for a, b in zip(times, bare, strict=True)], n=4)
        extra = 1e6 * statistics.median(a - b for a, b in zip(times, bare, strict=True))
        print(f"| {name} | {middle:.3f} ({low:.3f}-{high:.3f}) | {extra:+.0f} | {states[name]} |")


if __name__ == "__main__":
    main()
