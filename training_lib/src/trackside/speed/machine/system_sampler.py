"""The sampler: a process beside a training that writes the machine's metrics until its parent ends.

    python -I -S system_sampler.py FOLDER --process PID --interval-ms 500

It ends when its standard input ends, and the kernel closes that with its parent: however the parent ends, no sampler is
left. It needs the standard library only, and starts without `site`.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackside.speed.machine.system_files import SystemFiles
    from trackside.speed.machine.system_metrics import SystemMetrics

PROCESSES_SECONDS = 2.0  # between two looks at the training's processes
OWN_COST_SECONDS = 10.0  # between two records of the sampler's own cost
FIRST_NODE = "algo-1"
_PACKAGES = os.path.abspath(f"{__file__}/../../../..")  # the folder of `trackside`


def sample_until_end(
    metrics: SystemMetrics, files: SystemFiles, *, interval_seconds: float, input_descriptor: int
) -> None:
    """Write a sample at each interval, until the input ends. An interval that was missed is left out and counted.

    Args:
        metrics: Samples the machine.
        files: Takes the samples.
        interval_seconds: Time between two samples.
        input_descriptor: A pipe; its end ends the sampling.

    Raises:
        OSError: The samples cannot be written.
    """
    from trackside.speed.machine.system_metrics import Metric

    cost_at = due = time.monotonic()
    processes_at = due - PROCESSES_SECONDS
    cpu_before, missed = time.process_time(), 0
    while True:
        now = time.monotonic()
        has_processes = now - processes_at >= PROCESSES_SECONDS
        processes_at = now if has_processes else processes_at
        sample = metrics.sample(has_processes=has_processes)
        if now - cost_at >= OWN_COST_SECONDS:
            cpu = time.process_time()
            sample.append(Metric("sampler", "cpu", "SamplerCPUUtilization", 100 * (cpu - cpu_before) / (now - cost_at)))
            sample.append(Metric("sampler", "missed", "SamplerMissedSamples", missed))
            cost_at, cpu_before, missed = now, cpu, 0
        files.add(sample, wall_time=time.time())
        due += interval_seconds
        late = time.monotonic() - due
        if late > 0:
            skipped = int(late // interval_seconds) + 1
            missed += skipped
            due += skipped * interval_seconds
        if select.select([input_descriptor], [], [], max(0.0, due - time.monotonic()))[0]:
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sampler. Return its exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training
    from trackside.speed.machine.accelerators import gpu_reader
    from trackside.speed.machine.system_files import SystemFiles
    from trackside.speed.machine.system_metrics import OpenFiles, SystemMetrics

    files = SystemFiles(options.folder, node=options.node, is_compact=not options.json)
    try:
        sample_until_end(
            SystemMetrics(OpenFiles(), process=options.process, gpus=gpu_reader()),
            files,
            interval_seconds=options.interval_ms / 1000,
            input_descriptor=sys.stdin.fileno(),
        )
        files.close()
    except OSError as error:  # nowhere to write
        sys.stderr.write(f"system metrics end here: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="system_sampler", description="Write the machine's metrics to a folder.")
    parser.add_argument("folder", help="the folder of profiles of a run")
    parser.add_argument("--process", type=int, help="the process whose share is measured, with its children's")
    parser.add_argument("--node", default=FIRST_NODE, help="name of this machine")
    parser.add_argument("--interval-ms", type=int, default=500, help="milliseconds between two samples")
    parser.add_argument("--json", action="store_true", help="write the files of SageMaker Debugger")
    return parser


if __name__ == "__main__":
    sys.path.insert(0, _PACKAGES)
    sys.exit(main())
