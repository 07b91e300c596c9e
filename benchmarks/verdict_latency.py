"""How long a fault goes unnoticed: from the step that shows it to the verdict in the run, hop by hop.

    python -m benchmarks.verdict_latency [--where folder s3] [--trials 20] [--step-ms 10] [--busy 0] [--write]

In each trial a real training (PyTorch, unmodified, captured at default settings) makes a step every `--step-ms`, beside
a real evaluator with all default rules. At a moment of chance its loss turns NaN and stays so. The time runs from the
end of the first such optimizer step:

- stored: until its watermark lies in the run (the flush),
- seen: until a look of the evaluator has found it (the look),
- verdict: until `rule-output/verdicts.jsonl` holds the issue (judging and storing).

For each hop: the time, and the processor time of training and evaluator in it. On S3 (moto, in this process) also the
requests between the fault and its verdict. `--busy N` runs N endless loops beside it. The evaluator's share of a core
while it keeps up with the training is given for itself. `--write` puts the tables into docs/latency.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.pages import put
from benchmarks.engine.s3 import BUCKET, CountedS3, Peeked
from benchmarks.engine.usual import rules_of, usual_capture
from benchmarks.processes import processor_seconds
from trackside.contracts.capture_request import CaptureRequest, capture_environment
from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import PROGRESS_KEY, RULE_REQUEST_KEY, VERDICTS_KEY, RunLocation, watermark_key
from trackside.contracts.verdict import Outcome
from trackside.environment import inherited
from trackside.records.watermark import decode_watermark
from trackside.storage.open_store import open_store

PAGE = Path(__file__).parents[1] / "docs" / "latency.md"
WORKER = "worker_0"
LOOK_SECONDS = 0.01
MOST_SECONDS = 180.0
WARM_STEPS = 100
TARGETS = {"folder": (1.2, 2.5), "s3": (2.0, 4.0)}
POLL_SECONDS = {"folder": "0.5", "s3": "1"}  # as `trackside run` and a deployment set it
BUSY = "while True: pass"

TRAINING = """
import random, sys, time
import torch
pause, seed = float(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(seed)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
inputs = torch.randn(2048, 64)
labels = (inputs @ torch.randn(64, 10)).argmax(1)
fault_after, step = None, 0
due = time.monotonic()
while True:
    batch = torch.randint(0, 2048, (32,))
    is_broken = fault_after is not None and step >= fault_after
    optimizer.zero_grad()
    loss = criterion(model(inputs[batch]), labels[batch])
    (loss * float("nan") if is_broken else loss).backward()
    optimizer.step()
    if is_broken and fault_after == step:
        print("fault", step, time.time(), flush=True)
    if step == 100:
        print("warm", flush=True)
        fault_after = step + int(sys.stdin.readline())
    step += 1
    due = max(due + pause, time.monotonic() - pause)
    time.sleep(max(0.0, due - time.monotonic()))
"""


@dataclass(frozen=True)
class Stage:
    """The seconds of one hop, and the processor seconds of both processes in it."""

    seconds: float
    training_cpu: float
    evaluator_cpu: float


@dataclass(frozen=True)
class Trial:
    """One fault: the hops in order; `requests` by kind; the evaluator's share of a core before the fault."""

    stored: Stage
    seen: Stage
    verdict: Stage
    requests: dict[str, int]
    evaluator_share: float
    evaluator_start_cpu: float

    @property
    def seconds(self) -> float:
        return self.stored.seconds + self.seen.seconds + self.verdict.seconds


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    results: dict[str, list[Trial]] = {}
    with contextlib.ExitStack() as stack:
        for _ in range(options.busy):
            process = subprocess.Popen([sys.executable, "-c", BUSY])
            stack.callback(process.kill)
        for where in options.where:
            results[where] = list(_trials(where, options))
    name = "busy" if options.busy else "quiet"
    put(report(results, options), PAGE if options.write else None, begin=f"<!-- {name} -->", end=f"<!-- /{name} -->")
    return 0


def _trials(where: str, options: argparse.Namespace) -> Iterator[Trial]:
    import random

    chance = random.Random(options.seed)  # noqa: S311 - moments, no secrets
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(CountedS3()) if where == "s3" else None
        for number in range(options.trials):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="verdict-latency-"))
            uri = f"s3://{BUCKET}/run-{number}" if s3 else folder
            later = chance.randint(200, 500)
            yield _trial(uri, options.step_ms / 1000, seed=number, steps_to_fault=later, s3=s3)
            print(".", end="", file=sys.stderr, flush=True)


