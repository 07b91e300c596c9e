"""Measures the dashboard on this machine: a list of many runs, one run of a million steps, and pages at size.

    python -m benchmarks.dashboard [--runs 300] [--steps 1000000] [--layers 40] [--write docs/dashboard.md]
    python -m benchmarks.dashboard --at-size [--before CLONE] [--write docs/dashboard.md]

The server runs in a process of its own, as `trackside serve` starts it. Seconds are those until the whole page has
arrived, memory is the most that the server ever had in use (`VmHWM`). A minute or two.

With `--at-size` it serves a run of 4,000 tensors and a list of 200 runs with findings. CLONE, another build, serves the
same runs, for the ratio. Processor seconds are those of the server; the first bytes are those of the body.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put, table
from benchmarks.processes import processor_seconds
from benchmarks.times import machine
from trackside.contracts.run.recorded_names import (
    BACKWARD_SECONDS,
    CAPTURE_SECONDS,
    DATA_SECONDS,
    OPTIMIZER_SECONDS,
    STEP_SECONDS,
)
from trackside.contracts.run_layout import VERDICTS_KEY, RunLocation, SegmentName
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
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
SIZE_START, SIZE_END = "<!-- measured by `python -m benchmarks.dashboard --at-size` -->", "<!-- /size -->"
LOSS, LAYERS, STARTED = "CrossEntropyLoss_output_0", 40, 1.8e9
ROWS_A_BLOCK = 10_000
MORE_EVERY = 32  # steps: then the learning rate is measured, too
TOKEN = "of-the-benchmark"  # noqa: S105 - of a server that lives for a minute
LONG, WIDE = "long", "wide"
RUNS, TENSORS, STEPS = 200, 4000, 120  # at size
CLEAN_VERDICTS = 46  # of a run, beside its three issues: as many rules judge one


@dataclass(frozen=True)
class Answer:
    """What a page took: seconds until its first bytes and until all of it, its size, the server's processor time."""

    what: str
    first_seconds: float
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
    options.add_argument("--at-size", action="store_true", help="many tensors, and many runs with findings")
    options.add_argument("--before", type=Path, help="the clone of another build, for --at-size")
    options.add_argument("--write", type=Path, help="the page with the markers")
    given = options.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.at_size:
            make_runs_at_size(folder)
            now = [*measure(folder, pages_at_size(), is_packed=True)]
            before = [*measure(folder, pages_at_size(), build=given.before, is_packed=True)] if given.before else []
            put([*lines_at_size(now, before)], given.write, begin=SIZE_START, end=SIZE_END)
            return 0
        make_runs(folder, count=given.runs, steps=given.steps, layers=given.layers)
        size_bytes = sum(path.stat().st_size for path in (folder / LONG).rglob("*") if path.is_file())
        long = f"a run of {given.steps:,} steps, {given.layers + 1} tensors and phases, {size_bytes / 1e9:.2f} GB"
        answers = [*measure(folder, pages(steps=given.steps, count=given.runs + 1, long=long))]
    put([*lines(answers)], given.write, begin=START, end=END)
    return 0


def write_run(folder: Path, write: Callable[[LocalStore], object]) -> None:
    """Write a run that has ended, with one saved loss and the statistics that `write` puts into its store."""
    run = RunLocation(str(folder))
    saved = LocalStore(run.tensors)
    write_collections(saved)
    write_tensors(saved, 0, {LOSS: 2.0})
    write(LocalStore(run.statistics))
    end_run(saved)


def make_runs(folder: Path, *, count: int, steps: int, layers: int = LAYERS) -> None:
    """Write many short runs, and a long one with a NaN at one step."""
    short = {LOSS: {"mean": dict.fromkeys(range(20), 2.0)}}
    for number in range(count):
        write_run(folder / f"short-{number:04d}", lambda store: write_statistics(store, short))
    write_run(folder / LONG, lambda store: write_long(store, steps=steps, layers=layers))


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


