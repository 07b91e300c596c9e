"""Measure the cost of sampling the machine beside psutil, and that of each time that is taken of a step.

    python -m benchmarks.system_sampler --seconds 20 --psutil-python ENV/bin/python --write docs/profiling.md
    python -m benchmarks.system_sampler --traceml ENV/bin/python --write docs/profiling.md

The sampler runs as `trackside run` starts it; psutil, which is no dependency, reads most of the same facts and writes
the same lines, in a process of its own. The processor time is the kernel's, from three seconds after the start on.
The machine of 192 cores is a folder with the kernel's files of this machine, whose counters of processors are 192 and
grow: the kernel's own work to write that file is not in it. Times of a step are processor times of the training
thread, the quickest of five rounds. `--traceml` instead runs one script bare, under `trackside run` and under TraceML,
and takes the processor time of all their processes.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data._utils import fetch as fetching
from torch.utils.data._utils import pin_memory as pinning

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.times import machine
from trackside.capture.ground.guard import Guard
from trackside.environment import inherited
from trackside.frameworks.pytorch.data.batches import _batches_ready
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.frameworks.shared.replaced_methods import StepHooks
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, DATA, OPTIMIZER, PhaseClock
from trackside.profiling.processor_wait import ProcessorWait
from trackside.speed.machine import system_sampler
from trackside.speed.machine.system_files import SystemFiles
from trackside.speed.machine.system_metrics import OpenFiles, SystemMetrics
from trackside.speed.pytorch.fetch_times import FetchTimes
from trackside.speed.pytorch.module_times import ModuleTimer

STEP_SECONDS = 0.002
MANY_CORES = 192
START_SECONDS = 3.0
LAYERS = 10
SAMPLED = 5  # steps in a row
WHOLE = "<!-- measured by `python -m benchmarks.system_sampler --traceml` -->"
START, END = "<!-- measured by `python -m benchmarks.system_sampler` -->", "<!-- /system_sampler -->"
SCRIPT = Path(__file__).parent / "speed_faults" / "scripts" / "computing.py"
PSUTIL = """
import json, os, sys, time
import psutil
path, interval, parent = sys.argv[1], float(sys.argv[2]), psutil.Process(int(sys.argv[3]))
with open(path, "w") as file:
    due = time.monotonic()
    while True:
        now, rows = time.time(), []
        def add(kind, name, dimension, value):
            rows.append({"Type": kind, "Name": name, "Dimension": dimension, "Value": value, "NodeId": "algo-1",
                         "Timestamp": now})
        for number, core in enumerate(psutil.cpu_times_percent(percpu=True)):
            add("cpu", f"cpu{number}", "CPUUtilization", 100 - core.idle)
            add("cpu", f"cpu{number}", "I/OWaitPercentage", core.iowait)
        add("memory", "MemoryUsedPercent", "Platform", psutil.virtual_memory().percent)
        disk, network = psutil.disk_io_counters(), psutil.net_io_counters()
        add("i/o", "read", "Disk", disk.read_bytes)
        add("i/o", "written", "Disk", disk.write_bytes)
        add("network", "received", "Algorithm", network.bytes_recv)
        add("network", "sent", "Algorithm", network.bytes_sent)
        with parent.oneshot():
            add("process", "training", "ProcessCPUUtilization", parent.cpu_percent())
            add("process", "training", "ProcessMemoryBytes", parent.memory_info().rss)
        file.write("".join(json.dumps(row) + "\\n" for row in rows))
        file.flush()
        due += interval
        time.sleep(max(0.0, due - time.monotonic()))
"""


def share(command: list[str], seconds: float) -> float:
    """Return the share of a core that a command takes once it has started."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    counter = Path(f"/proc/{process.pid}/schedstat")  # nanoseconds on a processor, of its only thread
    time.sleep(START_SECONDS)
    began, before = time.monotonic(), int(counter.read_text().split()[0])
    time.sleep(seconds)
    taken, elapsed = int(counter.read_text().split()[0]) - before, time.monotonic() - began
    assert process.stdin is not None
    process.stdin.close()
    process.terminate()
    process.wait()
    return taken / 1e9 / elapsed


