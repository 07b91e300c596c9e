"""The card of a drill: the time of each stage since the fault and since the stage before, and missing stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from trackside.cli.terminal.layout import beside
from trackside.cli.terminal.text import printable
from trackside.cloud.drill import Arrival, Report

NAME_COLUMNS = 21
INDENT = 22
# What people ask of a deployment, in words.
_PROMISES = (("a rule finds it", "verdict"), ("owners are notified", "message"), ("training is stopped", "stop"))


class DrillCard:
    """A report of a drill, as Rich prints it: 80 columns are enough."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        report, ascii_only = self._report, options.ascii_only
        tick, cross = ("+", "X") if ascii_only else ("✓", "✗")
        yield Text.assemble(("Drill ", "bold"), f"{report.job}  in {report.account}, {report.region}")
        yield Text("\n  since fault  and last", style="dim")
        for arrival, before in _with_before(report.arrivals):
            line = Text(f" {_since(report.fault_at, arrival.at)} {_since(before, arrival.at)}  ", style="dim")
            line.append(f"{tick} ", style="green").append(f"{arrival.effect:<{NAME_COLUMNS}}", style="default")
            line.append(printable(arrival.detail, encoding=options.encoding), style="default")
            line.truncate(options.max_width, overflow="ellipsis")
            yield line
        for missing in report.missing:
            yield Text(f"{'':{INDENT}}  ").append(f"{cross} {missing.effect}", style="bold red")
            for label, text in (("why", missing.why), ("look at", missing.look)):
                content = Text(printable(text, encoding=options.encoding))
                yield from beside(
                    console, Text(f"    {label}", style="bold"), content, indent=13, width=options.max_width
                )
        yield Text("")
        yield _conclusion(report)
        if report.cleaned:
            content = Text(", ".join(report.cleaned))
            yield from beside(console, Text("Cleaned up:"), content, indent=12, width=options.max_width)
        for left in report.left:
            content = Text(printable(left, encoding=options.encoding))
            yield from beside(
                console, Text("NOT removed:", style="bold red"), content, indent=13, width=options.max_width
            )


def as_document(report: Report) -> dict[str, Any]:
    """Return the report as a JSON document: times in seconds since the epoch, and since the fault."""
    return {
        "job": report.job,
        "account": report.account,
        "region": report.region,
        "passed": report.passed,
        "fault_at": report.fault_at,
        "hops": [
            {
                "hop": each.effect,
                "at": each.at,
                "seconds_since_fault": None if report.fault_at is None else round(each.at - report.fault_at, 3),
                "detail": each.detail,
            }
            for each in report.arrivals
        ],
        "missing": [{"hop": each.effect, "why": each.why, "look_at": each.look} for each in report.missing],
        "cleaned": list(report.cleaned),
        "not_removed": list(report.left),
    }


def _with_before(arrivals: tuple[Arrival, ...]) -> Iterator[tuple[Arrival, float | None]]:
    before = None
    for arrival in arrivals:
        yield arrival, before
        before = arrival.at


def _since(begin: float | None, end: float) -> str:
    """Return the time in ten characters: `   +12.3 s`."""
    return f"{'':>10}" if begin is None else f"{end - begin:>+8.1f} s"


def _conclusion(report: Report) -> Text:
    if not report.passed:
        count = len(report.missing)
        return Text(f"{count} of {count + len(report.arrivals)} did not happen.", style="bold red")
    at = {each.effect: each.at - (report.fault_at or 0.0) for each in report.arrivals}
    times = ", ".join(f"{word} {max(at[effect], 0.0):.1f} s" for effect, word in _PROMISES if effect in at)
    return Text.assemble(("All of it happened.\n", "bold green"), f"Since the fault: {times}.")
