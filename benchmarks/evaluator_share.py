"""The evaluator's share of a core beside a training of 100 steps a second, with default rules and default capture.

    .venv/bin/python -m benchmarks.evaluator_share [--seconds 40] [--s3] [--against OTHER/training_lib/src]

For each model a training runs at that pace in a process of its own, and beside it the evaluator that `trackside run`
starts, with its own settings. Its processor time is read every second (user and system, all threads). `start` is what
it has used when it first says how far it is; the share is that of the seconds after `--warm-up` of them, with the
quartiles of the mean over five seconds in a row (it judges in bursts), and what that is for each step it judged.
`every step` lets the statistics cost as much as they like, so that gradients are measured at each step: the most that
an evaluator may have to read.

With `--s3` the run lies in moto's S3, served by this process, and the evaluator looks once a second, as in a
deployment. moto closes each connection; AWS keeps them open and encrypts them.

With `--against`, evaluators of two trees watch the same training at the same time, each with an output of its own: the
second sees the first's run through links. Target: at most 5 % of a core.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.capture_workloads import Block
from benchmarks.verdict_latency import BUCKET, POLL_SECONDS, CountedS3, Peeked
from trackside.contracts.capture_request import capture_environment
from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run_layout import PROGRESS_KEY, RULE_OUTPUT, RULE_REQUEST_KEY
from trackside.environment import inherited
from trackside.local.evaluator_process import EvaluatorProcess
from trackside.rules.catalogue import default_request
from trackside.storage.open_store import open_store

MODELS = ("mlp", "gpt")
BUDGETS = {"default": None, "every step": 1.0}
TICKS = os.sysconf("SC_CLK_TCK")
MOST_START_SECONDS = 120.0
WRITTEN = {"debug-output", "statistics", "watermarks"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=40, help="of training that are looked at (default 40)")
    parser.add_argument("--warm-up", type=int, default=5, help="seconds after the start that are left out (default 5)")
    parser.add_argument("--steps-per-second", type=float, default=100.0, help="pace of the training (default 100)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--s3", action="store_true", help="the run lies in S3 (moto)")
    parser.add_argument("--against", metavar="PATH", help="the `training_lib/src` of another tree to compare with")
    parser.add_argument("--train", nargs=2, metavar=("MODEL", "PACE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train[0], pace=float(options.train[1]))
        return
    if options.s3 and options.against:
        parser.error("--s3 and --against: evaluators of two trees share a run by links, which S3 has not")
    trees = {"this tree": None, **({"the other": options.against} if options.against else {})}
    print(f"{options.seconds} s at {options.steps_per_second:g} steps a second; target: at most 5 % of a core\n")
    print(f"{'':24} {'':10} {'steps/s':>8} {'start':>8} {'share of a core (quartiles)':>30} {'a step':>9}")
    for model in options.models:
        for name, budget in BUDGETS.items():
            measured = measure_in_s3(options, model, budget) if options.s3 else measure(options, model, budget, trees)
            for tree, found in measured.items():
                shares, steps = found["shares"], found["steps"]
                smooth = [statistics.fmean(shares[at : at + 5]) for at in range(len(shares) - 4)]
                low, _, high = statistics.quantiles(smooth, n=4)
                figures = f"{statistics.fmean(shares):.2%} ({low:.2%} to {high:.2%})"
                per_step = f"{1000 * sum(shares) / max(1, steps):.3f} ms"
                pace, what = steps / len(shares), f"{model}, {name}"
                print(
                    f"{what:24} {tree:10} {pace:8.0f} {found['start']:6.2f} s {figures:>30} {per_step:>9}", flush=True
                )


def measure(options, model, budget, trees):
    """By tree: the processor seconds of the start and of each second that counts, and the steps judged in these."""
    with tempfile.TemporaryDirectory(prefix="evaluator-share-") as folder:
        request, capture = requests(budget)
        runs = {tree: Path(folder, str(number)) for number, tree in enumerate(trees)}
        first = next(iter(runs.values()))
        for run in runs.values():
            run.mkdir()
            (run / RULE_REQUEST_KEY).write_text(request.to_json())
        command = [sys.executable, "-m", "benchmarks.evaluator_share", "--train", model, str(options.steps_per_second)]
        environment = {**inherited(), **capture_environment(str(first), capture)}
        training = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)
        evaluators = {}
        try:
            wait_for(lambda: {path.name for path in first.iterdir()} >= WRITTEN, "the training")
            for tree, run in runs.items():
                if run is not first:
                    for name in WRITTEN:
                        (run / name).symlink_to(first / name)
                evaluators[tree] = start_evaluator(run, trees[tree])
            pids = {tree: evaluator.pid for tree, evaluator in evaluators.items()}
            return watch(pids, {tree: run / RULE_OUTPUT / PROGRESS_KEY for tree, run in runs.items()}, options)
        finally:
            for evaluator in evaluators.values():
                evaluator.finish(grace_seconds=10)
            training.kill()
            training.wait()


def measure_in_s3(options, model, budget):
    """As `measure`, of this tree alone."""
    request, capture = requests(budget)
    with CountedS3() as s3:
        run = f"s3://{BUCKET}/{model}-{budget}"
        open_store(run).put(RULE_REQUEST_KEY, request.to_json().encode())
        basis = {**inherited(), **s3.environment}
        training = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.evaluator_share", "--train", model, str(options.steps_per_second)],
            env={**basis, **capture_environment(run, capture)},
            stdin=subprocess.PIPE,
        )
        evaluator = subprocess.Popen(
            [sys.executable, "-m", "trackside.evaluation", "--run", run, "--poll-seconds", POLL_SECONDS["s3"]],
            env={**basis, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        try:
            return watch(
                {"this tree": evaluator.pid}, {"this tree": InS3(f"{RULE_OUTPUT}/{PROGRESS_KEY}", run)}, options
            )
        finally:
            for process in (training, evaluator):
                process.kill()
                process.wait()


class InS3:
    """An object of the bucket, read like a file."""

    def __init__(self, key, run):
        self._key, self._objects = key, Peeked(run)

    def exists(self):
        try:
            return bool(self._objects.get(self._key))
        except KeyNotFoundError:
            return False

    def read_text(self):
        return self._objects.get(self._key).decode()


def requests(budget):
    """The default rules, and what they ask to be captured."""
    request = default_request()
    capture = built_in_catalogue().capture_request(request)
    if budget is not None:
        capture = replace(capture, statistics=replace(capture.statistics, budget=budget))
    return request, capture


def start_evaluator(run, source):
    environment = {**inherited(), **({"PYTHONPATH": str(Path(source).resolve())} if source else {})}
    evaluator = EvaluatorProcess(run, environment=environment, note=print, monotonic=time.monotonic)
    evaluator.tend()
    return evaluator


def watch(pids, progress, options):
    """`pids`, `progress`: by tree, an evaluator's process and its progress file."""
    for path in progress.values():
        wait_for(path.exists, "an evaluator's first answer")
    start = {tree: processor_seconds(pid) for tree, pid in pids.items()}
    time.sleep(options.warm_up)
    first = {tree: judged_through(path) for tree, path in progress.items()}
    marks = [{tree: processor_seconds(pid) for tree, pid in pids.items()}]
    times = [time.monotonic()]
    for _ in range(options.seconds):
        time.sleep(1.0)
        times.append(time.monotonic())
        marks.append({tree: processor_seconds(pid) for tree, pid in pids.items()})
    seconds = [after - before for before, after in itertools.pairwise(times)]
    return {
        tree: {
            "start": start[tree],
            "shares": [(b[tree] - a[tree]) / s for (a, b), s in zip(itertools.pairwise(marks), seconds, strict=True)],
            "steps": judged_through(progress[tree]) - first[tree],
        }
        for tree in pids
    }


