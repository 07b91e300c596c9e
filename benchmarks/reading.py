"""Reading and judging against smdebug 1.0.34, side by side: opening, live queries, values, rules, requests to S3.

    .venv/bin/python -m benchmarks.reading [--rounds 5] [--quick] [--against OTHER]

The original, the drop-in package (the same script) and our own interface read the same runs, under one interpreter:
Python 3.10 where the machine has one, since protobuf 3.20.3, which the original needs, has a compiled build for it; the
line above the table says which was used. Each cell runs in a process of its own, the three packages in turns within a
round, so that a drift of the machine touches all alike. The figure is the median of the rounds, with the least and the
most; `ratio` is smdebug's over ours. Requests are counted in the log of a server (moto), not by the client. With
`--against`, the top folder of another tree, that tree's own interface takes its turn, too.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.engine.s3 import BUCKET, CountedS3
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.run_files import RunFiles
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.run_layout import event_key, index_key
from trackside.environment import inherited
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store

ROOT = Path(__file__).parents[1]
CELL = Path(__file__).with_name("reading_cell.py")
PEER = ROOT / "build" / "reading-peer"
PEER_ALONE = ["smdebug==1.0.34"]
PEER_BESIDE = ["protobuf==3.20.3", "numpy<2.3", "packaging", "boto3", "requests", "six", "setuptools<81"]
OURS_BESIDE = ["google-crc32c"]
PACKAGES = ("smdebug", "drop-in", "trackside")
OTHER_TREE = "the other tree"
REQUEST = CaptureRequest((CollectionRequest("losses", Schedule(1)),))
VALUE_100_KB = 25_600  # float32


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes per cell and package (default 5)")
    parser.add_argument("--quick", action="store_true", help="no run of 10,000 steps")
    parser.add_argument("--only", default="", help="cells whose name holds this")
    parser.add_argument("--against", type=Path, metavar="OTHER", help="the top folder of another tree")
    options = parser.parse_args()
    options.packages = (*PACKAGES, OTHER_TREE) if options.against else PACKAGES
    python = peer_python()
    print(f"peer: {describe(python)}; runs by trackside's own writer; CPU time, or wall time where it waits\n")
    with tempfile.TemporaryDirectory(prefix="reading-") as folder:
        table(Bench(python, Path(folder), options), options)


def table(bench, options):
    header = f"{'cell':<42} {'target':>12} " + " ".join(f"{p:>24}" for p in options.packages) + f" {'ratio':>7}"
    print(header)
    for cell in cells(quick=options.quick):
        if options.only in cell.name:
            for line in bench.lines(cell):
                print(line, flush=True)
    if options.only in "s3 requests":
        print()
        for line in bench.s3_lines(1_000):
            print(line, flush=True)


class Cell:
    """What is measured, on which run, and what we aim for."""

    def __init__(self, name, kind, run, targets, **order):
        self.name, self.kind, self.run, self.targets, self.order = name, kind, run, targets, order


def cells(*, quick):
    k1, k10 = ("scalars", 1_000, 100), ("scalars", 10_000, 100)
    yield Cell("open 1,000 x 100", "open", (*k1, True), {"seconds": "<= 0.1 s", "mb": "<= 15 MB"})
    if not quick:
        yield Cell("open 10,000 x 100", "open", (*k10, True), {"seconds": "<= 0.5 s", "mb": "<= 100 MB"})
    yield Cell("open 1,000 x 100, old index only", "open", (*k1, True, "old"), {"seconds": "", "mb": ""})
    yield Cell("finished run, first query", "first_query", (*k1, True), {"seconds": "no sleep"})
    for steps in (100, 1_000, 3_000) if quick else (100, 1_000, 3_000, 10_000):
        run = ("scalars", steps, 20, False)
        yield Cell(
            f"live query, {steps:,} steps, none new",
            "live_idle",
            run,
            {"ms": "<= 0.3 ms", "at_once_ms": ""},
            repeats=30,
        )
        yield Cell(f"live query, {steps:,} steps, one new", "live_growing", run, {"ms": "<= 0.3 ms"})
    yield Cell("one scalar", "value", ("scalars", 1_000, 20, True), {"us": "<= 10 us"}, tensor="Loss_0_output_0")
    yield Cell("one value of 100 KB", "value", ("arrays", 200, 1, True), {"us": "<= 40 us"}, tensor="Array_0")
    yield Cell(
        "rule over 20 scalars, finished",
        "judge",
        ("scalars", 1_000, 20, True),
        {"steps_per_s": ">= 5,000/s"},
        first_step=0,
        end_step=None,
    )
    if not quick:
        yield Cell(
            "rule over 20 scalars, live at 10,000",
            "judge",
            ("scalars", 10_000, 20, False),
            {"steps_per_s": ">= 5,000/s"},
            first_step=9_800,
            end_step=9_990,
        )


class Bench:
    """Makes each run once, and each figure `rounds` times."""

    def __init__(self, python, folder, options):
        self.python, self.folder, self.options = python, folder, options
        self.made = {}

    def lines(self, cell):
        answers = {package: [] for package in self.options.packages}
        for _ in range(self.options.rounds):
            for package in self.options.packages:
                answers[package].append(self.measure(cell, package))
        for unit, target in cell.targets.items():
            figures = {package: [answer[unit] for answer in found] for package, found in answers.items()}
            medians = {package: statistics.median(found) for package, found in figures.items()}
            theirs, ours = medians["smdebug"], medians["trackside"]
            ratio = (ours / theirs if unit == "steps_per_s" else theirs / ours) if theirs and ours else float("nan")
            shown = " ".join(f"{spread(figures[package], unit):>24}" for package in self.options.packages)
            name = cell.name + ("" if unit != "at_once_ms" else ", at once")
            yield f"{name:<42} {target:>12} {shown} {ratio:>6.0f}x"

    def measure(self, cell, package):
        run = self.run(*cell.run)
        order = {"run": str(run), "steps": cell.run[1], "tensors": cell.run[2], **cell.order}
        if cell.kind == "live_growing":
            run, order = self.growing(cell.run, order)
        return self.child(package, cell.kind, order)

    def child(self, package, kind, order):
        top = self.options.against if package == OTHER_TREE else ROOT
        name = "trackside" if package == OTHER_TREE else package
        done = subprocess.run(
            [self.python, "-W", "ignore", top / "benchmarks" / CELL.name, name, kind, json.dumps(order)],
            env=environment(name, top),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{package} {kind} failed:\n{done.stderr[-3000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def run(self, kind, steps, tensors, ended, index="packed"):
        key = (kind, steps, tensors, ended, index)
        if key not in self.made:
            folder = self.folder / "-".join(map(str, key))
            write_run(LocalStore(folder), kind, range(steps), tensors, ended=ended)
            if index == "old":
                shutil.rmtree(folder / "packed-index", ignore_errors=True)
            self.made[key] = folder
        return self.made[key]

    def growing(self, run, order):
        """A copy of the run to grow, and a stash of the files to come."""
        copy = self.folder / "growing"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.run(*run), copy)
        stash, steps = self.folder / "stash", range(run[1], run[1] + 30)
        shutil.rmtree(stash, ignore_errors=True)
        write_run(LocalStore(stash), run[0], steps, run[2], ended=False)
        coming = [(event_key(step, "worker_0"), index_key(step, "worker_0")) for step in steps]
        return copy, {**order, "run": str(copy), "stash": str(stash), "coming": coming}

    def s3_lines(self, steps):
        with CountedS3() as server:
            write_run(open_store(f"s3://{BUCKET}/live"), "scalars", range(steps), 20, ended=False)
            server.take()
            write_run(open_store(f"s3://{BUCKET}/more"), "scalars", range(160), 20, ended=True)
            counted = {kind: count / 160 for kind, count in server.take().items()}
            yield f"requests to S3, {steps:,} steps, live" + f"{'smdebug':>34}{'drop-in':>26}{'trackside':>26}"
            found = {package: self.s3_stages(package, server) for package in PACKAGES}
            for stage, target in (("open", "<= 20"), ("query", "1 LIST"), ("value", "1 GET")):
                shown = " ".join(f"{requests(found[package][stage]):>25}" for package in PACKAGES)
                yield f"{stage:<30} {target:>10} {shown}"
            cited = "2 HEAD + 2 PUT (contract)"
            yield f"{'a saved step':<30} {'<= 2 PUT':>10} {cited:>25} {'':>25} {requests(counted):>25}"

    def s3_stages(self, package, server):
        child = subprocess.Popen(
            [self.python, "-W", "ignore", CELL, package, "s3", json.dumps({"run": f"s3://{BUCKET}/live"})],
            env={**environment(package), **server.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        server.take()
        stages = {}
        for line in child.stdout:
            answer = json.loads(line)
            if "stage" in answer:
                stages[answer["stage"]] = server.take()
                child.stdin.write("\n")
                child.stdin.flush()
        child.wait()
        return stages


def requests(counted):
    return " + ".join(f"{v:g} {k}" for k, v in sorted(counted.items())) or "none"


def write_run(store, kind, steps, tensors, *, ended):
    """A run as our own hook writes it."""
    files = RunFiles(lambda: store, request=REQUEST, worker="worker_0", num_workers=1, ends_run=ended)
    random = np.random.default_rng(0)
    for step in steps:
        if kind == "scalars":
            row = random.normal(size=tensors).astype("f4")
            named = tuple((f"Loss_{i}_output_0", row[i : i + 1]) for i in range(tensors))
        else:
            named = tuple((f"Array_{i}", random.normal(size=VALUE_100_KB).astype("f4")) for i in range(tensors))
        files.save(StepTensors(step, "TRAIN", step, 1.7e9 + step, named))
    if ended:
        files.finish()


def spread(figures, unit):
    form = {
        "seconds": "{:.3g} s",
        "mb": "{:.0f} MB",
        "ms": "{:.3g} ms",
        "at_once_ms": "{:.3g} ms",
        "us": "{:.3g} us",
        "steps_per_s": "{:,.0f}/s",
    }
    low, middle, high = (form[unit].format(f) for f in (min(figures), statistics.median(figures), max(figures)))
    return f"{middle} ({low.split()[0].removesuffix('/s')}-{high.split()[0].removesuffix('/s')})"


def environment(package, top=ROOT):
    ours = {
        "smdebug": "",
        "drop-in": f"{top}/training_lib/compat{os.pathsep}{top}/training_lib/src",
        "trackside": f"{top}/training_lib/src",
    }
    keep = {name: value for name, value in inherited().items() if name not in {"PYTHONPATH", "TRACKSIDE_RUN"}}
    return {**keep, "PYTHONPATH": ours[package], "SMDEBUG_LOG_LEVEL": "error"}


def peer_python():
    """The interpreter for all three packages; its environment is made once, in build/."""
    python = PEER / "bin" / "python"
    if not (PEER / "ready").exists():
        shutil.rmtree(PEER, ignore_errors=True)
        subprocess.run([interpreter(), "-m", "venv", PEER], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", *PEER_ALONE], check=True)
        subprocess.run([*pip, *PEER_BESIDE, *OURS_BESIDE], check=True)
        (PEER / "ready").touch()
    return python


def interpreter():
    places = [shutil.which("python3.10"), *Path.home().glob(".pyenv/versions/3.10.*/bin/python")]
    return next((place for place in places if place and runs(place)), sys.executable)


def runs(python):
    """False for a shim of pyenv whose version is not switched on."""
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


def describe(python):
    code = (
        "import sys, numpy; from google.protobuf.internal import api_implementation as p; import google.protobuf as g;"
        "print(f'Python {sys.version.split()[0]}, numpy {numpy.__version__}, protobuf {g.__version__} ({p.Type()})')"
    )
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