def clock_seconds(steps: int, waited: Callable[[], float | None]) -> float:
    """Return the seconds that the clock takes of one step, as the adapter calls it."""
    clock = PhaseClock(waited=waited)
    clock.take({})
    began = time.thread_time()
    for _ in range(steps):
        before = clock.enter(DATA)
        clock.enter(CAPTURE)
        clock.leave(before)
        before = clock.enter(CAPTURE)
        clock.enter(BACKWARD)
        clock.leave(before)
        clock.around_optimizer = clock.enter(CAPTURE)
        clock.enter(OPTIMIZER)
        clock.enter(CAPTURE)
        clock.take({})
        clock.leave_optimizer()
    return (time.thread_time() - began) / steps


def _no_wait() -> None:
    return None


def many_cores_seconds(folder: Path, samples: int = 40) -> float:
    """Return the processor seconds of a sample of a machine with many cores, with its lines written."""
    root = folder / "many-cores"
    for name in ("meminfo", "diskstats", "net/dev", "pressure/cpu", "pressure/io", "pressure/memory"):
        if (source := Path("/proc", name)).exists():
            (target := root / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    stat = root / "proc" / "stat"
    files = SystemFiles(str(folder / "samples"), node="algo-1")
    with mock.patch("os.cpu_count", return_value=MANY_CORES):
        metrics = SystemMetrics(OpenFiles(str(root)))
    taken = []
    for number in range(samples):
        counts = f"{1000 + 37 * number} 0 {500 + 5 * number} {9000 + 8 * number} {number} 0 0 0 0 0"
        names = ["cpu ", *(f"cpu{core}" for core in range(MANY_CORES))]
        stat.write_text("".join(f"{name} {counts}\n" for name in names))
        began = time.thread_time()
        files.add(metrics.sample(has_processes=False), wall_time=1_700_000_000.0 + number)
        taken.append(time.thread_time() - began)
    files.close()
    return sorted(taken[2:])[len(taken[2:]) // 2]


def each_seconds(act: Callable[[], object], count: int) -> float:
    """Return the processor seconds of a call on this thread: the quickest of five rounds."""

    def round_of() -> float:
        began = time.thread_time()
        for _ in range(count):
            act()
        return (time.thread_time() - began) / count

    return min(round_of() for _ in range(5))


def fetch_seconds() -> float:
    """Return what timing the making of a batch adds to it."""
    fetcher: Any = fetching._MapDatasetFetcher([0], False, None, False)
    fetcher.collate_fn = lambda data: data
    bare = each_seconds(lambda: fetcher.fetch(0), 20_000)
    hooks = StepHooks([*FetchTimes().step_hooks()])
    hooks.put_in()
    try:
        return each_seconds(lambda: fetcher.fetch(0), 20_000) - bare
    finally:
        hooks.take_out()


class Pinned:
    """A batch that costs nothing to pin."""

    def pin_memory(self) -> Pinned:
        return self


def pin_seconds() -> float:
    """Return what timing the copy to pinned memory adds to it."""
    batch = Pinned()
    bare = each_seconds(lambda: pinning.pin_memory(batch), 20_000)
    hooks = StepHooks([*FetchTimes().step_hooks()])
    hooks.put_in()
    try:
        return each_seconds(lambda: pinning.pin_memory(batch), 20_000) - bare
    finally:
        hooks.take_out()


def ready_seconds() -> float:
    """Return the time of counting the batches that workers have ready."""
    iterator = iter(DataLoader(TensorDataset(torch.zeros(64, 1)), batch_size=4, num_workers=2))
    next(iterator)
    return each_seconds(lambda: _batches_ready(iterator), 20_000)


def long_fetch_seconds() -> float:
    """Return the time of the look for a long fetch's wait for a processor."""
    wait = ProcessorWait()
    wait.take()
    return each_seconds(wait.so_far, 20_000)


def module_seconds() -> float:
    """Return what timing a module, forward and backward, adds to a sampled step, for each call of a module."""
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(LAYERS)))
    modules = TrainedModules(ParameterNames())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    modules.optimizer_created(optimizer)
    inputs = torch.zeros(4, 8)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()

    timer = ModuleTimer(modules, fuse=Fuse(Guard(), "timing modules"))

    def steps() -> None:
        for _ in range(SAMPLED):
            step()

    def sampled() -> None:
        timer.start()
        steps()
        timer.stop()

    added = each_seconds(sampled, 100) - each_seconds(steps, 100)
    timer.remove()
    return added / (SAMPLED * (LAYERS + 1))


