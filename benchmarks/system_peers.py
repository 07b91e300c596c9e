"""Measure the cost of sampling a machine beside psutil, W&B and MLflow, and of timing a step beside torch.profiler.

    python -m venv build/peers && build/peers/bin/pip install psutil wandb mlflow-skinny
    python -m benchmarks.system_peers --python build/peers/bin/python --write docs/profiling.md

All samplers run at once, so that they meet the same machine, and their processor time is read at the same moments: that
of all threads and child processes, from ten seconds after the start on. W&B (offline) and MLflow (a folder) run twice,
with system metrics and without; the difference is what counts. The spread is over the windows of time.

A step of a small network trains bare, within `torch.profiler` (processor only, without stacks), and with the clock of
Trackside's phases, in turns of some steps in one process. The end of a profile, which makes its events, counts apart.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.processes import descendants
from benchmarks.system_sampler import PSUTIL
from benchmarks.times import machine
from trackside.environment import inherited
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, DATA, OPTIMIZER, PhaseClock
from trackside.profiling.processor_wait import ProcessorWait
from trackside.speed.machine import system_sampler

START, END = "<!-- measured by `python -m benchmarks.system_peers` -->", "<!-- /system_peers -->"
START_SECONDS = 10.0
INTERVAL_MS = 500
TURN_STEPS = 20
WANDB = """
import sys, wandb
interval = float(sys.argv[2])
of_interval = {"x_stats_sampling_interval": interval} if interval > 0 else {}
settings = wandb.Settings(x_disable_stats=interval < 0, console="off", silent=True, **of_interval)
with wandb.init(mode="offline", project="peers", dir=sys.argv[1], settings=settings):
    sys.stdin.read()
"""
MLFLOW = """
import sys, mlflow
interval = float(sys.argv[2])
mlflow.set_tracking_uri(f"file://{sys.argv[1]}/mlruns")
if interval > 0:
    mlflow.set_system_metrics_sampling_interval(interval)
    mlflow.set_system_metrics_samples_before_logging(1)
with mlflow.start_run(log_system_metrics=interval >= 0):
    sys.stdin.read()
"""
DEFAULT, NONE = 0.0, -1.0  # intervals of a tracker: its own, and no system metrics


def samplers(python: str, folder: Path) -> dict[str, list[str]]:
    """Return the command of each sampler."""
    seconds = INTERVAL_MS / 1000
    ours = [sys.executable, "-I", "-S", system_sampler.__file__, f"{folder}/ours", "--process", str(os.getpid())]
    found = {
        "Trackside": [*ours, "--interval-ms", str(INTERVAL_MS)],
        "psutil": [python, "-c", PSUTIL, f"{folder}/psutil", str(seconds), str(os.getpid())],
    }
    for name, script in (("W&B", WANDB), ("MLflow", MLFLOW)):
        for interval in (seconds, DEFAULT, NONE):
            place = folder / f"{name[0]}{interval}"
            place.mkdir(parents=True)
            found[f"{name} {interval}"] = [python, "-c", script, str(place), str(interval)]
    return found


def tree_seconds(root: int) -> float:
    """Return the processor seconds of all threads of a process and of its descendants so far."""
    total = 0.0
    for process in (root, *descendants(root)):
        for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with suppress(OSError, ValueError):
                total += int(thread.read_text().split()[0]) / 1e9
    return total


def shares(commands: dict[str, list[str]], *, windows: int, seconds: float) -> dict[str, list[float]]:
    """Return the share of a core that each command takes, in each window of time."""
    environment = {
        **inherited(),
        "WANDB_SILENT": "true",
        "GIT_PYTHON_REFRESH": "quiet",
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    environment["MLFLOW_DISABLE_TELEMETRY"] = "true"
    running = {
        name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
        for name, command in commands.items()
    }
    found: dict[str, list[float]] = {name: [] for name in running}
    try:
        time.sleep(START_SECONDS)
        for number in range(windows):
            before = {name: (time.monotonic(), tree_seconds(process.pid)) for name, process in running.items()}
            time.sleep(seconds)
            for name, process in running.items():
                began, then = before[name]
                found[name].append((tree_seconds(process.pid) - then) / (time.monotonic() - began))
            print(f"window {number + 1} of {windows}", file=sys.stderr, flush=True)
        ended = [name for name, process in running.items() if process.poll() is not None]
        if ended:
            raise SystemExit(f"{', '.join(ended)}: not running any more")
    finally:
        for process in running.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
    return found


class Training:
    """Steps of a small network of some two milliseconds, timed in three ways."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.inputs, self.labels = torch.randn(64, 64), torch.randint(0, 10, (64,))
        self.clock = PhaseClock(waited=ProcessorWait().take)
        self.clock.take({})

    def step(self) -> None:
        """Take a step."""
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self.inputs), self.labels).backward()
        self.optimizer.step()

    def timed_step(self) -> None:
        """Take a step, with the changes of phase of Trackside's clock around its parts."""
        clock = self.clock
        before = clock.enter(DATA)
        clock.leave(before)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.inputs), self.labels)
        before = clock.enter(BACKWARD)
        loss.backward()
        clock.leave(before)
        clock.around_optimizer = clock.enter(OPTIMIZER)
        self.optimizer.step()
        clock.enter(CAPTURE)
        clock.take({})
        clock.leave_optimizer()


