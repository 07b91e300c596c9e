"""Measure what sampling the machine costs and weighs beside others, and what each time that is taken of a step costs.

    python -m benchmarks.system_sampler --psutil-python ENV/bin/python --write docs/profiling.md
    python -m benchmarks.system_sampler --sizes 60 --write docs/profiling.md
    python -m benchmarks.system_sampler --peers build/peers/bin/python --write docs/profiling.md
    python -m benchmarks.system_sampler --traceml ENV/bin/python --write docs/profiling.md

The sampler runs as `trackside run` starts it; psutil, which is no dependency, reads most of the same facts and writes
the same lines. All samplers run at once, so that they meet the same machine, and their processor time, the kernel's, is
read at the same moments: that of all threads and child processes, from ten seconds after the start on. The machine of
192 cores is a folder with the kernel's files of this machine, whose counters of processors are 192 and grow by random
shares: the kernel's own work to write that file is not in it. Times of a step are processor times of the training
thread, the quickest of five rounds.

`--sizes` writes the same samples in our files and in those of SageMaker Debugger. `--peers` takes an interpreter after
`pip install psutil wandb mlflow-skinny`: W&B (offline) and MLflow (a folder) run with system metrics and without, and
the difference counts; a step of a small network trains bare, within `torch.profiler` (processor only, without stacks)
and with the clock of Trackside's phases, in turns of some steps in one process, and the end of a profile counts apart.
`--traceml` runs one script bare, under `trackside run` and under TraceML, and takes the time of all their processes.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data._utils import fetch as fetching
from torch.utils.data._utils import pin_memory as pinning

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put, table
from benchmarks.processes import descendants
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
from trackside.speed.machine.system_metrics import Metric, OpenFiles, SystemMetrics
from trackside.speed.pytorch.fetch_times import FetchTimes
from trackside.speed.pytorch.module_times import ModuleTimer

INTERVAL_SECONDS = 0.5
PROCESSES_EVERY = 4  # samples, as the sampler looks at the training's processes
STEP_SECONDS = 0.002
MANY_CORES = 192
KERNEL_FILES = ("meminfo", "diskstats", "net/dev", "pressure/cpu", "pressure/io", "pressure/memory")
START_SECONDS = 10.0
LAYERS = 10
SAMPLED = 5  # steps in a row
TURN_STEPS = 20
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
Samples = list[tuple[float, list[Metric]]]


def own_samplers(python: str, folder: Path, seconds: float) -> dict[str, list[str]]:
    """Return the commands of our sampler and of psutil."""
    of = folder / f"{seconds:g}"
    ours = [sys.executable, "-I", "-S", system_sampler.__file__, f"{of}-ours", "--process", str(os.getpid())]
    return {
        f"Trackside {seconds:g}": [*ours, "--interval-ms", f"{1000 * seconds:g}"],
        f"psutil {seconds:g}": [python, "-c", PSUTIL, f"{of}-psutil", str(seconds), str(os.getpid())],
    }


def trackers(python: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield name and command of each tracker at each interval."""
    for name, script in (("W&B", WANDB), ("MLflow", MLFLOW)):
        for interval in (INTERVAL_SECONDS, DEFAULT, NONE):
            place = folder / f"{name[0]}{interval}"
            place.mkdir(parents=True)
            yield f"{name} {interval}", [python, "-c", script, str(place), str(interval)]


def tree_seconds(root: int) -> float:
    """Return the processor seconds of all threads of a process and of its descendants so far."""
    total = 0.0
    for process in (root, *descendants(root)):
        for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with suppress(OSError, ValueError):
                total += int(thread.read_text().split()[0]) / 1e9
    return total


def shares(commands: Mapping[str, list[str]], *, windows: int, seconds: float) -> dict[str, list[float]]:
    """Return the share of a core that each command takes, in each window of time."""
    quiet = {"WANDB_SILENT": "true", "GIT_PYTHON_REFRESH": "quiet", "MLFLOW_ALLOW_FILE_STORE": "true"}
    environment = {**inherited(), **quiet, "MLFLOW_DISABLE_TELEMETRY": "true"}
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
        for name, process in running.items():
            assert process.stdin is not None
            process.stdin.close()
            if name.startswith("psutil"):  # reads nothing
                process.terminate()
        for process in running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
    return found