def run_seconds(command: list[str], folder: Path) -> float:
    """Return the processor seconds of a command and all processes that it waited for."""
    folder.mkdir(parents=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**inherited(), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def beside_traceml(python: Path, folder: Path, rounds: int) -> Iterator[str]:
    """Yield the table of whole runs."""
    script = str(SCRIPT.absolute())
    commands = {
        "bare": [sys.executable, script],
        "`trackside run`, which judges too": [sys.executable, "-m", "trackside", "run", "--", sys.executable, script],
        "TraceML 0.5.0, `--mode summary`": [
            str(python.parent / "traceml"), "run", "--mode", "summary", "--logs-dir", "logs", script,
        ],
    }  # fmt: skip
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds):  # by turns
        for kind, (name, command) in enumerate(commands.items()):
            taken[name].append(run_seconds(command, folder / f"{number}-{kind}"))
    yield f"| `{SCRIPT.name}`, whole run | processor seconds, each of {rounds} |"
    yield "|---|---|"
    for name, seconds in taken.items():
        yield f"| {name} | {', '.join(f'{each:.1f}' for each in seconds)} |"
    yield ""
    yield f"Load of the machine {os.getloadavg()[0]:.1f}. {machine()}"


def rows(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yield the tables."""
    yield "| the machine, of one core | Trackside | psutil |"
    yield "|---|---|---|"
    for interval_ms in (500, 100):
        ours = [sys.executable, "-I", "-S", system_sampler.__file__, str(folder), "--process", str(os.getpid())]
        ours += ["--interval-ms", str(interval_ms)]
        psutil = [options.psutil_python, "-c", PSUTIL, f"{folder}/psutil", str(interval_ms / 1000), str(os.getpid())]
        yield (
            f"| every {interval_ms} ms | {share(ours, options.seconds):.3%} | {share(psutil, options.seconds):.3%} |"
        )
    many = many_cores_seconds(folder)
    for interval_ms in (500, 100):
        yield f"| {MANY_CORES} cores (files), every {interval_ms} ms | {1000 * many / interval_ms:.3%} | not measured |"
    yield ""
    yield f"| times of a step | us | of a step of {STEP_SECONDS * 1e3:g} ms |"
    yield "|---|---|---|"
    of_step = (
        (
            "phases, without the wait for a processor",
            min(clock_seconds(20_000, _no_wait) for _ in range(5)),
        ),
        (
            "phases, with the wait for a processor: each watched step",
            min(clock_seconds(20_000, ProcessorWait().take) for _ in range(5)),
        ),
        ("the making of a batch, without workers", fetch_seconds()),
        ("batches that workers have ready", ready_seconds()),
        ("a fetch of half a millisecond and more: its wait for a processor", long_fetch_seconds()),
    )
    for name, seconds in of_step:
        yield f"| {name} | {seconds * 1e6:.2f} | {seconds / STEP_SECONDS:.3%} |"
    yield f"| pinning a batch (the thread that pins) | {pin_seconds() * 1e6:.2f} | beside it |"
    yield f"| each call of a module, on {SAMPLED} sampled steps | {module_seconds() * 1e6:.1f} | in 15 s and more |"
    yield ""
    yield f"Load of the machine {os.getloadavg()[0]:.1f}. {machine()}"


def main() -> None:
    """Print the tables, or write them into a page."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--rounds", type=int, default=3, help="whole runs of each kind")
    options.add_argument("--psutil-python", default=sys.executable, help="an interpreter that has psutil")
    options.add_argument("--traceml", type=Path, help="an interpreter that has TraceML beside PyTorch")
    options.add_argument("--write", type=Path, help="the page with the markers")
    arguments = options.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        lines = (
            beside_traceml(arguments.traceml, folder, arguments.rounds)
            if arguments.traceml
            else rows(arguments, folder)
        )
        text = "\n".join(lines)
    finally:
        shutil.rmtree(folder)
    put(text, arguments.write, begin=WHOLE if arguments.traceml else START, end=END)


if __name__ == "__main__":
    main()
