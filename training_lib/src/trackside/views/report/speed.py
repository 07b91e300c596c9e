"""The report's section on speed: what binds each process, the line to change, and the phases of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trackside.speed.performance.causes import Cause
from trackside.speed.performance.durations import duration, milliseconds
from trackside.speed.performance.measured import CAPTURE, EVALUATION
from trackside.speed.performance.verdict import PerformanceVerdict
from trackside.views.report.charts.markup import Markup, element, joined

MOST_WORKERS = 4
MOST_LINES = 3
BESIDE = {CAPTURE, EVALUATION}  # not in the seconds of a step: with them the shares come to more than 100 %


def speed_section(workers: Sequence[tuple[str, PerformanceVerdict]]) -> Markup:
    """Return the verdicts on the speed of processes, and the phases of their steps.

    Args:
        workers: The verdict of each process by its name, the slowest first.
    """
    shown = [_worker(name if len(workers) > 1 else "", verdict) for name, verdict in workers[:MOST_WORKERS]]
    left_out = len(workers) - len(shown)
    more = f"{left_out} faster process{'es' * (left_out != 1)} left out; trackside profile --format json has all."
    return joined(shown, element("p", more, class_="note") if left_out else None)


def _worker(name: str, verdict: PerformanceVerdict) -> Markup:
    title = f"{verdict.bottleneck.value}: {verdict.headline}"
    causes = [_cause(cause, verdict) for cause in verdict.causes]
    notes = [*verdict.notes, *(f"not measured: {one}" for one in verdict.missing)]
    return element(
        "article",
        element("h3", f"{name}: {title}" if name else title),
        causes,
        _phases(verdict) if verdict.phases else None,
        [element("p", note, class_="note") for note in notes],
        class_="card info" if causes else "card ok",
    )


def _cause(cause: Cause, verdict: PerformanceVerdict) -> Markup:
    now, after = milliseconds(verdict.step_seconds), milliseconds(cause.step_seconds_after)
    rows = [("gain", f"{duration(cause.seconds)} at most: a step takes {now} now, {after} then")]
    if cause.headline != verdict.headline:
        rows.insert(0, ("also", f"{cause.kind}: {cause.headline}"))
    if cause.where:
        rows.append(("where", cause.where))
    places = [
        element("tr", element("td"), element("td", f"{line.place} in {line.function} ", element("code", line.code)))
        for line in cause.lines[:MOST_LINES]
    ]
    body = [element("tr", element("th", label, scope="row"), element("td", text)) for label, text in rows]
    change = element("tr", element("th", "change", scope="row"), element("td", cause.change))
    return element("table", element("tbody", body, places, change), class_="facts")


def _phases(verdict: PerformanceVerdict) -> Markup:
    words = ("Phase", "A step", "Share", "Drawn")
    head = element("tr", *(element("th", word, scope="col") for word in words))
    caption = f"{verdict.steps:,} steps of {milliseconds(verdict.step_seconds)}"
    return element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", list(_phase_rows(verdict))),
        class_="phases",
    )


def _phase_rows(verdict: PerformanceVerdict) -> Iterator[Markup]:
    for phase in verdict.phases:
        share = f"{100 * phase.share:.0f} %"
        yield element(
            "tr",
            element("th", f"{phase.name}, beside it" if phase.name in BESIDE else phase.name, scope="row"),
            element("td", milliseconds(phase.seconds)),
            element("td", share),
            element("td", element("meter", share, value=f"{min(1.0, phase.share):.3f}", aria_label=phase.name)),
        )
