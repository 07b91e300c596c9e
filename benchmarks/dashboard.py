"""Measures the dashboard on this machine: a list of many runs, and one run of a million steps.

    python -m benchmarks.dashboard [--runs 300] [--steps 1000000] [--layers 40] [--write docs/dashboard.md]

The server runs in a process of its own, as `trackside serve` starts it. Seconds are those until the whole page has
arrived, memory is the most that the server ever had in use (`VmHWM`). A minute or two.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.processes import processor_seconds
from benchmarks.times import machine
from trackside.contracts.run.recorded_names import (
    BACKWARD_SECONDS,
    CAPTURE_SECONDS,
    DATA_SECONDS,
    OPTIMIZER_SECONDS,
    STEP_SECONDS,
)
from trackside.contracts.run_layout import RunLocation, SegmentName
from trackside.environment import inherited
from trackside.records.block_file import encode_block
from trackside.records.modes import MODE_NUMBERS
from trackside.records.statistics_segment import (
    ROWS_KIND,
    SCHEMA_KIND,
    Schema,
    StatisticColumn,
    encode_header,
    encode_rows,
    encode_schema,
)
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.views.dashboard.tensors import MOST_NUMBERS

START, END = "<!-- measured by `python -m benchmarks.dashboard` -->", "<!-- /measured -->"
LOSS, LAYERS, STARTED = "CrossEntropyLoss_output_0", 40, 1.8e9
ROWS_A_BLOCK = 10_000
MORE_EVERY = 32  # steps: then the learning rate is measured, too
TOKEN = "of-the-benchmark"  # noqa: S105 - of a server that lives for a minute
LONG = "long"


@dataclass(frozen=True)
class Answer:
    """What a page took: seconds until it had arrived, its size, the server's processor time."""

    what: str
    seconds: float
    size_bytes: int
    processor_seconds: float
    memory_bytes: int


