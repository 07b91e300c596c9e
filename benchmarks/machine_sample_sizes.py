"""Measure the size of samples of the machine: Trackside's files and those of SageMaker Debugger, of the same samples.

    python -m benchmarks.machine_sample_sizes --seconds 60 --write docs/profiling.md

This machine is sampled as `trackside run` samples it, every 500 ms. The machine of 192 cores is a folder with the
kernel's files of this machine, whose counters of processors are 192 and grow by random shares: no core repeats itself.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.times import machine
from trackside.speed.machine.system_files import SystemFiles
from trackside.speed.machine.system_metrics import Metric, OpenFiles, SystemMetrics

INTERVAL_SECONDS = 0.5
PROCESSES_EVERY = 4  # samples, as the sampler looks at the training's processes
MANY_CORES = 192
KERNEL_FILES = ("meminfo", "diskstats", "net/dev", "pressure/cpu", "pressure/io", "pressure/memory")
START, END = "<!-- measured by `python -m benchmarks.machine_sample_sizes` -->", "<!-- /machine_sample_sizes -->"
Samples = list[tuple[float, list[Metric]]]


def of_this_machine(seconds: float) -> Samples:
    """Return the samples of this machine over some seconds."""
    metrics = SystemMetrics(OpenFiles(), process=os.getpid())
    samples: Samples = []
    for number in range(int(seconds / INTERVAL_SECONDS)):
        samples.append((time.time(), metrics.sample(has_processes=number % PROCESSES_EVERY == 0)))
        time.sleep(INTERVAL_SECONDS)
    return samples


def of_many_cores(root: Path, seconds: float) -> Samples:
    """Return the samples of a machine of many cores, made without waiting."""
    for name in KERNEL_FILES:
        if (source := Path("/proc", name)).exists():
            (target := root / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    clock = [0.0]
    chance = random.Random(0)  # noqa: S311 - no secret
    counts = [[0, 0, 0] for _ in range(MANY_CORES)]  # busy, idle, waiting: ticks of 10 ms
    with mock.patch("os.cpu_count", return_value=MANY_CORES):
        metrics = SystemMetrics(OpenFiles(str(root)), clock=lambda: clock[0])
    samples: Samples = []
    for number in range(int(seconds / INTERVAL_SECONDS)):
        clock[0] = number * INTERVAL_SECONDS
        for count in counts:
            busy = chance.randint(0, 50)
            count[0] += busy
            count[1] += 50 - busy
        all_cores = [sum(column) for column in zip(*counts, strict=True)]
        names = ["cpu ", *(f"cpu{core}" for core in range(MANY_CORES))]
        of = zip(names, [all_cores, *counts], strict=True)
        lines = [f"{name} {busy} 0 0 {idle} {waiting} 0 0 0 0 0" for name, (busy, idle, waiting) in of]
        (root / "proc" / "stat").write_text("\n".join(lines) + "\n")
        samples.append((1_700_000_000 + clock[0], metrics.sample(has_processes=False)))
    return samples


def stored_bytes(samples: Samples, folder: Path, *, is_compact: bool) -> int:
    """Return the bytes of the files of some samples."""
    files = SystemFiles(str(folder), node="algo-1", is_compact=is_compact)
    for wall_time, metrics in samples:
        files.add(metrics, wall_time=wall_time)
    files.close()
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def rows(seconds: float, folder: Path) -> Iterator[str]:
    """Yield the table."""
    yield "| samples every 500 ms | numbers | bytes a number | SageMaker Debugger's | ratio | a day |"
    yield "|---|---|---|---|---|---|"
    of = {
        f"this machine, {os.cpu_count()} cores, {seconds:g} s": (of_this_machine(seconds), seconds),
        f"{MANY_CORES} cores (files), one hour": (of_many_cores(folder / "root", 3600), 3600.0),
    }
    for place, (name, (samples, lasted)) in enumerate(of.items()):
        numbers = sum(len(metrics) for _, metrics in samples)
        ours = stored_bytes(samples, folder / f"{place}-ours", is_compact=True)
        theirs = stored_bytes(samples, folder / f"{place}-theirs", is_compact=False)
        each = f"{ours / numbers:.2f} | {theirs / numbers:.0f} | 1 / {theirs / ours:.0f}"
        yield f"| {name} | {numbers} | {each} | {ours * 86400 / lasted / 1e6:.0f} MB |"
    yield ""
    yield machine()


def main() -> None:
    """Print the table, or write it into a page."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=60.0, help="of sampling this machine")
    options.add_argument("--write", type=Path, help="the page with the markers")
    arguments = options.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        text = "\n".join(rows(arguments.seconds, folder))
    finally:
        shutil.rmtree(folder)
    put(text, arguments.write, begin=START, end=END)


if __name__ == "__main__":
    main()
