"""The evaluator's share of a core beside a training of 100 steps a second, with default rules and default capture.

    python -m benchmarks.evaluator_share [--seconds 40] [--s3]

For each model a training runs at that pace in a process of its own, and beside it an evaluator with its own settings.
Its processor time is read every second (user and system, all threads). `start` is what it has used when it first says
how far it is; the share is that of the seconds after `--warm-up` of them, with the quartiles of the mean over five
seconds in a row (it judges in bursts), and what that is for each step it judged. `every step` lets the statistics cost
as much as they like, so that gradients are measured at each step: the most that an evaluator may have to read.

With `--s3` the run lies in moto's S3, served by this process, and the evaluator looks once a second, as in a
deployment. moto closes each connection; AWS keeps them open and encrypts them. Target: at most 5 % of a core.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.engine.options import parser
from benchmarks.engine.usual import usual_capture
from benchmarks.processes import processor_seconds
from benchmarks.verdict_latency import BUCKET, CountedS3, Peeked, judged_through, processes_beside, wait_for
from benchmarks.workloads import Block
from trackside.contracts.run_layout import RunLocation
from trackside.storage.open_store import open_store

BUDGETS = {"default": None, "every step": 1.0}


def main() -> None:
    """Measure each model, and print a line for each."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=int, default=40, help="of training that are looked at (default 40)")
    options.add_argument("--warm-up", type=int, default=5, help="seconds after the start that are left out (default 5)")
    options.add_argument("--steps-per-second", type=float, default=100.0, help="pace of the training (default 100)")
    options.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options.add_argument("--s3", action="store_true", help="the run lies in S3 (moto)")
    options.add_argument("--train", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.train:
        train(arguments.train, pace=arguments.steps_per_second)
    print(f"{arguments.seconds} s at {arguments.steps_per_second:g} steps a second; target: at most 5 % of a core\n")
    print(f"{'':24} {'steps/s':>8} {'start':>8} {'share of a core (quartiles)':>30} {'a step':>9}")
    for model, (name, budget) in itertools.product(arguments.models, BUDGETS.items()):
        start, shares, steps = measure(arguments, model, budget)
        smooth = [statistics.fmean(shares[at : at + 5]) for at in range(len(shares) - 4)]
        low, _, high = statistics.quantiles(smooth, n=4)
        figures = f"{statistics.fmean(shares):.2%} ({low:.2%} to {high:.2%})"
        per_step = f"{1000 * sum(shares) / max(1, steps):.3f} ms"
        what, pace = f"{model}, {name}", steps / len(shares)
        print(f"{what:24} {pace:8.0f} {start:6.2f} s {figures:>30} {per_step:>9}", flush=True)


def measure(arguments: argparse.Namespace, model: str, budget: float | None) -> tuple[float, list[float], int]:
    """Return the processor seconds of the start, the share of a core in each second, and the steps judged in these."""
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(CountedS3()) if arguments.s3 else None
        uri = f"s3://{BUCKET}/{model}-{budget}" if s3 else stack.enter_context(tempfile.TemporaryDirectory())
        command = [sys.executable, "-m", "benchmarks.evaluator_share", "--train", model]
        command += ["--steps-per-second", str(arguments.steps_per_second)]
        _, evaluator = stack.enter_context(processes_beside(uri, command, usual_capture(budget=budget), s3=s3))
        peek: Callable[[str], Any] = Peeked if s3 else open_store
        output = peek(RunLocation(uri).rule_output)
        wait_for(lambda: judged_through(output) >= 0, "the evaluator's first answer")
        start = processor_seconds(evaluator.pid)
        time.sleep(arguments.warm_up)
        first = judged_through(output)
        marks = [(time.monotonic(), processor_seconds(evaluator.pid))]
        for _ in range(arguments.seconds):
            time.sleep(1.0)
            marks.append((time.monotonic(), processor_seconds(evaluator.pid)))
        shares = [(used - before) / (now - then) for (then, before), (now, used) in itertools.pairwise(marks)]
        return start, shares, judged_through(output) - first


def train(name: str, *, pace: float) -> None:
    """Train at `pace` steps a second, until the process is killed."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, inputs, labels, count = MODELS[name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    loss_of = nn.CrossEntropyLoss()
    due = time.monotonic()
    while True:
        chosen = torch.randint(0, len(inputs), (count,))
        optimizer.zero_grad()
        loss_of(model(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
        due = max(due + 1 / pace, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))


class Thin(nn.Module):
    """A transformer of 154 tensors with their gradients, as thin as they can be."""

    def __init__(self, *, width: int = 8, layers: int = 6, words: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*[Block(width, 2) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Any:
        return self.head(self.norm(self.blocks(self.words(tokens)))).transpose(1, 2)


def mlp() -> tuple[nn.Module, Tensor, Tensor, int]:
    """Return a network of 16 tensors with their gradients, its rows and labels, and the size of a batch."""
    hidden = [layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.ReLU())]
    inputs = torch.randn(4096, 64)
    labels = (inputs[:, :10] + 0.5 * torch.randn(4096, 10)).argmax(1)
    return nn.Sequential(*hidden, nn.Linear(64, 10)), inputs, labels, 32


def gpt() -> tuple[nn.Module, Tensor, Tensor, int]:
    """Return a transformer, its texts and their next words, and the size of a batch."""
    texts = (torch.randint(0, 64, (512, 1)) + 3 * torch.arange(9)) % 64
    return Thin(), texts[:, :8], texts[:, 1:], 8


MODELS = {"mlp": mlp, "gpt": gpt}

if __name__ == "__main__":
    main()