def step_microseconds(turns: int) -> dict[str, list[float]]:
    """Return the processor time of a step on the training thread, of each kind, in each turn, in microseconds."""
    training = Training()
    for _ in range(50):
        training.step()
    found: dict[str, list[float]] = defaultdict(list)

    def turn(name: str, act: object) -> None:
        began = time.thread_time()
        for _ in range(TURN_STEPS):
            act()  # type: ignore[operator]
        found[name].append(1e6 * (time.thread_time() - began) / TURN_STEPS)

    for _ in range(turns):
        turn("bare", training.step)
        turn("phases", training.timed_step)
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        profile.start()
        turn("profiler", training.step)
        began = time.thread_time()
        profile.stop()
        found["end"].append(1e6 * (time.thread_time() - began) / TURN_STEPS)
    return found


def _in_percent(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3%} ({min(values):.3%} to {max(values):.3%})"


def rows(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yield both tables."""
    found = shares(samplers(options.python, folder), windows=options.windows, seconds=options.seconds)
    seconds = INTERVAL_MS / 1000
    ours = found["Trackside"]
    of_kinds = {f"Trackside, every {INTERVAL_MS} ms": ours, f"psutil, every {INTERVAL_MS} ms": found["psutil"]}
    for name, default in (("W&B", "15 s"), ("MLflow", "10 s")):
        for interval, text in ((seconds, f"every {INTERVAL_MS} ms"), (DEFAULT, f"its default, every {default}")):
            pairs = zip(found[f"{name} {interval}"], found[f"{name} {NONE}"], strict=True)
            of_kinds[f"{name}'s system metrics, {text}"] = [one - other for one, other in pairs]
    yield "| sampling the machine | of one core, median (least to most) | over Trackside's 500 ms |"
    yield "|---|---|---|"
    for name, values in of_kinds.items():
        ratio = statistics.median(values) / statistics.median(ours)
        yield f"| {name} | {_in_percent(values)} | {ratio:.2f} |"
    yield ""
    times = step_microseconds(options.turns)
    bare = statistics.median(times["bare"])
    yield f"| a step of {bare / 1000:.2f} ms | us more than bare, median | quarters | ratio to bare |"
    yield "|---|---|---|---|"
    whole = [one + other for one, other in zip(times["profiler"], times["end"], strict=True)]
    kinds = {
        "Trackside's clock of phases, at every step": times["phases"],
        "`torch.profiler`, bare, while it records": whole,
    }
    for name, values in kinds.items():
        more = [one - other for one, other in zip(values, times["bare"], strict=True)]
        low, middle, high = statistics.quantiles(more, n=4)
        yield f"| {name} | {middle:.1f} | {low:.1f} to {high:.1f} | {1 + middle / bare:.3f} |"
    yield ""
    yield (
        f"{options.windows} windows of {options.seconds:g} s, {options.turns} turns of {TURN_STEPS} steps; "
        f"{versions(options.python)}. Load of the machine {os.getloadavg()[0]:.1f}. {machine()}"
    )


def versions(python: str) -> str:
    """Return the versions of the peers."""
    script = (
        "from importlib.metadata import version as v; "
        "print(', '.join(f'{name} {v(name)}' for name in ('psutil', 'wandb', 'mlflow-skinny')))"
    )
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Print the tables, or write them into a page."""
    options = parser(__doc__)
    options.add_argument("--python", required=True, help="an interpreter that has psutil, wandb and mlflow-skinny")
    options.add_argument("--windows", type=int, default=6)
    options.add_argument("--seconds", type=float, default=20.0, help="of a window")
    options.add_argument("--turns", type=int, default=100)
    options.add_argument("--write", type=Path, help="the page with the markers")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="peers-"))
    try:
        text = "\n".join(rows(arguments, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    put(text, arguments.write, begin=START, end=END)


if __name__ == "__main__":
    main()
