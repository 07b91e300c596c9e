"""Simulates the deployment at 100 to 10,000 training jobs, and writes tables and charts into docs/scale.md.

    python -m benchmarks.scale [--sizes 100,1000,10000] [--seed 1] [--no-write] [--create-a-second 1] ...

Every number of `quotas.Quotas` is an option (`--processing-instances 500`). Ten minutes for all on two cores; with
`--no-write` the tables are printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from benchmarks.engine.pages import put
from benchmarks.scale.chart import chart
from benchmarks.scale.cost import read_prices
from benchmarks.scale.design import MODES, Design, before, deployed
from benchmarks.scale.figures import Figures, figures_of
from benchmarks.scale.quotas import Quotas
from benchmarks.scale.simulation import Load, Simulation
from stacks.paths import ROOT

PAGE = ROOT / "docs" / "scale.md"
CHARTS = ROOT / "docs" / "scale"
LOADS = ("steady", "burst", "mass stop")


@dataclasses.dataclass(frozen=True)
class Case:
    load: Load
    mode: str
    design: Design
    quotas: Quotas
    seed: int


def load_of(name: str, jobs: int) -> Load:
    """`steady`: a job a second, one in ten goes wrong at a moment of its own. `burst`: all are created at once. `mass
    stop`: all go wrong within the same minute."""
    if name == "mass stop":
        return Load(name, jobs, faulty=1.0, together=True)
    return Load(name, jobs, starts_a_second=1.0 if name == "steady" else 0.0)


def solve(case: Case) -> Figures:
    simulation = Simulation(case.load, mode=case.mode, design=case.design, quotas=case.quotas, seed=case.seed)
    return figures_of(simulation.run(), dict(read_prices()))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    quotas = Quotas(**{each.name: getattr(options, each.name) for each in dataclasses.fields(Quotas)})
    sizes = [int(size) for size in options.sizes.split(",")]
    with ProcessPoolExecutor(options.processes) as pool:

        def solved(cases: list[Case]) -> list[Figures]:
            found = []
            for figures in pool.map(solve, cases):
                print(f"  {figures.load} {figures.jobs:,} {figures.mode}", file=sys.stderr)
                found.append(figures)
            return found

        def case(load: str, jobs: int, mode: str, design: Design | None = None, limits: Quotas = quotas) -> Case:
            return Case(load_of(load, jobs), mode, design or deployed(), limits, options.seed)

        grid = solved([case(load, jobs, mode) for jobs in sizes for load in LOADS for mode in MODES])
        unlimited = [_without_budget(design) for design in (before(), deployed())]
        middle = sizes[len(sizes) // 2]
        then_and_now = solved([case("mass stop", middle, "per-job", design) for design in unlimited])
        then_and_now += solved([case("burst", middle, "per-job", design) for design in (before(), deployed())])
        rates = (0.5, 1.0, 2.0, 5.0)
        by_rate = solved(
            [
                case("burst", middle, "per-job", limits=dataclasses.replace(quotas, create_processing_a_second=rate))
                for rate in rates
            ]
        )
        counts = (4, 100, 500, 0)
        by_instances = solved(
            [
                case("steady", middle, "per-job", limits=dataclasses.replace(quotas, processing_instances=count))
                for count in counts
            ]
        )
    tables = {
        "all": "\n\n".join(f"**{load}**\n\n{_main_table([f for f in grid if f.load == load])}" for load in LOADS),
        "conservation": _conservation(grid),
        "before": _then_and_now(then_and_now),
        "rates": _by(by_rate, "CreateProcessingJob a second", [f"{rate:g}" for rate in rates]),
        "instances": _by(by_instances, "processing instances", [str(count or "any number") for count in counts]),
    }
    if options.no_write:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in tables.items()))
        return 0
    for name, text in tables.items():
        put(text, PAGE, begin=f"<!-- {name} -->", end=f"<!-- /{name} -->")
    CHARTS.mkdir(exist_ok=True)
    for name, text in charts(grid).items():
        (CHARTS / name).write_text(text, encoding="utf-8")
    return 0


def charts(grid: Sequence[Figures]) -> dict[str, str]:
    """File name -> SVG."""

    def series(load: str, value: str) -> dict[str, list[tuple[float, float]]]:
        return {
            mode: [(f.jobs, float(getattr(f, value)[1])) for f in grid if f.load == load and f.mode == mode]
            for mode in MODES
        }

    jobs = "training jobs"
    return {
        "watched.svg": chart(
            "From a job's creation until it is watched, all created at once (p95)",
            x_label=jobs,
            y_label="seconds",
            series=series("burst", "watched_after"),
            summary="With processing jobs the time grows with the number of jobs, with the fleet hardly.",
        ),
        "verdict.svg": chart(
            "From a fault to its verdict, a job a second (p95)",
            x_label=jobs,
            y_label="seconds",
            series=series("steady", "verdict_after"),
            summary="A few seconds while evaluators keep up with the jobs; hours where they do not.",
        ),
    }


def _without_budget(design: Design) -> Design:
    stops = dataclasses.replace(design.settings.stops, stops_per_hour=0)
    return dataclasses.replace(design, settings=dataclasses.replace(design.settings, stops=stops))


HEAD = (
    "| jobs | evaluators | watched after | verdict after | stopped | stop after | oldest start | held back by | USD |"
)


def _main_table(rows: Sequence[Figures]) -> str:
    lines = [HEAD, "|---:|---|---|---|---:|---|---:|---|---:|", *map(_main_row, rows)]
    return "\n".join(lines)


def _main_row(f: Figures) -> str:
    stopped, cost = f"{f.stopped:,} of {f.faulty:,}", f"{f.cost_of_100_jobs:,.0f}"
    times = f"{_times(f.watched_after)} | {_times(f.verdict_after)} | {stopped} | {_times(f.stop_after)}"
    return f"| {f.jobs:,} | {f.mode} | {times} | {_time(f.oldest_start)} | {held_back_by(f)} | {cost} |"


def held_back_by(f: Figures) -> str:
    """The limit that cost most time."""
    if f.refused_instances:
        return "processing instances"
    if f.over_budget > 0.1 * f.faulty:
        return "`stops_per_hour`" + (", CreateProcessingJob" if f.oldest_start > 900 else "")
    if f.oldest_start > 300:
        return "CreateProcessingJob"
    if f.throttled_stops and f.stop_after[1] > 60:
        return "StopTrainingJob"
    return "nothing"


def _conservation(rows: Sequence[Figures]) -> str:
    head = "jobs | verdicts of faults | never judged | run not finished | healthy job stopped | unaccounted for"
    lines = [f"| | {head} | dead letters | found by sweeps |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for load in LOADS:
        some = [f for f in rows if f.load == load]
        total = {name: sum(getattr(f, name) for f in some) for name in _COUNTED}
        lines.append(
            f"| {load} | {total['jobs']:,} | {total['verdicts']:,} of {total['faulty']:,} | {total['unjudged']:,} | "
            f"{total['unfinished']:,} | {total['wrong']} | {total['unnamed']} | {total['dead_letters']:,} | "
            f"{total['found_by_sweeps']:,} |"
        )
    return "\n".join(lines)


_COUNTED = (
    "jobs",
    "verdicts",
    "faulty",
    "unjudged",
    "unfinished",
    "wrong",
    "unnamed",
    "dead_letters",
    "found_by_sweeps",
)


def _then_and_now(rows: Sequence[Figures]) -> str:
    lines = [
        "| | | stopped | stop after | oldest start | throttled calls | dead letters |",
        "|---|---|---:|---|---:|---:|---:|",
    ]
    for number, f in enumerate(rows):
        when = "before" if number % 2 == 0 else "now"
        calls = f.throttled_starts + f.throttled_stops
        lines.append(
            f"| {f.load} of {f.jobs:,} | {when} | {f.stopped:,} of {f.faulty:,} | {_times(f.stop_after)} | "
            f"{_time(f.oldest_start)} | {calls:,} | {f.dead_letters:,} |"
        )
    return "\n".join(lines)


def _by(rows: Sequence[Figures], what: str, values: Sequence[str]) -> str:
    lines = [
        f"| {what} | watched after | verdict after | oldest start | never judged | dead letters |",
        "|---|---|---|---:|---:|---:|",
    ]
    for value, f in zip(values, rows, strict=True):
        lines.append(
            f"| {value} | {_times(f.watched_after)} | {_times(f.verdict_after)} | {_time(f.oldest_start)} | "
            f"{f.unjudged:,} | {f.dead_letters:,} |"
        )
    return "\n".join(lines)


def _times(three: Sequence[float]) -> str:
    """`2 s / 3 s / 4 s`: median, p95, maximum."""
    return " / ".join(_time(each) for each in three)


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "-"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-write", action="store_true", help="print the tables, change no file")
    for each in dataclasses.fields(Quotas):
        kind = int if isinstance(each.default, int) else float
        parser.add_argument(f"--{each.name.replace('_', '-')}", type=kind, default=each.default)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