def main(words: Sequence[str] | None = None) -> int:
    """Measure; print the table, or write it into a page."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=300)
    options.add_argument("--steps", type=int, default=1_000_000)
    options.add_argument("--layers", type=int, default=LAYERS, help="tensors with a number at each step, but the loss")
    options.add_argument("--write", type=Path, help="the page with the markers")
    arguments = options.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder), count=arguments.runs, steps=arguments.steps, layers=arguments.layers)
        size_bytes = sum(path.stat().st_size for path in (Path(folder) / LONG).rglob("*") if path.is_file())
        long = (
            f"a run of {arguments.steps:,} steps, {arguments.layers + 1} tensors and phases, {size_bytes / 1e9:.2f} GB"
        )
        answers = list(measure(Path(folder), steps=arguments.steps, count=arguments.runs + 1, long=long))
    put(table(answers), arguments.write, begin=START, end=END)
    return 0


def make_runs(folder: Path, *, count: int, steps: int, layers: int = LAYERS) -> None:
    """Write many short runs, and a long one with a NaN at one step."""
    for number in range(count):
        run = RunLocation(str(folder / f"short-{number:04d}"))
        saved = LocalStore(run.tensors)
        write_collections(saved)
        write_tensors(saved, 0, {LOSS: 2.0})
        write_statistics(LocalStore(run.statistics), {LOSS: {"mean": dict.fromkeys(range(20), 2.0)}})
        end_run(saved)
    run = RunLocation(str(folder / LONG))
    saved = LocalStore(run.tensors)
    write_collections(saved)
    write_tensors(saved, 0, {LOSS: 2.0})
    write_long(LocalStore(run.statistics), steps=steps, layers=layers)
    end_run(saved)


def write_long(store: LocalStore, *, steps: int, layers: int = LAYERS) -> None:
    """Write the statistics of a run in the form of capture: a loss, norms of gradients, and seconds of phases.

    As in a real run each stands in several tables, which take turns: the numbers of some steps have more columns.
    """
    gradients = [f"gradient/Net_layer.{number:03d}.weight" for number in range(layers)]
    numbers = (StatisticColumn(LOSS, "mean"), *(StatisticColumn(name, "l2") for name in gradients))
    more = (*numbers, StatisticColumn("hyperparameters/SGD/group_0/lr", "mean"))
    phases = (STEP_SECONDS, DATA_SECONDS, BACKWARD_SECONDS, OPTIMIZER_SECONDS, CAPTURE_SECONDS)
    schemas = [Schema(numbers), Schema(more), Schema(tuple(StatisticColumn(name, "mean") for name in phases))]
    random = np.random.default_rng(0)
    parts = [encode_header("worker_0", number=0)]
    parts += [encode_block(SCHEMA_KIND, encode_schema(id_, one), number=0) for id_, one in enumerate(schemas)]
    number = 0
    for first in range(0, steps, ROWS_A_BLOCK):
        at = np.arange(first, min(steps, first + ROWS_A_BLOCK))
        norms = 10.0 ** -np.linspace(0, 4, layers) * random.lognormal(sigma=0.2, size=(len(at), layers))
        values = np.column_stack([2.0 / (1 + at / steps * 9), norms, np.full(len(at), 0.1)])
        values[at == steps // 2, 1] = np.nan
        seconds = np.array([0.02, 0.002, 0.008, 0.004, 0.0001]) * random.lognormal(sigma=0.1, size=(len(at), 5))
        is_more = at % MORE_EVERY == 0
        for id_, chosen, of_table in (
            (0, ~is_more, values[:, :-1]),
            (1, is_more, values),
            (2, np.full(len(at), True), seconds),
        ):
            some = at[chosen]
            times, modes = STARTED + some / 50.0, np.full(len(some), MODE_NUMBERS["TRAIN"])
            rows = encode_rows(
                id_, schemas[id_], values=of_table[chosen], steps=some, mode_steps=some, wall_times=times, modes=modes
            )
            parts.append(encode_block(ROWS_KIND, rows, number=number))
            number += 1
    store.put(SegmentName("worker_0", int(STARTED * 1000), 0, number - 1).key, b"".join(parts))


def measure(folder: Path, *, steps: int, count: int, long: str) -> Iterator[Answer]:
    """Yield what each page took, in the order in which a person opens them."""
    with serving(folder) as (process, address):
        run = f"{address}/runs/{LONG}"
        middle = steps // 2
        tensor, weight = quote("gradient/Net_layer.007.weight"), quote("gradient/Net_layer.008.weight")
        share = min(steps, MOST_NUMBERS // 2)
        for what, page in (
            (f"the list of {count:,} runs", address),
            ("the list again", address),
            (long, run),
            ("the same page again", run),
            (f"{steps // 10:,} of its steps", f"{run}?steps={middle}:{middle + steps // 10 - 1}"),
            ("1,000 of its steps", f"{run}?steps={middle}:{middle + 999}"),
            ("one tensor, all steps", f"{run}/tensor?name={tensor}"),
            (
                f"an expression of two statistics, {share:,} of its steps",
                f"{run}/tensor?name={tensor}&expression=log10(l2/moving_mean(%22{weight}%22,20))&steps=0:{share - 1}",
            ),
            ("the timeline, all steps", f"{run}/timeline"),
            ("the run by wall time", f"{run}?axis=time"),
            ("the weights between its ends", f"{run}/difference"),
        ):
            yield _measured(process, what, page)


def _measured(process: subprocess.Popen[str], what: str, address: str) -> Answer:
    before, began = processor_seconds(process.pid), time.perf_counter()
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310 - http
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        size = len(answer.read())
    seconds = time.perf_counter() - began
    return Answer(what, seconds, size, processor_seconds(process.pid) - before, _most_memory(process))


@contextmanager
def serving(folder: Path, *, build: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve the runs of a folder. Return the process and its address. `build`: the clone of another build."""
    command = [sys.executable, "-m", "trackside", "serve", str(folder), "--port", "0"]
    variables = {**inherited(), "TRACKSIDE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    if build is not None:
        variables["PYTHONPATH"] = str(build.absolute() / "training_lib/src")
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().partition("/?")[0]
        finally:
            process.terminate()


def _most_memory(process: subprocess.Popen[str]) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def table(answers: Sequence[Answer]) -> str:
    """Return the answers as a table in Markdown."""
    rows = [
        "| page | until it has arrived | server's processor | size | server's memory, most so far |",
        "|---|---|---|---|---|",
    ]
    rows += [
        f"| {one.what} | {one.seconds:.2f} s | {one.processor_seconds:.2f} s | {one.size_bytes / 1e3:,.0f} kB "
        f"| {one.memory_bytes / 1e6:,.0f} MB |"
        for one in answers
    ]
    return "\n".join([*rows, "", machine()])


if __name__ == "__main__":
    sys.exit(main())
