"""`trackside profile`: the verdict on the speed of a run, and the line that costs most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.progress import shown_waiting
from trackside.cli.terminal.rows import print_json, print_table
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.run.profiling_request import MOST_STEPS, PROFILERS
from trackside.speed.performance.durations import duration, milliseconds

MOST_LINES = 3
MOST_ROWS, MOST_NAME = 8, 36
BAR_CELLS = 24


@click.command("profile")
@click.argument("run")
@format_option("text", "json")
@click.option("--report", is_flag=True, help="Print the numbers of SageMaker Debugger's ProfilerReport, as JSON.")
@click.option(
    "--steps",
    type=click.IntRange(min=1, max=MOST_STEPS),
    metavar="COUNT",
    help="Profile the next steps of a running run in detail, and show them.",
)
@click.option(
    "--profiler",
    type=click.Choice(PROFILERS),
    default=PROFILERS[0],
    show_default=True,
    help="Profiler of the Python functions of these steps. py-spy works from a process of its own; it needs seconds.",
)
@click.option(
    "--price",
    type=click.FloatRange(min=0, min_open=True),
    metavar="AMOUNT",
    help="Price of an hour of the run, in any currency: shows what can be won back of it.",
)
@shared_options
def command(*, run: str, output: str, report: bool, steps: int | None, profiler: str, price: float | None) -> None:
    """Show where the time of RUN goes, and what can be won back.

    RUN is named as for `trackside findings`. The verdict is one of input-bound, copy-bound, host-bound, compute-bound,
    communication-bound, straggler rank, memory creep, balanced, hang, or incomplete: then the missing measurements are
    named. Below it stand the line to change, the change to try and its gain at best, and the phases of a step. Of
    several workers one that waits for a slower one is shown, else the slowest; JSON has all.

    --steps profiles the operators of so many steps, and then the Python functions of as many. The training needs no
    change. These steps take longer.

    \b
    Example:
      trackside profile latest
      trackside profile latest --steps 5
      trackside profile latest --price 4.10
      trackside profile latest --format json
      trackside profile latest --report
    """
    from trackside.contracts.run_layout import RunLocation
    from trackside.runs.run_folder import find_run
    from trackside.speed.performance.details import read_details
    from trackside.speed.performance.document import speed_document
    from trackside.speed.performance.reading import measured_workers
    from trackside.storage.open_store import open_store

    uri = find_run(run)
    if report:
        _print_report(uri)
        return
    if steps:
        _profile_steps(uri, steps, profiler)
    with shown_waiting("reading the run"):
        details = read_details(open_store(RunLocation(uri).profiles))
        document = speed_document(uri, measured_workers(uri), details, price=price)
    if output == "json":
        print_json(document)
        return
    workers = document["workers"]
    print_verdict(workers[0], color=wants_color())
    _print_samples(workers[0], color=wants_color())
    if len(workers) > 1:
        click.echo(f"\nshown is {workers[0]['worker']} of {len(workers)} workers; --format json has all")
    for detail in document["details"]:
        _print_detail(uri, detail, color=wants_color())


def _profile_steps(uri: str, steps: int, profiler: str) -> None:
    from trackside.contracts.run_layout import RunLocation
    from trackside.local.profile_request import request_profile
    from trackside.speed.performance.details import read_details
    from trackside.speed.profile_waiting import wait_for_profile
    from trackside.storage.open_store import open_store
    from trackside.trial.trial import open_trial

    trial = open_trial(uri)
    if trial.has_ended:
        problem = Problem(uri, "has ended, so that no further step can be profiled.", "Start it with --profile-steps.")
        raise ConfigurationError([problem], subject="The profile")

    def has_ended() -> bool:
        trial.refresh()
        return trial.has_ended

    before = read_details(open_store(RunLocation(uri).profiles)) if "://" not in uri else []
    request_profile(uri, steps, profiler=profiler)
    with shown_waiting(f"waiting for the next {steps} steps"):
        has_come = wait_for_profile(uri, before, has_ended=has_ended)
    if not has_come:
        click.echo(
            "trackside: no step was profiled: the training has ended, stands still, or profiles itself.", err=True
        )


def _print_samples(worker: Mapping[str, Any], *, color: bool) -> None:
    """Print the modules and collectives that take the longest on the steps that were sampled."""
    modules = [one for one in worker["modules"] if one["name"]][:MOST_ROWS]
    if modules:
        click.echo(f"\nmodules, on {worker['sampled_steps']} sampled steps")
        rows = [
            [
                _cut(one["name"], MOST_NAME),
                one["kind"],
                f"{one['calls']:.3g}",
                *(milliseconds(one[part]) for part in ("forward", "forward_own", "backward")),
            ]
            for one in modules
        ]
        print_table(("name", "class", "calls a step", "forward", "of its own", "backward"), rows, color=color)
    if worker["exchanges"]:
        click.echo(f"\ncollectives, on {worker['sampled_steps']} sampled steps")
        rows = [
            [one["name"], f"{one['calls']:.3g}", milliseconds(one["seconds"]), milliseconds(one["waited"])]
            for one in worker["exchanges"][:MOST_ROWS]
        ]
        print_table(("name", "calls a step", "takes", "waited for"), rows, color=color)


def _print_detail(uri: str, detail: Mapping[str, Any], *, color: bool) -> None:
    first, last = detail["first_step"], detail["last_step"]
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    count = last - first + 1
    click.echo(f"\n{detail['kind']} of {steps}, {detail['worker']}")
    rows = [
        [
            _cut(row["name"], MOST_NAME),
            row["place"],
            f"{row['calls'] / count:.3g}",
            milliseconds(row["self_seconds"] / count),
            milliseconds(row["total_seconds"] / count),
        ]
        for row in detail["rows"][:MOST_ROWS]
    ]
    if not any(row["place"] for row in detail["rows"]):
        rows = [[row[0], *row[2:]] for row in rows]
        print_table(("name", "calls a step", "own time", "in all"), rows, color=color)
    else:
        print_table(("name", "place", "calls a step", "own time", "in all"), rows, color=color)
    click.echo(f"all of it: {_relative(uri, detail['file'])}")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _relative(uri: str, key: str) -> str:
    import os

    from trackside.contracts.run_layout import PROFILES

    place = f"{uri}/{PROFILES}/{key}"
    return place if "://" in place else os.path.relpath(place)


def _print_report(uri: str) -> None:
    import time

    from trackside.contracts.run_layout import RunLocation
    from trackside.speed.performance.details import read_details
    from trackside.speed.profiler_report import profiler_report
    from trackside.storage.open_store import open_store
    from trackside.trial.trial import open_trial

    with shown_waiting("reading the run"):
        details = read_details(open_store(RunLocation(uri).profiles))
        document = profiler_report(open_trial(uri), run=uri, now=time.time(), details=details)
    print_json(document)


def print_verdict(worker: Mapping[str, Any], *, color: bool) -> None:
    """Print the verdict on one worker, as `speed_document` has it."""
    from trackside.cli.terminal.console import data_console

    console = data_console(color=color)
    lines = [f"{worker['bottleneck']}: {worker['headline']}"]
    for number, cause in enumerate(worker["causes"]):
        lines += ["", *_cause_lines(cause, step_seconds=worker["step_seconds"], is_first=not number)]
    for line in lines:
        _print_wrapped(line, width=console.width if console.is_terminal else 0)
    if worker["phases"]:
        click.echo(f"\n{worker['steps']} steps of {milliseconds(worker['step_seconds'])}")
        _print_phases(worker, color=color, bar="#" if console.options.ascii_only else "█")
    tail = [*(f"note: {note}" for note in worker["notes"]), *(f"not measured: {one}" for one in worker["missing"])]
    machine = _machine_line(worker["machine"])
    for line in ["", *tail, machine] if tail or machine else []:
        if line or tail or machine:
            _print_wrapped(line, width=console.width if console.is_terminal else 0)


def _cause_lines(cause: Mapping[str, Any], *, step_seconds: float, is_first: bool) -> Iterator[str]:
    if not is_first:
        yield f"also {cause['kind']}: {cause['headline']}"
    after = milliseconds(cause["step_seconds_after"])
    now = milliseconds(step_seconds)
    yield f"  gain    {duration(cause['seconds'])} at most: a step takes {now} now, {after} then"
    if cause["price_an_hour"] is not None:
        yield f"  price   {cause['price_an_hour']:.2f} of each hour's price can be won back at most"
    if cause["where"]:
        yield f"  where   {cause['where']}"
    for line in cause["lines"][:MOST_LINES]:
        place = f"{line['place']} in {line['function']}"
        if place != cause["where"]:
            yield f"          {place}, {100 * line['share']:.0f} % of it"
        if line["code"]:
            yield f"            {line['code']}"
    yield f"  change  {cause['change']}"


def _print_phases(worker: Mapping[str, Any], *, color: bool, bar: str) -> None:
    rows = [
        [
            phase["name"],
            milliseconds(phase["seconds"]),
            f"{100 * phase['share']:.0f} %",
            bar * round(BAR_CELLS * phase["share"]),
        ]
        for phase in worker["phases"]
    ]
    print_table(("phase", "a step", "share", ""), rows, color=color)


def _machine_line(machine: Mapping[str, Any]) -> str:
    parts = [
        (machine["cpu_percent"], "processors {:.0f} %"),
        (machine["training_cpu_percent"], "this training {:.0f} % of one"),
        (machine["io_wait_percent"], "I/O wait {:.0f} %"),
        (machine["memory_percent"], "memory {:.0f} %"),
        (machine["gpu_percent"], "GPU {:.0f} %"),
    ]
    shown = [text.format(value) for value, text in parts if value is not None]
    return f"machine: {', '.join(shown)}" if shown else ""


def _print_wrapped(line: str, *, width: int) -> None:
    """Print a line, wrapped below its own text on a terminal. Text of the script loses its control characters."""
    import textwrap

    from trackside.cli.terminal.text import printable

    text = printable(line, encoding="utf-8")
    indent = " " * (len(line) - len(line.lstrip()) + (8 if line.startswith("  ") and line[2] != " " else 2))
    wrapped = textwrap.wrap(text, width, subsequent_indent=indent, drop_whitespace=True) if width else [text]
    for part in wrapped or [""]:
        click.echo(part)