def of_this_machine(seconds: float) -> Samples:
    """Return the samples of this machine over some seconds."""
    metrics = SystemMetrics(OpenFiles(), process=os.getpid())
    samples: Samples = []
    for number in range(int(seconds / INTERVAL_SECONDS)):
        samples.append((time.time(), metrics.sample(has_processes=number % PROCESSES_EVERY == 0)))
        time.sleep(INTERVAL_SECONDS)
    return samples


def of_many_cores(root: Path, count: int) -> tuple[Samples, list[float]]:
    """Return samples of a machine of many cores, made without waiting, and the processor seconds of each."""
    for name in KERNEL_FILES:
        if (source := Path("/proc", name)).exists():
            (target := root / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    clock, samples, taken = [0.0], Samples(), list[float]()
    chance = random.Random(0)  # noqa: S311 - no secret
    counts = [[0, 0, 0] for _ in range(MANY_CORES)]  # busy, idle, waiting: ticks of 10 ms
    with mock.patch("os.cpu_count", return_value=MANY_CORES):
        metrics = SystemMetrics(OpenFiles(str(root)), clock=lambda: clock[0])
    for number in range(count):
        clock[0] = number * INTERVAL_SECONDS
        for each in counts:
            busy = chance.randint(0, 50)
            each[0] += busy
            each[1] += 50 - busy
        all_cores = [sum(column) for column in zip(*counts, strict=True)]
        names = ["cpu ", *(f"cpu{core}" for core in range(MANY_CORES))]
        of = zip(names, [all_cores, *counts], strict=True)
        lines = [f"{name} {busy} 0 0 {idle} {waiting} 0 0 0 0 0" for name, (busy, idle, waiting) in of]
        (root / "proc" / "stat").write_text("\n".join(lines) + "\n")
        began = time.thread_time()
        samples.append((1_700_000_000 + clock[0], metrics.sample(has_processes=False)))
        taken.append(time.thread_time() - began)
    return samples, taken


def stored(samples: Samples, folder: Path, *, is_compact: bool) -> tuple[int, list[float]]:
    """Return the bytes of the files of some samples, and the processor seconds in which each is added to them."""
    files, taken = SystemFiles(str(folder), node="algo-1", is_compact=is_compact), list[float]()
    for wall_time, metrics in samples:
        began = time.thread_time()
        files.add(metrics, wall_time=wall_time)
        taken.append(time.thread_time() - began)
    files.close()
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), taken


def size_rows(seconds: float, folder: Path) -> Iterator[str]:
    """Yield the table of sizes."""
    of = {
        f"this machine, {os.cpu_count()} cores, {seconds:g} s": (of_this_machine(seconds), seconds),
        f"{MANY_CORES} cores (files), one hour": (of_many_cores(folder / "root", 7200)[0], 3600.0),
    }
    rows = []
    for place, (name, (samples, lasted)) in enumerate(of.items()):
        numbers = sum(len(metrics) for _, metrics in samples)
        ours, theirs = (
            stored(samples, folder / f"{place}-{is_compact}", is_compact=is_compact)[0] for is_compact in (True, False)
        )
        each = f"{ours / numbers:.2f}", f"{theirs / numbers:.0f}", f"1 / {theirs / ours:.0f}"
        rows.append((name, numbers, *each, f"{ours * 86400 / lasted / 1e6:.0f} MB"))
    yield from table("samples every 500 ms | numbers | bytes a number | SageMaker Debugger's | ratio | a day", rows)
    yield from ("", machine())


def each_seconds(act: Callable[[], object], count: int) -> float:
    """Return the processor seconds of a call on this thread: the quickest of five rounds."""

    def round_of() -> float:
        began = time.thread_time()
        for _ in range(count):
            act()
        return (time.thread_time() - began) / count

    return min(round_of() for _ in range(5))


def clock_seconds(waited: Callable[[], float | None]) -> float:
    """Return the seconds that the clock takes of one step, as the adapter calls it."""
    clock = PhaseClock(waited=waited)
    clock.take({})

    def step() -> None:
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

    return each_seconds(step, 20_000)


