"""Processor time of a whole `trackside run`, the evaluator and the report included, over that of the bare script.

    python -m benchmarks.whole_run [--epochs 25] [--rounds 5] [--against OTHER/training_lib/src] [-- run's options]

The script is the digits example. Participants take turns, each in a new process on one core. A figure is the ratio to
the bare script of the same round: median (least to most). Byte code is written before, as after an installation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trackside.environment import inherited

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "examples" / "digits" / "train.py"


def seconds_of(command: list[str], source: Path, folder: str) -> tuple[float, float]:
    """Return (processor, clock) seconds of a command and all that it starts."""
    environment = {name: value for name, value in inherited().items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    before, began = os.times(), time.perf_counter()
    subprocess.run(
        command, env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after, ended = os.times(), time.perf_counter()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used, ended - began


def main() -> None:
    """Let the participants take turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=25, help="of 45 steps (default 25)")
    parser.add_argument("--rounds", type=int, default=5, help="(default 5)")
    parser.add_argument("--against", type=Path, help="the source folder of another tree")
    parser.add_argument("options", nargs="*", help="options of `trackside run`")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    source = ROOT / "training_lib" / "src"
    training = [sys.executable, str(SCRIPT), "--epochs", str(options.epochs)]
    run = [sys.executable, "-m", "trackside", "run", *options.options, "--", *training]
    participants = {"bare": (training, source), "bare again": (training, source), "trackside run": (run, source)}
    if options.against:
        participants["trackside run, other tree"] = run, options.against
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in participants}
    with tempfile.TemporaryDirectory(prefix="whole-run-") as folder:
        for number in range(options.rounds + 1):
            for name in participants if number % 2 == 0 else reversed(participants):
                seconds = seconds_of(*participants[name], folder)
                if number:  # the first writes byte code
                    found[name].append(seconds)
    load = os.getloadavg()[0]
    print(f"digits, {45 * options.epochs} steps on one core, {options.rounds} turns, load {load:.1f}\n")
    print("| | processor, s | ratio | clock, s |\n|---|---|---|---|")
    for name, times in found.items():
        ratios = [mine[0] / bare[0] for mine, bare in zip(times, found["bare"], strict=True)]
        middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
        used, clock = (statistics.median(one[place] for one in times) for place in (0, 1))
        print(f"| {name} | {used:.2f} | {middle:.3f} ({low:.3f} to {high:.3f}) | {clock:.1f} |")


if __name__ == "__main__":
    main()