def _trial(uri: str, pause: float, *, seed: int, steps_to_fault: int, s3: CountedS3 | None) -> Trial:
    command = [sys.executable, "-c", TRAINING, str(pause), str(seed)]
    with processes_beside(uri, command, usual_capture(), s3=s3) as (training, evaluator):
        return _measured(RunLocation(uri), training, evaluator, steps_to_fault=steps_to_fault, s3=s3)


@contextlib.contextmanager
def processes_beside(
    uri: str, command: Sequence[str], capture: CaptureRequest, *, s3: CountedS3 | None
) -> Iterator[tuple[Any, Any]]:
    """Start a training with a run at `uri`, and an evaluator with all default rules beside it; end both.

    Args:
        uri: Location of the run.
        command: The training.
        capture: What is captured of it.
        s3: The server in which the run lies, if it lies in S3.
    """
    open_store(uri).put(RULE_REQUEST_KEY, RuleRequest(rules_of()).to_json().encode())
    basis = {k: v for k, v in inherited().items() if not k.startswith("TRACKSIDE_")}
    basis |= s3.environment if s3 else {}
    training = subprocess.Popen(
        command,
        env={**basis, **capture_environment(uri, capture)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    poll = POLL_SECONDS["s3" if s3 else "folder"]
    evaluator = subprocess.Popen(
        [sys.executable, "-m", "trackside.evaluation", "--run", uri, "--poll-seconds", poll],
        env={**basis, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield training, evaluator
    finally:
        for process in (training, evaluator):
            process.kill()
            process.wait()


def _measured(run: RunLocation, training: Any, evaluator: Any, *, steps_to_fault: int, s3: CountedS3 | None) -> Trial:
    peek: Callable[[str], Any] = Peeked if s3 else open_store
    watermarks, output = peek(run.watermarks), peek(run.rule_output)
    assert training.stdout.readline().strip() == "warm", "the training has ended"
    wait_for(lambda: judged_through(output) >= WARM_STEPS // 2, "the first verdicts")
    start_cpu = processor_seconds(evaluator.pid)
    began = time.time()
    training.stdin.write(f"{steps_to_fault}\n")
    training.stdin.flush()
    word, step, at = training.stdout.readline().split()
    assert word == "fault"
    fault_step, fault_at = int(step), float(at)
    moments = [(fault_at, processor_seconds(training.pid), processor_seconds(evaluator.pid))]
    share = (moments[0][2] - start_cpu) / (fault_at - began)
    wait_for(lambda: _through(watermarks) >= fault_step, "the watermark")
    moments.append((time.time(), processor_seconds(training.pid), processor_seconds(evaluator.pid)))
    wait_for(lambda: _issue(output) is not None, "the verdict")
    verdict_at = time.time()
    moments.append((verdict_at, processor_seconds(training.pid), processor_seconds(evaluator.pid)))
    issue = _issue(output) or {}
    seen_at = min(max(issue["detected_at"], moments[1][0]), verdict_at)
    stored = _stage(*moments[:2])
    rest = _stage(*moments[1:])
    looked = seen_at - moments[1][0]
    return Trial(
        stored=stored,
        seen=Stage(looked, 0.0, 0.0),
        verdict=Stage(rest.seconds - looked, rest.training_cpu, rest.evaluator_cpu),
        requests=s3.between(fault_at, verdict_at) if s3 else {},
        evaluator_share=share,
        evaluator_start_cpu=start_cpu,
    )


def _stage(start: tuple[float, float, float], end: tuple[float, float, float]) -> Stage:
    return Stage(end[0] - start[0], end[1] - start[1], end[2] - start[2])


def judged_through(output: Any) -> int:
    """Return the newest step that any rule has judged; -1 before."""
    try:
        rules = json.loads(output.get(PROGRESS_KEY))["rules"]
    except KeyNotFoundError:
        return -1
    return max((rule["judged_through"] for rule in rules), default=-1)


def _through(watermarks: Any) -> int:
    key = watermark_key(WORKER)
    try:
        return decode_watermark(watermarks.get(key), key=key, worker=WORKER).through
    except (KeyNotFoundError, RecordError):
        return -1


def _issue(output: Any) -> dict[str, Any] | None:
    try:
        lines = output.get(VERDICTS_KEY).decode().splitlines()
    except KeyNotFoundError:
        return None
    return next((v for v in map(json.loads, lines) if v["outcome"] == Outcome.ISSUE_FOUND.value), None)


def wait_for(is_present: Callable[[], bool], what: str) -> None:
    """Wait until it is there; leave this process if it never is."""
    deadline = time.monotonic() + MOST_SECONDS
    while not is_present():
        if time.monotonic() > deadline:
            sys.exit(f"Gave up after {MOST_SECONDS:g} s of waiting for {what}.")
        time.sleep(LOOK_SECONDS)


def report(results: dict[str, list[Trial]], options: argparse.Namespace) -> str:
    """The tables, as Markdown."""
    import torch

    circumstances = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}; "
        f"a step every {options.step_ms:g} ms, {options.trials} faults, {options.busy} busy loops beside it; "
        f"{time.strftime('%d %B %Y')}"
    )
    lines = [
        circumstances,
        "",
        "| | median | p95 | slowest | target (median, p95) |",
        "|---|---:|---:|---:|---:|",
    ]
    for where, trials in results.items():
        seconds = sorted(trial.seconds for trial in trials)
        target = " / ".join(f"{each:g} s" for each in TARGETS[where])
        figures = " | ".join(
            f"{each:.2f} s" for each in (statistics.median(seconds), quantile(seconds, 0.95), seconds[-1])
        )
        lines.append(f"| fault to verdict, {where} | {figures} | {target} |")
    lines += ["", "| hop | median | p95 | processor, training | processor, evaluator |", "|---|---:|---:|---:|---:|"]
    for where, trials in results.items():
        for name in ("stored", "seen", "verdict"):
            stages = [getattr(trial, name) for trial in trials]
            times = sorted(stage.seconds for stage in stages)
            cpu = [
                statistics.median(getattr(stage, f"{who}_cpu") for stage in stages) for who in ("training", "evaluator")
            ]
            lines.append(
                f"| {where}: {name} | {statistics.median(times):.2f} s | {quantile(times, 0.95):.2f} s "
                f"| {cpu[0]:.2f} s | {cpu[1]:.2f} s |"
            )
    lines += ["", "| | median | most |", "|---|---:|---:|"]
    for where, trials in results.items():
        shares = [trial.evaluator_share for trial in trials]
        lines.append(f"| evaluator's share of a core, {where} | {statistics.median(shares):.1%} | {max(shares):.1%} |")
        starts = [trial.evaluator_start_cpu for trial in trials]
        lines.append(
            f"| its processor time until the first {WARM_STEPS} steps are judged, {where} "
            f"| {statistics.median(starts):.2f} s | {max(starts):.2f} s |"
        )
        for kind in sorted({kind for trial in trials for kind in trial.requests}):
            counts = [trial.requests.get(kind, 0) for trial in trials]
            lines.append(f"| requests from fault to verdict, {kind} | {statistics.median(counts):g} | {max(counts)} |")
    return "\n".join(lines)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The nearest rank."""
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--where", nargs="+", choices=tuple(TARGETS), default=list(TARGETS))
    parser.add_argument("--trials", type=int, default=20, help="faults to wait for, in each place")
    parser.add_argument("--step-ms", type=float, default=10.0, help="time from one step to the next")
    parser.add_argument("--busy", type=int, default=0, help="endless loops beside it")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which the faults happen")
    parser.add_argument("--write", action="store_true", help=f"put the tables into docs/{PAGE.name}")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
