"""What starting costs, in processor time: the start-up file, a client of AWS, an evaluator, capture.

    .venv/bin/python -m benchmarks.startup_cost [--pairs 15] [startup-file] [client] [evaluator] [capture] [launcher]

Each table has a first row to compare with. All rows are measured once in every round, in random order; a row shows the
median of its rounds, and of the differences to the first row the median and their 95 % interval by ranks. It is the
time of the whole child process and its threads, user and system together, by `getrusage`; S3 is moto's server in this
process. Byte code is written before, in a round that does not count.

- startup-file: `python -c pass` without and with the file that pip installs, copied into two site folders that differ
  in nothing else; started with `-S -c "import site; site.addsitedir(...)"`. In the last row the variable is set, where
  the file does wake Trackside up, but no torch is imported. Its differences are tenths of a millisecond: 200 rounds.
- client: a process that stores one object by each of so many stores.
- evaluator: a process that judges an ended run without steps by all default rules, so it starts, looks and ends.
- capture: a script that imports torch and makes one step, as it is and as `trackside run` starts it.
- launcher: `trackside --help`, and `trackside run` of a command that only sleeps.
"""

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.engine.s3 import BUCKET, CountedS3

ROOT = Path(__file__).parents[1]
START_UP_FILE = ROOT / "training_lib" / "trackside.pth"
SOURCES = START_UP_FILE.parent / "src"

STORES = """
from trackside.storage.open_store import open_store
for number in range({count}):
    open_store(f"{place}/{{number}}").put("key", b"x")
"""
TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
loss.backward()
optimizer.step()
"""


class Cell:
    """A row: a command in an environment, and what makes it fresh before each round."""

    def __init__(self, command, environment=None, prepare=lambda: None):
        self.command, self.environment, self.prepare = command, environment or {}, prepare

    def cpu_seconds(self, base):
        self.prepare()
        before = children_seconds()
        done = subprocess.run(self.command, env=base | self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return children_seconds() - before


def children_seconds():
    """Finer than `os.times`, which counts hundredths."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds_of_guards_line(repeats=2000):
    """What one reading of the start-up file's line takes, by itself."""
    code = (
        "import time\n"
        f"line = compile(open({str(START_UP_FILE)!r}).read(), 'pth', 'exec')\n"
        "times = []\n"
        f"for _ in range({repeats}):\n"
        "    started = time.perf_counter(); exec(line); times.append(time.perf_counter() - started)\n"
        "print(min(times))"
    )
    done = subprocess.run([sys.executable, "-c", code], env={}, check=True, capture_output=True, text=True)
    return float(done.stdout)


def interval(values):
    """The median and the ranks that enclose it with 95 %."""
    values, half = sorted(values), 0.98 * len(values) ** 0.5
    middle = len(values) / 2
    low, high = values[max(0, int(middle - half))], values[min(len(values) - 1, int(middle + half))]
    return statistics.median(values), low, high


def table(title, cells, rounds, base):
    first, *_ = cells
    for cell in cells.values():
        cell.cpu_seconds(base)
    taken = {name: [] for name in cells}
    for _ in range(rounds):
        for name in random.sample(list(cells), len(cells)):
            taken[name].append(cells[name].cpu_seconds(base))
    print(f"\n{title + ', ms':52}{'processor':>10}{'more than the first (95 %)':>32}")
    for name, times in taken.items():
        more, low, high = (1e3 * value for value in interval([a - b for a, b in zip(times, taken[first], strict=True)]))
        print(f"{name:52}{statistics.median(times) * 1e3:10.1f}{more:12.1f} ({low:.1f} to {high:.1f})", flush=True)


def startup_file_cells(top):
    without, with_it = top / "without", top / "with"
    without.mkdir()
    with_it.mkdir()
    (with_it / START_UP_FILE.name).write_text(START_UP_FILE.read_text())
    start = {
        folder: [sys.executable, "-S", "-c", f"import site; site.addsitedir({str(folder)!r})"]
        for folder in (without, with_it)
    }
    return {
        "without": Cell(start[without]),
        "without again": Cell(start[without]),
        "installed, off": Cell(start[with_it]),
        "installed, on, no torch": Cell(start[with_it], {"TRACKSIDE_RUN": "/nowhere"}),
    }


def client_cells(top, bucket):
    def python(script):
        return [sys.executable, "-c", script]

    return {
        "one store in a folder": Cell(python(STORES.format(count=1, place=top / "stores"))),
        "one store in S3": Cell(python(STORES.format(count=1, place=f"{bucket}/stores"))),
        "seven stores in S3": Cell(python(STORES.format(count=7, place=f"{bucket}/stores"))),
    }


