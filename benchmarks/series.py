"""How long do forty series of fifty thousand points take to be read to the resolution of a screen?

    python -m benchmarks.series [--rounds 15] [--write docs/profiling.md]

The run is made here: the norms of forty gradients at each of fifty thousand steps, in the form of capture; and as many
samples of forty metrics of a machine, in our files and in SageMaker Debugger's own: cores in any order, moments of
seventeen digits. Each round is read as the dashboard reads it: the least,
the mean and the greatest number of each bucket, as many as a chart has (400). "Newly opened" reads and decodes the
files; "open" is the next window of the same reader. Files are in the memory of the machine. The table has medians, of
the processor's time and of the clock, with the least and the most by the clock. The goal is held against the
processor's time, which other programs on the machine change less.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.dashboard import STARTED, write_long, write_run
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.times import machine
from trackside.contracts.run_layout import SYSTEM_PREFIX, RunLocation
from trackside.speed.performance.profile import Profile, open_profile
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_collections
from trackside.trial.tensors.buckets import bucketed, edges_of
from trackside.trial.trial import Trial, open_trial
from trackside.views.report.charts.line_chart import MOST_BUCKETS

SERIES, POINTS = 40, 50_000
GOAL_MS = 50.0
START, END = "<!-- measured by `python -m benchmarks.series` -->", "<!-- /series -->"
SAMPLE_SECONDS = 0.5


def main(words: Sequence[str] | None = None) -> int:
    """Measure; print the table, or write it into a page."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--write", type=Path, help="the page with the markers")
    arguments = options.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder, "run"))
        write_run(Path(uri), lambda store: write_long(store, steps=POINTS, layers=SERIES))
        _write_samples(RunLocation(uri), is_ours=True)
        theirs = str(Path(folder, "theirs"))
        _write_samples(RunLocation(theirs), is_ours=False)
        trials = [open_trial(uri) for _ in range(arguments.rounds)]
        profiles, old = ([open_profile(of) for _ in range(arguments.rounds)] for of in (uri, theirs))
        rows = [
            ("recorded numbers, newly opened", [_seconds(_numbers, each) for each in trials]),
            ("recorded numbers, open", [_seconds(_numbers, trials[-1]) for _ in range(arguments.rounds)]),
            ("samples of a machine, newly opened", [_seconds(_samples, each) for each in profiles]),
            ("the same in files of SageMaker Debugger", [_seconds(_samples, each) for each in old]),
            ("samples of a machine, open", [_seconds(_samples, profiles[-1]) for _ in range(arguments.rounds)]),
        ]
    text = "\n".join(
        [
            f"| {SERIES} of {POINTS:,} points | processor, ms | by the clock | least | most | below {GOAL_MS:.0f} ms |",
            "|---|---|---|---|---|---|",
            *(_row(name, taken) for name, taken in rows),
            "",
            f"{arguments.rounds} rounds. load {os.getloadavg()[0]:.0f}. {machine()}",
        ]
    )
    put(text, arguments.write, begin=START, end=END)
    return 0


def _row(name: str, taken: Sequence[tuple[float, float]]) -> str:
    processor, clock = (sorted(1e3 * each[part] for each in taken) for part in (0, 1))
    is_met = "yes" if median(processor) < GOAL_MS else "no"
    return (
        f"| {name} | {median(processor):,.0f} | {median(clock):,.0f} | {clock[0]:,.0f} | {clock[-1]:,.0f} | {is_met} |"
    )


def _seconds(read: Callable[..., object], subject: object) -> tuple[float, float]:
    """Return the seconds of processor and clock that a reading takes."""
    began, processor = time.perf_counter(), time.process_time()
    read(subject)
    return time.process_time() - processor, time.perf_counter() - began


def _numbers(trial: Trial) -> None:
    names = [name for name in trial.names if name.startswith("gradient/")]
    found = trial.parts.columns.in_buckets(names, "l2", edges_of(0, POINTS - 1, MOST_BUCKETS), mode="TRAIN")
    assert len(found) == SERIES


def _samples(profile: Profile) -> None:
    metrics = profile.metrics()
    assert len(metrics) == SERIES
    edges = edges_of(0, int(POINTS * SAMPLE_SECONDS * 1e3), MOST_BUCKETS)
    for metric in metrics:
        bucketed(((metric.times - metric.times[0]) * 1e3).astype(np.int64), metric.values, edges)


def _write_samples(run: RunLocation, *, is_ours: bool) -> None:
    store, draw, order = LocalStore(run.profiles), np.random.default_rng(0), random.Random(0)  # noqa: S311 - an order
    if not is_ours:
        write_collections(LocalStore(run.tensors))
    for first in range(0, POINTS, 120):  # a minute a file
        begin = int(STARTED + first * SAMPLE_SECONDS)
        lines = []
        for at in range(first, min(POINTS, first + 120)):
            devices = list(enumerate(draw.uniform(0, 100, SERIES).tolist()))
            moment = STARTED + at * SAMPLE_SECONDS
            if not is_ours:
                order.shuffle(devices)
                moment += 0.2321954
            lines += [
                json.dumps(
                    {
                        "Type": "cpu", "Name": f"device{number}", "Dimension": "Utilization", "Value": round(value, 2),
                        "NodeId": "algo-1", "Timestamp": moment,
                    },
                    separators=(",", ":"),
                )
                for number, value in devices
            ]  # fmt: skip
        hour = time.strftime("%Y%m%d%H", time.gmtime(begin))
        store.put(f"{SYSTEM_PREFIX}{hour}/{begin}.algo-1.json", ("\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
