"""Measures the main job on this machine and writes the tables of docs/times.md.

    python -m benchmarks.times [--quiet 5] [--busy 5] [--one-core 3] [--drills 3] [--clean-clone] [--tests] [--no-write]

The demo runs so many times on a machine that does nothing else, beside one busy process on each core, and on one core.
`--clean-clone` times `make demo` in a new clone with empty caches (it needs the network), `--tests` `make test`. Twenty
minutes for the defaults on two cores. With `--no-write` the tables are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.engine.pages import put
from stacks.paths import ROOT
from trackside.environment import inherited

PAGE = ROOT / "docs" / "times.md"
START, END = "<!-- times: written by `python -m benchmarks.times` -->", "<!-- /times -->"
PACKAGES = ("torch", "boto3", "moto", "aws-cdk-lib")
FAULTY, HEALTHY = "vanishing", "none"
QUIET, BUSY, ONE_CORE = "quiet", "both cores busy", "one core"
STOP = "training is stopped"


@dataclass(frozen=True)
class DemoRun:
    """One run of the demo: the seconds of the whole, of a start of Python with torch, and of each twin's hops."""

    seconds: float
    start_seconds: float
    twins: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Measured:
    """What was measured. `None` among the runs of the demo: a run that failed. `commands`: command -> seconds."""

    demos: Mapping[str, Sequence[DemoRun | None]]
    commands: Mapping[str, Sequence[float]]
    machine: str

    @property
    def all_passed(self) -> bool:
        """True if no run of the demo failed."""
        return all(run is not None for runs in self.demos.values() for run in runs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write, and return 1 if a run of the demo failed."""
    options = _parse(arguments)
    commands: dict[str, list[float]] = {}
    demos = {QUIET: [run_demo(QUIET) for _ in range(options.quiet)]}
    if options.drills:
        commands["`make drill`"] = [time_of(["make", "drill"]) for _ in range(options.drills)]
    if options.tests:
        commands["`make test`"] = [time_of(["make", "test"])]
    if options.clean_clone:
        commands["`make demo` in a new clone, with empty caches"] = [time_of_clean_clone()]
    with busy():
        demos[BUSY] = [run_demo(BUSY) for _ in range(options.busy)]
    demos[ONE_CORE] = [run_demo(ONE_CORE, before=one_core) for _ in range(options.one_core)]
    measured = Measured({name: runs for name, runs in demos.items() if runs}, commands, machine())
    put(tables(measured), None if options.no_write else PAGE, begin=START, end=END)
    return 0 if measured.all_passed else 1


# Measuring ------------------------------------------------------------------------------------------------------------


@contextmanager
def busy() -> Iterator[None]:
    """Beside it a process on each core never pauses."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def one_core() -> None:
    """In the demo's process, before it begins: it and its children share one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def run_demo(situation: str, *, before: Callable[[], None] | None = None) -> DemoRun | None:
    """Run `make demo`'s script once. What it printed is shown if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "times.json"
        command = [sys.executable, str(ROOT / "examples" / "demo" / "demo.py"), "--json", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=before)
        if done.returncode != 0:
            print(f"{situation}: failed\n{done.stdout}{done.stderr}", file=sys.stderr, flush=True)
            return None
        run = DemoRun(**json.loads(file.read_text(encoding="utf-8")))
        stop = run.twins[FAULTY][STOP]
        print(f"{situation}: {run.seconds:.0f} s, fault to stop {stop:.1f} s", file=sys.stderr, flush=True)
        return run


def time_of(command: Sequence[str], *, folder: Path = ROOT, **variables: str) -> float:
    """The seconds that a command takes. Errors: `CalledProcessError`."""
    began = time.monotonic()
    subprocess.run(command, cwd=folder, env={**inherited(), **variables}, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def time_of_clean_clone() -> float:
    """`make demo` in a new clone, with a home folder in which pip, npm and jsii find no cache."""
    with tempfile.TemporaryDirectory() as folder:
        clone, home = Path(folder) / "clone", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        return time_of(["make", "demo"], folder=clone, HOME=str(home))


def machine() -> str:
    """Where, when and with what it was measured."""
    cpu_info = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").is_file() else ""
    models = [line.partition(":")[2].strip() for line in cpu_info.splitlines() if line.startswith("model name")]
    processor = models[0] if models else platform.machine()
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    day = time.strftime("%d %B %Y").lstrip("0")
    return (
        f"Measured on {day}: {os.cpu_count()} cores ({processor}), {platform.system()}, "
        f"Python {platform.python_version()}, {versions}."
    )


# Tables ---------------------------------------------------------------------------------------------------------------


def tables(measured: Measured) -> str:
    """The generated part of the page."""
    parts = [measured.machine, "", "### The whole", "", *_whole(measured)]
    for twin, title in ((FAULTY, "The faulty twin, effect by effect"), (HEALTHY, "The healthy twin, effect by effect")):
        parts += ["", f"### {title}", "", *_effects(measured, twin)]
    return "\n".join(parts)


def _whole(measured: Measured) -> list[str]:
    rows = ["| what | passed | median | fastest | slowest |", "|---|---|---|---|---|"]
    for situation, runs in measured.demos.items():
        passed = [run for run in runs if run]
        count = f"{len(passed)} of {len(runs)}"
        rows.append(_row(f"`make demo`, {situation}", count, [run.seconds for run in passed]))
        rows.append(_row("of it from fault to stopped process", count, [run.twins[FAULTY][STOP] for run in passed]))
        rows.append(_row("Python starts with torch", count, [run.start_seconds for run in passed]))
    for command, seconds in measured.commands.items():
        rows.append(_row(command, f"{len(seconds)} of {len(seconds)}", seconds))
    return rows


def _row(what: str, passed: str, seconds: Sequence[float]) -> str:
    if not seconds:
        return f"| {what} | {passed} | | | |"
    found = (statistics.median(seconds), min(seconds), max(seconds))
    return f"| {what} | {passed} | " + " | ".join(f"{each:.1f} s" for each in found) + " |"


def _effects(measured: Measured, twin: str) -> list[str]:
    """Rows: hops in the order of their medians where it is quietest; columns: situations."""
    found = {name: [run.twins[twin] for run in runs if run] for name, runs in measured.demos.items()}
    found = {name: runs for name, runs in found.items() if runs}
    if not found:
        return ["No run passed."]
    rows = [f"| seconds since the job was created | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    first = next(iter(found.values()))
    for effect in sorted(first[0], key=lambda effect: statistics.median(run[effect] for run in first)):
        cells = []
        for runs in found.values():
            seconds = [run[effect] for run in runs]
            cells.append(f"{statistics.median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})")
        rows.append(f"| {effect} | {' | '.join(cells)} |")
    return rows


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.times", description=__doc__.splitlines()[0])
    parser.add_argument("--quiet", type=int, default=5, metavar="RUNS", help="on a machine that does nothing else")
    parser.add_argument("--busy", type=int, default=5, metavar="RUNS", help="beside one busy process on each core")
    parser.add_argument("--one-core", type=int, default=3, metavar="RUNS", help="pinned to one core")
    parser.add_argument("--drills", type=int, default=3, metavar="RUNS", help="of `make drill`")
    parser.add_argument("--clean-clone", action="store_true", help="`make demo` in a new clone with empty caches")
    parser.add_argument("--tests", action="store_true", help="`make test`")
    parser.add_argument("--no-write", action="store_true", help="print the tables, and leave docs/times.md alone")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