def make_runs_at_size(folder: Path) -> None:
    """Write a run of many tensors with a norm at every fifth step, and runs with verdicts."""
    names = [f"{prefix}block.{place:04d}.weight" for place in range(TENSORS // 2) for prefix in ("", "gradient/")]
    norms = {name: {"l2": dict.fromkeys(range(0, STEPS, 5), 1.0)} for name in names}
    losses = {LOSS: {"mean": {step: 2.0 - step / STEPS for step in range(STEPS)}}}
    write_run(folder / WIDE, lambda store: write_statistics(store, {**losses, **norms}))
    for place in range(RUNS):
        run = folder / f"judged-{place:04d}"
        write_run(run, lambda store: write_statistics(store, losses))
        verdicts = "".join(f"{verdict.to_json()}\n" for verdict in _verdicts(run.name))
        LocalStore(RunLocation(str(run)).rule_output).put(VERDICTS_KEY, verdicts.encode())


def _verdicts(run: str) -> Iterator[Verdict]:
    found = Finding(
        subject="gradient/block.0007.weight",
        worker="worker_0",
        step=20,
        since_step=4,
        measure="mean |gradient|",
        observed=3e-12,
        relation="<",
        threshold=1e-7,
        series=tuple((step, 0.5) for step in range(20)),
    )
    issue = Verdict(run, "vanishing-gradient", "issue", Outcome.ISSUE_FOUND, Severity.CRITICAL, 20, "Vanished.", 1e6)
    issue = replace(issue, findings=(found,) * 10, affected=10)
    yield from (replace(issue, configuration_name=f"issue-{place}") for place in range(3))
    clean = replace(issue, outcome=Outcome.CLEAN, findings=(), affected=0)
    yield from (replace(clean, configuration_name=f"clean-{place}") for place in range(CLEAN_VERDICTS))


def pages(*, steps: int, count: int, long: str) -> Iterator[tuple[str, str]]:
    """Yield name and path of each page, in the order in which a person opens them."""
    run, middle = f"/runs/{LONG}", steps // 2
    tensor, weight = quote("gradient/Net_layer.007.weight"), quote("gradient/Net_layer.008.weight")
    share = min(steps, MOST_NUMBERS // 2)
    yield f"the list of {count:,} runs", ""
    yield "the list again", ""
    yield long, run
    yield "the same page again", run
    yield f"{steps // 10:,} of its steps", f"{run}?steps={middle}:{middle + steps // 10 - 1}"
    yield "1,000 of its steps", f"{run}?steps={middle}:{middle + 999}"
    yield "one tensor, all steps", f"{run}/tensor?name={tensor}"
    expression = f"log10(l2/moving_mean(%22{weight}%22,20))"
    of_them = f"{run}/tensor?name={tensor}&expression={expression}&steps=0:{share - 1}"
    yield f"an expression of two statistics, {share:,} of its steps", of_them
    yield "the timeline, all steps", f"{run}/timeline"
    yield "the run by wall time", f"{run}?axis=time"
    yield "the weights between its ends", f"{run}/difference"


def pages_at_size() -> Iterator[tuple[str, str]]:
    """Yield name and path of each page at size; before the last one, three seconds pass."""
    yield f"a run of {TENSORS:,} tensors and {STEPS} steps", f"/runs/{WIDE}"
    yield "the same page again", f"/runs/{WIDE}"
    yield f"the list of {RUNS} runs, all of them read", "/?worst=critical"
    time.sleep(3)
    yield "the list again, three seconds later", "/?worst=critical"


def measure(
    folder: Path, pages: Iterable[tuple[str, str]], *, build: Path | None = None, is_packed: bool = False
) -> Iterator[Answer]:
    """Yield what each page took; `build` is the clone of another build, and packed pages come compressed."""
    headers = {"Authorization": f"Bearer {TOKEN}", **({"Accept-Encoding": "gzip"} if is_packed else {})}
    with serving(folder, build=build) as (process, address):
        for what, path in pages:
            before, began = processor_seconds(process.pid), time.perf_counter()
            request = urllib.request.Request(address + path, headers=headers)  # noqa: S310 - http
            with urllib.request.urlopen(request) as answer:  # noqa: S310
                size = len(answer.read(1))
                first = time.perf_counter() - began
                size += len(answer.read())
            seconds = time.perf_counter() - began
            used = processor_seconds(process.pid) - before
            yield Answer(what, first, seconds, size, used, _most_memory(process))


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


def lines(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield the answers as a table."""
    yield from table(
        "page | until it has arrived | server's processor | size | server's memory, most so far",
        (
            (
                one.what,
                f"{one.seconds:.2f} s",
                f"{one.processor_seconds:.2f} s",
                f"{one.size_bytes / 1e3:,.0f} kB",
                f"{one.memory_bytes / 1e6:,.0f} MB",
            )
            for one in answers
        ),
    )
    yield from ("", machine())


def lines_at_size(now: Sequence[Answer], before: Sequence[Answer]) -> Iterator[str]:
    """Yield the answers at size as a table, with those of the build before where it was measured."""
    heads = "page | first bytes | server's processor | size"
    rows = []
    for place, one in enumerate(now):
        row = [one.what, f"{one.first_seconds:.2f} s", f"{one.processor_seconds:.2f} s"]
        row.append(f"{one.size_bytes / 1e3:,.0f} kB")
        if before:
            earlier = before[place].processor_seconds
            row += [f"{earlier:.2f} s", f"{one.processor_seconds / earlier:.0%}" if earlier else "–"]
        rows.append(row)
    yield from table(heads + " | processor before | of it now" * bool(before), rows)
    yield from ("", machine())


if __name__ == "__main__":
    sys.exit(main())