def evaluator_cells(top, bucket):
    from trackside.contracts.run_layout import END_MARKER_KEY, RULE_OUTPUT, RULE_REQUEST_KEY, TENSORS
    from trackside.rules.catalogue import default_request
    from trackside.storage.open_store import open_store

    def unjudged(run):
        store = open_store(run)
        store.put(RULE_REQUEST_KEY, default_request().to_json().encode())
        store.put(f"{TENSORS}/{END_MARKER_KEY}", b"")
        for key in list(store.list(f"{RULE_OUTPUT}/")):
            store.delete(key)

    folder, in_s3 = str(top / "judged"), f"{bucket}/judged"
    ml = top / "ml"
    (ml / "output").mkdir(parents=True)
    container = [sys.executable, str(ROOT / "rule_containers/evaluator/entrypoint.py")]
    command = [sys.executable, "-m", "trackside.evaluation", "--run"]
    return {
        "python -c 'import numpy'": Cell([sys.executable, "-c", "import numpy"]),
        "beside a local run: -m trackside.evaluation, folder": Cell([*command, folder], {}, lambda: unjudged(folder)),
        "the same, S3": Cell([*command, in_s3], {}, lambda: unjudged(in_s3)),
        "rule container, S3": Cell(
            container, {"TRACKSIDE_RUN": in_s3, "TRACKSIDE_ML_ROOT": str(ml)}, lambda: unjudged(in_s3)
        ),
    }


def capture_cells(top, bucket):
    from trackside.choosing.preflight import plan_rules
    from trackside.cli.run import ON_ISSUE
    from trackside.contracts.capture_request import capture_environment
    from trackside.contracts.rule_catalogue import built_in_catalogue

    plan = plan_rules([], catalogue=built_in_catalogue(), actions=ON_ISSUE["notify"], save_interval=None, capture=None)
    script = top / "train.py"
    script.write_text(TRAINING)
    # In a bucket each training is a run of its own, as in a folder.
    runs = iter(range(1_000_000))
    to_s3 = Cell([sys.executable, str(script)])
    to_s3.prepare = lambda: to_s3.environment.update(capture_environment(f"{bucket}/run-{next(runs)}", plan.capture))
    folder = top / "captured"
    return {
        "import torch and one step": Cell([sys.executable, str(script)]),
        "captured to a folder": Cell(
            [sys.executable, str(script)],
            capture_environment(str(folder), plan.capture),
            lambda: shutil.rmtree(folder, ignore_errors=True),
        ),
        "captured to S3": to_s3,
    }


def launcher_cells(top):
    command = [sys.executable, "-m", "trackside"]
    runs = iter(range(1_000_000))
    run = Cell(())

    def new_run():
        run.command = [*command, "run", "--out", str(top / f"launched-{next(runs)}"), "--", "sleep", "3"]

    run.prepare = new_run
    return {
        "python -c pass": Cell([sys.executable, "-c", "pass"]),
        "trackside --help": Cell([*command, "--help"]),
        "trackside run -- sleep 3, with its evaluator": run,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15, help="rounds")
    parser.add_argument("tables", nargs="*", help="which tables (default: all)")
    given = parser.parse_args()
    sys.path.insert(0, str(SOURCES))
    with tempfile.TemporaryDirectory() as name, CountedS3() as s3:
        top, bucket = Path(name), f"s3://{BUCKET}"
        # Of the shell's variables as few as possible: whoever measures may have set what changes a start.
        base = {
            "PATH": os.defpath,
            "HOME": name,
            "PYTHONPATH": str(SOURCES),
            "PYTHONPYCACHEPREFIX": str(top / "byte-code"),
            "OMP_NUM_THREADS": "1",
            **s3.environment,
        }
        tables = {
            "startup-file": lambda: startup_file_cells(top),
            "client": lambda: client_cells(top, bucket),
            "evaluator": lambda: evaluator_cells(top, bucket),
            "capture": lambda: capture_cells(top, bucket),
            "launcher": lambda: launcher_cells(top),
        }
        for chosen in given.tables or tables:
            table(chosen, tables[chosen](), given.pairs, base)
            if chosen == "startup-file":
                print(f"the guard's line by itself: {seconds_of_guards_line() * 1e6:.2f} us")


if __name__ == "__main__":
    main()
