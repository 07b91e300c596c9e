"""What the installed start-up file costs a Python that is not captured: `python -c pass` with and without it.

    .venv/bin/python benchmarks/startup_cost.py [--pairs 200]

The file is what pip installs, copied into two site folders that differ in nothing else; the interpreter is started
with `-S -c "import site; site.addsitedir(...)"`, alternately with one and the other. CPU time of the child, user and
system together; the median of the pairs' differences and their 95 % interval by ranks. A third column has the variable
set, where the file does wake Trackside up, but no torch is imported.
"""

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

START_UP_FILE = Path(__file__).parents[1] / "training_lib" / "trackside.pth"
SOURCES = START_UP_FILE.parent / "src"


def cpu_seconds(folder, variables):
    environment = {"PYTHONPATH": str(SOURCES), **variables}
    code = f"import site; site.addsitedir({str(folder)!r})"
    before = children_seconds()
    subprocess.run([sys.executable, "-S", "-c", code], env=environment, check=True)
    return children_seconds() - before


def children_seconds():
    """Finer than `os.times`, which counts hundredths."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wall_in_child(folder, repeats=2000):
    """Seconds that one reading of the guard's line takes, by itself."""
    code = (
        "import time\n"
        f"line = compile(open({str(folder / START_UP_FILE.name)!r}).read(), 'pth', 'exec')\n"
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as top:
        without, with_it = Path(top, "without"), Path(top, "with")
        without.mkdir()
        with_it.mkdir()
        (with_it / START_UP_FILE.name).write_text(START_UP_FILE.read_text())
        cells = {
            "without": (without, {}),
            "without again": (without, {}),
            "installed, off": (with_it, {}),
            "installed, on, no torch": (with_it, {"TRACKSIDE_RUN": "/nowhere"}),
        }
        taken = {name: [] for name in cells}
        for _ in range(pairs):
            for name in random.sample(list(cells), len(cells)):
                taken[name].append(cpu_seconds(*cells[name]))
        line = wall_in_child(with_it)
    print(f"{'':26}{'start, ms CPU':>15}{'more than without, ms (95 %)':>34}")
    for name, times in taken.items():
        more, low, high = interval([a - b for a, b in zip(times, taken["without"], strict=True)])
        print(
            f"{name:26}{statistics.median(times) * 1e3:15.2f}{more * 1e3:15.2f} ({low * 1e3:.2f} to {high * 1e3:.2f})"
        )
    print(f"the guard's line by itself: {line * 1e6:.2f} us")


if __name__ == "__main__":
    main()