def judged_through(progress):
    return max(rule["judged_through"] for rule in json.loads(progress.read_text())["rules"])


def processor_seconds(pid):
    """User and system time of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait_for(is_present, what):
    until = time.monotonic() + MOST_START_SECONDS
    while not is_present():
        if time.monotonic() > until:
            sys.exit(f"Gave up after {MOST_START_SECONDS:g} s of waiting for {what}.")
        time.sleep(0.05)


def train(name, *, pace):
    """A training that learns, at `pace` steps a second, until it is killed."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, batch = (mlp if name == "mlp" else gpt)(torch, nn)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    loss_of = nn.CrossEntropyLoss()
    due = time.monotonic()
    while True:
        inputs, labels = batch()
        optimizer.zero_grad()
        loss_of(model(inputs), labels).backward()
        optimizer.step()
        due = max(due + 1 / pace, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))


def mlp(torch, nn):
    """16 tensors with their gradients."""
    hidden = [layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.ReLU())]
    inputs = torch.randn(4096, 64)
    labels = (inputs[:, :10] + 0.5 * torch.randn(4096, 10)).argmax(1)
    return nn.Sequential(*hidden, nn.Linear(64, 10)), lambda: pick(torch, inputs, labels, 32)


def gpt(torch, nn):
    """154 tensors with their gradients, as thin as they can be."""

    class Gpt(nn.Module):
        def __init__(self, *, width=8, layers=6, words=64):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.blocks = nn.Sequential(*[Block(width, 2) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

        def forward(self, tokens):
            return self.head(self.norm(self.blocks(self.words(tokens)))).transpose(1, 2)

    starts = torch.randint(0, 64, (512, 1))
    texts = (starts + 3 * torch.arange(9)) % 64
    return Gpt(), lambda: pick(torch, texts[:, :8], texts[:, 1:], 8)


def pick(torch, inputs, labels, count):
    chosen = torch.randint(0, len(inputs), (count,))
    return inputs[chosen], labels[chosen]


if __name__ == "__main__":
    main()
