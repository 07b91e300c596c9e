"""Measure the cost of sampling the machine beside psutil, and that of timing the phases of a step.

    python benchmarks/system_sampler.py --seconds 20 --psutil-python ENV/bin/python

The sampler runs as `trackside run` starts it; psutil, which is no dependency, reads most of the same facts and writes
the same lines, in a process of its own. The processor time is the kernel's, without the start's: that of a short run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from trackside.profiling import system_sampler
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, DATA, OPTIMIZER, PhaseClock
from trackside.profiling.processor_wait import ProcessorWait

STEP_SECONDS = 0.002
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


def processor_seconds(command: list[str], seconds: float) -> float:
    """Run a command for a time, and return its processor time."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    time.sleep(seconds)
    assert process.stdin is not None
    process.stdin.close()
    process.terminate()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def share(command: list[str], seconds: float) -> float:
    """Return the share of a core that a command takes, without its start."""
    start = 2.0
    return (processor_seconds(command, start + seconds) - processor_seconds(command, start)) / seconds


def clock_seconds(steps: int) -> float:
    """Return the seconds that the clock takes of one step, as the adapter calls it."""
    clock = PhaseClock(waited=ProcessorWait().take)
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--psutil-python", default=sys.executable, help="an interpreter that has psutil")
    options = parser.parse_args()
    seconds = options.seconds
    with tempfile.TemporaryDirectory() as folder:
        for interval_ms in (500, 100):
            ours = [sys.executable, "-I", "-S", system_sampler.__file__, folder, "--process", str(os.getpid())]
            ours += ["--interval-ms", str(interval_ms)]
            psutil = [
                options.psutil_python,
                "-c",
                PSUTIL,
                f"{folder}/psutil",
                str(interval_ms / 1000),
                str(os.getpid()),
            ]
            print(f"every {interval_ms} ms: Trackside {share(ours, seconds):.3%}, psutil {share(psutil, seconds):.3%}")
    each = min(clock_seconds(20_000) for _ in range(5))
    print(f"phases: {each * 1e6:.2f} us a step, {each / STEP_SECONDS:.3%} of a step of {STEP_SECONDS * 1e3:g} ms")


if __name__ == "__main__":
    main()