@contextmanager
def _fetches_timed() -> Iterator[None]:
    hooks = StepHooks([*FetchTimes().step_hooks()])
    hooks.put_in()
    try:
        yield
    finally:
        hooks.take_out()


def _added(act: Callable[[], object]) -> float:
    """Return what timing fetches adds to a call."""
    bare = each_seconds(act, 20_000)
    with _fetches_timed():
        return each_seconds(act, 20_000) - bare


def fetch_seconds() -> float:
    """Return what timing the making of a batch adds to it."""
    fetcher: Any = fetching._MapDatasetFetcher([0], False, None, False)
    fetcher.collate_fn = lambda data: data
    return _added(lambda: fetcher.fetch(0))


class Pinned:
    """A batch that costs nothing to pin."""

    def pin_memory(self) -> Pinned:
        return self


def pin_seconds() -> float:
    """Return what timing the copy to pinned memory adds to it."""
    batch = Pinned()
    return _added(lambda: pinning.pin_memory(batch))


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
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(LAYERS)))
    modules = TrainedModules(ParameterNames())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    modules.optimizer_created(optimizer)
    inputs = torch.zeros(4, 8)

    def steps() -> None:
        for _ in range(SAMPLED):
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()

    timer = ModuleTimer(modules, fuse=Fuse(Guard(), "timing modules"))

    def sampled() -> None:
        timer.start()
        steps()
        timer.stop()

    added = each_seconds(sampled, 100) - each_seconds(steps, 100)
    timer.remove()
    return added / (SAMPLED * (LAYERS + 1))


