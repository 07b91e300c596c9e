"""Measures the dashboard at size: one run of 4,000 tensors, and a list of 200 runs with findings.

    python -m benchmarks.dashboard_size [--before FOLDER] [--write docs/dashboard.md]

`--before` is the clone of another build, which serves the same runs, for the ratio. Processor seconds are those of the
server; the first bytes are those of the body. A minute, and as much for the build before.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.dashboard import LOSS, TOKEN, serving
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.processes import processor_seconds
from benchmarks.times import machine
from trackside.contracts.run_layout import VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors

START, END = "<!-- measured by `python -m benchmarks.dashboard_size` -->", "<!-- /size -->"
RUNS, TENSORS, STEPS = 200, 4000, 120
CLEAN_VERDICTS = 46  # of a run, beside its three issues: as many rules judge one
WIDE = "wide"
SERIES = tuple((step, 0.5) for step in range(20))


@dataclass(frozen=True)
class Load:
    """One load of a page: seconds until the first bytes of its body, processor seconds of the server, its bytes."""

    what: str
    first_seconds: float
    processor_seconds: float
    size_bytes: int


def main(words: Sequence[str] | None = None) -> int:
    """Measure; print the table, or write it into a page."""
    options = parser(__doc__)
    options.add_argument("--before", type=Path, help="the clone of another build")
    options.add_argument("--write", type=Path, help="the page with the markers")
    arguments = options.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder))
        now = list(measure(Path(folder), None))
        before = list(measure(Path(folder), arguments.before)) if arguments.before else []
    put(table(now, before), arguments.write, begin=START, end=END)
    return 0


def make_runs(folder: Path, *, runs: int = RUNS, tensors: int = TENSORS, steps: int = STEPS) -> None:
    """Write a run of many tensors with a norm at every fifth step, and runs with verdicts."""
    names = [f"{prefix}block.{place:04d}.weight" for place in range(tensors // 2) for prefix in ("", "gradient/")]
    norms = {name: {"l2": dict.fromkeys(range(0, steps, 5), 1.0)} for name in names}
    losses = {LOSS: {"mean": {step: 2.0 - step / steps for step in range(steps)}}}
    _write_run(folder / WIDE, {**losses, **norms})
    for place in range(runs):
        run = folder / f"judged-{place:04d}"
        _write_run(run, losses)
        lines = "".join(f"{verdict.to_json()}\n" for verdict in _verdicts(run.name))
        LocalStore(RunLocation(str(run)).rule_output).put(VERDICTS_KEY, lines.encode())


def _write_run(folder: Path, statistics: dict[str, dict[str, dict[int, float]]]) -> None:
    run = RunLocation(str(folder))
    saved = LocalStore(run.tensors)
    write_collections(saved)
    write_tensors(saved, 0, {LOSS: 2.0})
    write_statistics(LocalStore(run.statistics), statistics)
    end_run(saved)


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
        series=SERIES,
    )
    issue = Verdict(run, "vanishing-gradient", "issue", Outcome.ISSUE_FOUND, Severity.CRITICAL, 20, "Vanished.", 1e6)
    issue = replace(issue, findings=(found,) * 10, affected=10)
    yield from (replace(issue, configuration_name=f"issue-{place}") for place in range(3))
    clean = replace(issue, outcome=Outcome.CLEAN, findings=(), affected=0)
    yield from (replace(clean, configuration_name=f"clean-{place}") for place in range(CLEAN_VERDICTS))


def measure(folder: Path, build: Path | None) -> Iterator[Load]:
    """Yield the loads of the pages, by the server of this build or of another one."""
    with serving(folder, build=build) as (process, address):
        for what, page in (
            (f"a run of {TENSORS:,} tensors and {STEPS} steps", f"{address}/runs/{WIDE}"),
            ("the same page again", f"{address}/runs/{WIDE}"),
            (f"the list of {RUNS} runs, all of them read", f"{address}/?worst=critical"),
            ("the list again, three seconds later", f"{address}/?worst=critical"),
        ):
            if "later" in what:
                time.sleep(3)
            yield _load(process, what, page)


def _load(process: subprocess.Popen[str], what: str, address: str) -> Load:
    before, began = processor_seconds(process.pid), time.perf_counter()
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:  # noqa: S310
        size = len(answer.read(1))
        first = time.perf_counter() - began
        size += len(answer.read())
    return Load(what, first, processor_seconds(process.pid) - before, size)


def table(now: Sequence[Load], before: Sequence[Load]) -> str:
    """Return the loads as a table in Markdown, with those of the build before where it was measured."""
    head = "| page | first bytes | server's processor | size |"
    rows = [
        f"{head} processor before | of it now |" if before else head,
        f"|---|---|---|---|{'---|---|' * bool(before)}",
    ]
    for place, one in enumerate(now):
        size = f"{one.size_bytes / 1e3:,.0f} kB"
        row = f"| {one.what} | {one.first_seconds:.2f} s | {one.processor_seconds:.2f} s | {size} |"
        if before:
            earlier = before[place].processor_seconds
            row += f" {earlier:.2f} s | {one.processor_seconds / earlier:.0%} |" if earlier else " 0.00 s | – |"
        rows.append(row)
    return "\n".join([*rows, "", machine()])


if __name__ == "__main__":
    sys.exit(main())