def rows(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yield the tables of our own costs."""
    commands = {k: v for s in (0.5, 0.1) for k, v in own_samplers(options.psutil_python, folder, s).items()}
    found = shares(commands, windows=options.windows, seconds=options.seconds)
    samples, sampled = of_many_cores(folder / "many", 40)
    _, added = stored(samples, folder / "many-ours", is_compact=True)
    many = statistics.median(one + other for one, other in zip(sampled[2:], added[2:], strict=True))
    of_machine = [
        (
            f"every {1000 * s:g} ms",
            *(f"{statistics.median(found[f'{who} {s:g}']):.3%}" for who in ("Trackside", "psutil")),
        )
        for s in (0.5, 0.1)
    ]
    of_machine += [
        (f"{MANY_CORES} cores (files), every {1000 * s:g} ms", f"{many / s:.3%}", "not measured") for s in (0.5, 0.1)
    ]
    yield from table("the machine, of one core | Trackside | psutil", of_machine)
    yield ""
    of_step = {
        "phases, without the wait for a processor": clock_seconds(lambda: None),
        "phases, with the wait for a processor: each watched step": clock_seconds(ProcessorWait().take),
        "the making of a batch, without workers": fetch_seconds(),
        "batches that workers have ready": ready_seconds(),
        "a fetch of half a millisecond and more: its wait for a processor": long_fetch_seconds(),
    }
    cells = [(name, f"{each * 1e6:.2f}", f"{each / STEP_SECONDS:.3%}") for name, each in of_step.items()]
    cells.append(("pinning a batch (the thread that pins)", f"{pin_seconds() * 1e6:.2f}", "beside it"))
    cells.append(
        (f"each call of a module, on {SAMPLED} sampled steps", f"{module_seconds() * 1e6:.1f}", "in 15 s and more")
    )
    yield from table(f"times of a step | us | of a step of {STEP_SECONDS * 1e3:g} ms", cells)
    yield from ("", f"Load of the machine {os.getloadavg()[0]:.1f}. {machine()}")


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

    def turn(name: str, act: Callable[[], None]) -> None:
        began = time.thread_time()
        for _ in range(TURN_STEPS):
            act()
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


def peer_rows(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yield the tables beside trackers and a profiler."""
    commands = own_samplers(options.peers, folder, INTERVAL_SECONDS) | dict(trackers(options.peers, folder))
    found = shares(commands, windows=options.windows, seconds=options.seconds)
    every = f"every {1000 * INTERVAL_SECONDS:g} ms"
    of_kinds = {f"{who}, {every}": found[f"{who} {INTERVAL_SECONDS:g}"] for who in ("Trackside", "psutil")}
    ours = statistics.median(found[f"Trackside {INTERVAL_SECONDS:g}"])
    for name, default in (("W&B", "15 s"), ("MLflow", "10 s")):
        for interval, text in ((INTERVAL_SECONDS, every), (DEFAULT, f"its default, every {default}")):
            pairs = zip(found[f"{name} {interval}"], found[f"{name} {NONE}"], strict=True)
            of_kinds[f"{name}'s system metrics, {text}"] = [one - other for one, other in pairs]
    yield from table(
        "sampling the machine | of one core, median (least to most) | over Trackside's 500 ms",
        ((name, _in_percent(own), f"{statistics.median(own) / ours:.2f}") for name, own in of_kinds.items()),
    )
    yield ""
    times = step_microseconds(options.turns)
    bare = statistics.median(times["bare"])
    whole = [one + other for one, other in zip(times["profiler"], times["end"], strict=True)]
    kinds = {"Trackside's clock of phases, at every step": times["phases"]}
    kinds["`torch.profiler`, bare, while it records"] = whole
    cells = []
    for name, values in kinds.items():
        more = [one - other for one, other in zip(values, times["bare"], strict=True)]
        low, middle, high = statistics.quantiles(more, n=4)
        cells.append((name, f"{middle:.1f}", f"{low:.1f} to {high:.1f}", f"{1 + middle / bare:.3f}"))
    yield from table(f"a step of {bare / 1000:.2f} ms | us more than bare, median | quarters | ratio to bare", cells)
    yield ""
    yield (
        f"{options.windows} windows of {options.seconds:g} s, {options.turns} turns of {TURN_STEPS} steps; "
        f"{versions(options.peers)}. Load of the machine {os.getloadavg()[0]:.1f}. {machine()}"
    )


def versions(python: str) -> str:
    """Return the versions of the peers."""
    script = (
        "from importlib.metadata import version as v; "
        "print(', '.join(f'{name} {v(name)}' for name in ('psutil', 'wandb', 'mlflow-skinny')))"
    )
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def run_seconds(command: list[str], folder: Path) -> float:
    """Return the processor seconds of a command and all processes that it waited for."""
    folder.mkdir(parents=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**inherited(), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def whole_run_rows(python: Path, folder: Path, rounds: int) -> Iterator[str]:
    """Yield the table of whole runs beside TraceML."""
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
    yield from table(
        f"`{SCRIPT.name}`, whole run | processor seconds, each of {rounds}",
        ((name, ", ".join(f"{each:.1f}" for each in seconds)) for name, seconds in taken.items()),
    )
    yield from ("", f"Load of the machine {os.getloadavg()[0]:.1f}. {machine()}")


def main() -> None:
    """Print tables, or write them into a page."""
    options = parser(__doc__)
    options.add_argument("--windows", type=int, default=6)
    options.add_argument("--seconds", type=float, default=20.0, help="of a window")
    options.add_argument("--turns", type=int, default=100, help="of steps")
    options.add_argument("--rounds", type=int, default=3, help="whole runs of each kind")
    options.add_argument("--psutil-python", default=sys.executable, help="an interpreter that has psutil")
    options.add_argument(
        "--sizes", type=float, metavar="SECONDS", help="measure sizes instead; of sampling this machine"
    )
    options.add_argument("--peers", metavar="PYTHON", help="measure beside trackers instead, in this interpreter")
    options.add_argument("--traceml", type=Path, metavar="PYTHON", help="measure whole runs beside TraceML instead")
    options.add_argument("--write", type=Path, help="the page with the markers")
    given = options.parse_args()
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="sampler-"))
    try:
        if given.traceml:
            kind, lines = " --traceml", whole_run_rows(given.traceml, folder, given.rounds)
        elif given.sizes:
            kind, lines = " --sizes", size_rows(given.sizes, folder)
        elif given.peers:
            kind, lines = " --peers", peer_rows(given, folder)
        else:
            kind, lines = "", rows(given, folder)
        text = "\n".join(lines)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    begin = f"<!-- measured by `python -m benchmarks.system_sampler{kind}` -->"
    put(text, given.write, begin=begin, end="<!-- /system_sampler -->")


if __name__ == "__main__":
    main()
