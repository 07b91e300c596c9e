"""The pages of the dashboard as HTML. A run's page is its report; all text from outside enters through `element`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from urllib.parse import urlencode

import numpy as np

from trackside.contracts.run.recorded_names import plain_name
from trackside.contracts.verdict import Severity
from trackside.speed.performance.durations import milliseconds
from trackside.trial.tensors.buckets import Buckets, bucketed, edges_of
from trackside.views.comparing.comparison import Comparison
from trackside.views.comparing.comparison_text import facts_in_order, issue_lines, loss_lines, pace_line, verdict_line
from trackside.views.comparing.side_by_side import OneOfMany, SideBySide
from trackside.views.dashboard.shell import (
    ALL,
    AROUND,
    SIGNS,
    TIME,
    address_of,
    choice_of_axis,
    choice_of_layers,
    choice_of_steps,
    given,
    page_with,
    tensor_address,
    text_of,
    way_back,
    with_query,
)
from trackside.views.dashboard.watched import Window
from trackside.views.report.charts.line_chart import MOST_BUCKETS, Span, line_chart, number
from trackside.views.report.charts.look import AS_IT_FITS, LINEAR, LOGARITHMIC, Look, smoothed
from trackside.views.report.charts.markup import Markup, element, joined, scrolled
from trackside.views.report.distribution import Distribution
from trackside.views.report.distribution_figure import distribution_figure
from trackside.views.report.gathered import ReportData, within
from trackside.views.report.incident import Incident
from trackside.views.report.incident_section import MOST_SIGNALS, incident_parts, name_of
from trackside.views.report.model.figures import Line, curves, folded, table
from trackside.views.report.page import Links, content_of
from trackside.views.report.timeline import StepBars, timeline_figure
from trackside.views.report.weight_difference import WeightDifference, cells_of

SAVING = "trackside run --save weights=100 -- ..."
MOST_DIFFERENCES = 500  # tensors of a page
MOST_FACTS = 200  # of a comparison

_PARTS = ("module ", "parameter ")
_BESIDE = "Beside the nearest healthy run"


def run_page(data: ReportData, *, revision: str, window: Window, axis: str, look: Look = AS_IT_FITS) -> str:
    """Return the page of a run: its report, with links to tensors and a choice of steps. `axis`: `TIME` or ""."""
    name = data.recorded.location.name
    view = given(steps=text_of(window), axis=axis, **look.query)
    links = Links(
        tensor=lambda tensor, step: tensor_address(name, tensor, step),
        incident=lambda group: address_of(name, "incident", of=group),
        above=way_back(),
        layers=choice_of_layers(
            address_of(name), view, data.layers, max([one.count for one in data.heatmaps], default=0)
        ),
        below=joined(
            _pages_of(name, window, axis, rule=next((one.lead.rule_id for one in data.problems if one.standing), "")),
            element(
                "div",
                choice_of_steps(address_of(name), given(axis=axis, **data.layers.query), window, data.steps, look),
                choice_of_axis(
                    address_of(
                        name, steps=text_of(window), axis="" if axis else TIME, **look.query, **data.layers.query
                    ),
                    is_by_time=bool(axis),
                    is_known=data.wall_time is not None,
                ),
                class_="bar",
            ),
        ),
    )
    return page_with(
        f"{name}: Trackside",
        *content_of(data, links, look),
        events=address_of(name, "events", since=revision),
    )


def _pages_of(run: str, window: Window, axis: str, *, rule: str) -> Markup:
    """Return the links to the other pages of a run. `rule`: id of the rule of its gravest problem; "" without any."""
    steps = text_of(window)
    links = [
        ("Tensors", address_of(run, "tensors")),
        ("Cores and machines", address_of(run, "machine", steps=steps, axis=axis)),
        ("Timeline", address_of(run, "timeline", steps=steps, axis=axis)),
        ("Weights between two steps", address_of(run, "difference", steps=steps)),
        *(
            ((_BESIDE, address_of(run, "healthy")), (f"Runs with {rule}", with_query("/", {"rule": rule})))
            if rule
            else ()
        ),
        ("Report as a file", address_of(run, "report.html", steps=steps, axis=axis)),
        ("as JSON", address_of(run, "report.json", steps=steps, axis=axis)),
    ]
    return element(
        "nav",
        element("span", "More pages", class_="nav-word"),
        element("span", (element("a", word, href=address) for word, address in links), class_="nav-links"),
        aria_label="Pages of this run",
        class_="named",
    )


def difference_page(
    run: str, found: WeightDifference, *, ends: tuple[int, int], name: str, values: Distribution | None
) -> str:
    """Return the page on the weights between two steps.

    Args:
        run: Name of the run.
        found: The differences, the largest first.
        ends: First and last step of the run.
        name: The tensor to show in detail; "" for none.
        values: Its values at both steps; None if they were not saved.
    """
    steps = text_of(found.steps)
    words = ("Tensor", "Steps", "|Δw| / |w|", "Norms", "Cosine", "Signs turned", "Histograms differ")
    head = element("tr", *(element("th", word, scope="col") for word in words))
    rows = [
        element(
            "tr",
            element("td", element("a", one.name, href=address_of(run, "difference", steps=steps, name=one.name))),
            element("td", f"{one.first:,} to {one.last:,}", class_="count"),
            *(element("td", cell or "–", class_="count") for cell in cells_of(one)),
        )
        for one in found.found[:MOST_DIFFERENCES]
    ]
    more = len(found.found) - len(rows)
    note = (
        "Largest first. Each tensor at the nearest steps at which it is known: saved values are compared exactly; "
        "of recorded norms the difference is known at least. Histograms differ: Jensen-Shannon divergence, 0 to 1."
    )
    whole = element("table", element("thead", head), element("tbody", rows), class_="rules changes")
    hidden = {"name": name} if name else {}
    return page_with(
        f"{run}: weights between two steps",
        element(
            "header",
            way_back(run),
            element("h1", "Weights between two steps"),
            choice_of_steps(address_of(run, "difference"), hidden, found.steps, ends),
        ),
        element(
            "main",
            _detail(run, name, values) if name else None,
            element("p", note, class_="note"),
            scrolled(whole, "Differences") if rows else element("p", "No weight is known at two steps."),
            element("p", f"{more:,} more tensors changed less.", class_="note") if more else None,
            id="findings",
        ),
    )


def _detail(run: str, name: str, values: Distribution | None) -> Markup:
    heading = element("h2", element("a", name, href=tensor_address(run, name)))
    if values is None:
        why = element("p", "Its values were not saved at two steps: ", element("code", SAVING), " saves them.")
        return element("section", heading, why)
    return element("section", heading, distribution_figure(values))


def timeline_page(run: str, found: Sequence[StepBars], *, data: ReportData, window: Window, axis: str) -> str:
    """Return the page with the steps and phases of each process, and the findings as marks. `axis`: `TIME` or ""."""
    steps = data.steps or (0, 0)

    def around(step: int) -> str:
        return address_of(run, "timeline", steps=text_of((max(0, step - AROUND), step + AROUND)), axis=axis)

    figures = [
        timeline_figure(bars, steps=steps, spans=data.spans, around=around, clock=data.wall_time) for bars in found
    ]
    command = f"trackside export {shlex.quote(data.recorded.location.uri)} timeline --to timeline"
    return page_with(
        f"{run}: timeline",
        element(
            "header",
            way_back(run),
            element("h1", "Timeline"),
            choice_of_steps(address_of(run, "timeline"), given(axis=axis), window, data.steps),
            choice_of_axis(
                address_of(run, "timeline", steps=text_of(window), axis="" if axis else TIME),
                is_by_time=bool(axis),
                is_known=data.wall_time is not None,
            ),
        ),
        element(
            "main",
            figures or element("p", "No time of a step was recorded at these steps."),
            element("p", "The same for ui.perfetto.dev: ", element("code", command), class_="note"),
            id="findings",
        ),
    )


def incident_page(run: str, found: Incident) -> str:
    """Return the page on how one problem began, with links to its signals around the step at which each left."""
    links = [
        element("li", element("a", name_of(one), href=tensor_address(run, one.name, one.left[0])))
        for one in found.signals[:MOST_SIGNALS]
        if one.left is not None
    ]
    parts = element("article", *incident_parts(found), id="findings")
    title = "Each signal closely"
    if not links:
        title, subjects = "What its findings name", [one for issue in found.group.standing for one in issue.findings]
        names = dict.fromkeys(one.subject for one in subjects)
        links = [
            element("li", element("a", plain_name(name), href=tensor_address(run, name, found.since)))
            for name in list(names)[:MOST_SIGNALS]
        ]
    evidence = joined(element("h2", title), element("ul", links, class_="tensors")) if links else None
    return page_with(
        f"{run}: how it began",
        element("header", way_back(run), element("h1", f"How it began: {found.group.lead.configuration_name}")),
        element("main", parts, evidence),
    )


def compare_address(a: str, b: str) -> str:
    """Return the address of the comparison of two runs."""
    return f"/compare?{urlencode([('run', a), ('run', b)])}"


def compare_page(
    found: Comparison,
    drawn: Sequence[tuple[str, Buckets, tuple[int, int], Sequence[Span]]],
    *,
    window: Window = ALL,
    look: Look = AS_IT_FITS,
) -> str:
    """Return the page of two runs.

    Args:
        found: Their comparison.
        drawn: Title, numbers, axis and shaded steps of each loss, A before B.
        window: The chosen steps.
        look: The look of the curves.
    """
    a, b = (place.rstrip("/").rpartition("/")[2] for place in (found.a, found.b))
    heading = joined(
        "A ", element("a", a, href=address_of(a)), element("br"), "B ", element("a", b, href=address_of(b))
    )
    facts = [(fact.fact, (fact.a, fact.b)) for fact in facts_in_order(found.facts)]
    charts: list[Markup | None] = []
    for a_loss, b_loss in zip(drawn[::2], drawn[1::2], strict=True):
        title, _, axis, spans = a_loss
        loss, both = title.partition(": ")[2], [a_loss[1], b_loss[1]]
        marks = [(float(span.first), span.name) for span in spans if span.first >= axis[0]]
        charts.append(_losses_of_two(loss, both, axis, look, marks))
        each = [line_chart(one[0], one[1], steps=axis, spans=spans, look=look) for one in (a_loss, b_loss)]
        charts.append(folded(f"{loss} of each run, with its extremes", joined(each)))
    ends = [axis for _, _, axis, _ in drawn]
    shown = (min(first for first, _ in ends), max(last for _, last in ends)) if ends else None
    lines = _nested((*issue_lines(found), *loss_lines(found), pace_line(found)))
    has_issue = found.issues_a or found.issues_b or found.issues_both
    looks = "critical" if has_issue else "" if found.reservation_a or found.reservation_b else "ok"
    return page_with(
        f"{a} and {b}: compared",
        element(
            "header",
            way_back(),
            element("h1", "Two runs"),
            element("p", verdict_line(found), class_=f"verdict {looks}".strip()),
            element("p", heading),
        ),
        element(
            "main",
            element("section", element("h2", "What differs"), element("ul", lines)),
            element(
                "section",
                element("h2", "Losses"),
                choice_of_steps("/compare", [("run", a), ("run", b)], window, shown, look),
                charts or element("p", "The runs have no loss in common."),
            ),
            _speed_of_two(found),
            element(
                "section",
                element("h2", "Settings"),
                _settings("AB", facts),
            ),
        ),
    )


def _nested(lines: Sequence[str]) -> list[Markup]:
    """Return lines as items of a list; those that begin with a space stand below the one before them."""
    items: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(" ") and items:
            items[-1][1].append(line.strip())
        else:
            items.append((line, []))
    return [
        element("li", line, element("ul", (element("li", one) for one in below)) if below else None)
        for line, below in items
    ]


def _speed_of_two(found: Comparison) -> Markup | None:
    if not found.phases:
        return None
    rows = [
        (
            each.phase,
            *("–" if seconds is None else milliseconds(seconds) for seconds in (each.a, each.b)),
            f"{each.b / each.a - 1:+.0%}" if each.a and each.b else "–",
        )
        for each in found.phases
    ]
    verdict = element("p", f"A is {found.speed_a}, B is {found.speed_b}. Time a step, on the slowest process:")
    return element("section", element("h2", "Speed"), verdict, table(("Phase", "A", "B", "Change"), rows))


def _settings(letters: Sequence[str], facts: Sequence[tuple[str, Sequence[str]]]) -> Markup:
    """Return the settings that differ: those of the program in the open, the parts of the model folded up."""
    if not facts:
        return element("p", "No recorded setting differs.")
    top = element("tr", *(element("th", word, scope="col") for word in ("Setting", *letters)))
    of_model = [fact for fact in facts if fact[0].startswith(_PARTS)]
    others = [fact for fact in facts if not fact[0].startswith(_PARTS)]

    def shown(some: Sequence[tuple[str, Sequence[str]]]) -> Markup:
        rows = [
            element("tr", element("th", fact, scope="row"), *(element("td", value or "–") for value in values))
            for fact, values in some[:MOST_FACTS]
        ]
        more = f"{len(some) - MOST_FACTS:,} more differ." if len(some) > MOST_FACTS else None
        whole = element("table", element("thead", top), element("tbody", rows), class_="rules settings")
        return joined(scrolled(whole, "Settings"), element("p", more, class_="note") if more else None)

    word = f"{len(of_model):,} part{'s' * (len(of_model) != 1)} of the model that differ{'s' * (len(of_model) == 1)}"
    return joined(shown(others) if others else None, folded(word, shown(of_model)) if of_model else None)


def _losses_of_two(
    loss: str, both: Sequence[Buckets], axis: tuple[int, int], look: Look, marks: Sequence[tuple[float, str]]
) -> Markup | None:
    lines = [line for letter, numbers in zip("AB", both, strict=True) if (line := _line(letter, numbers, look))]
    return _losses_of_many(loss, lines, axis, look, marks) if lines else None


def _line(name: str, numbers: Buckets, look: Look) -> Line | None:
    """Return the curve of a run, smoothed if that was chosen; None without a finite number."""
    is_finite = np.isfinite(numbers.mean)
    values = smoothed(numbers.mean, look.smooth) if look.smooth else numbers.mean
    return Line(name, numbers.first[is_finite].astype(np.float64), values[is_finite]) if is_finite.any() else None


def _losses_of_many(
    loss: str, lines: Sequence[Line], axis: tuple[int, int], look: Look, marks: Sequence[tuple[float, str]] = ()
) -> Markup:
    """Return the curves of one loss, as logarithms where they span decades, or where that was chosen."""
    values = np.concatenate([line.y for line in lines])
    decades = {LINEAR: np.inf, LOGARITHMIC: 1.0}.get(look.scale, 100.0)
    if values.min() > 0 and values.max() > decades * values.min():
        lines = [Line(line.name, line.x, np.log10(line.y)) for line in lines]
        return curves(loss, lines, x="step", y=f"log₁₀ of {loss}", marks=marks, steps=axis)
    return curves(loss, lines, x="step", y=loss, marks=marks, steps=axis)


def _drawn_of_many(
    loss: str, lines: Sequence[tuple[int, Line]], window: Window, look: Look, names: Sequence[str]
) -> tuple[tuple[int, int], Markup]:
    """Return the axis and the curves of one loss of several runs, within the chosen steps."""
    whole = int(min(line.x[0] for _, line in lines)), int(max(line.x[-1] for _, line in lines))
    axis = within(whole, window) or whole
    edges = edges_of(*axis, MOST_BUCKETS)
    chosen = [(place, bucketed(line.x.astype(np.int64), line.y, edges)) for place, line in lines]
    shown = [line for place, numbers in chosen if (line := _line(names[place], numbers, look))]
    return axis, _losses_of_many(loss, shown, axis, look) if shown else element("p", f"{loss} has no number here.")


def many_page(found: SideBySide, *, window: Window = ALL, look: Look = AS_IT_FITS) -> str:
    """Return the page of three runs or more, side by side. `window`: the chosen steps; `look`: that of the curves."""
    letters = [f"{place + 1}" for place in range(len(found.runs))]
    words = ("No.", "Run", "Verdict", "Steps", "Last loss", "Steps a second")
    head = element("tr", *(element("th", word, scope="col") for word in words))
    rows = [
        element(
            "tr",
            element("th", letter, scope="row"),
            element("td", element("a", run.name, href=address_of(run.name))),
            element("td", _verdict_of_one(run)),
            element("td", f"{run.steps:,}", class_="count"),
            element("td", "–" if run.last_loss is None else number(run.last_loss), class_="count"),
            element("td", "–" if run.pace is None else number(run.pace), class_="count"),
        )
        for letter, run in zip(letters, found.runs, strict=True)
    ]
    whole = element("table", element("thead", head), element("tbody", rows), class_="rules runs")
    names = [f"{letter}: {run.name}" for letter, run in zip(letters, found.runs, strict=True)]
    drawn = [
        _drawn_of_many(loss, [(place, Line("", x, y)) for place, x, y in lines], window, look, names)
        for loss, lines in found.losses
    ]
    shown = (min(axis[0] for axis, _ in drawn), max(axis[1] for axis, _ in drawn)) if drawn else None
    charts = [chart for _, chart in drawn]
    pairs = [
        element(
            "li",
            element("a", f"1 and {letter}", href=compare_address(found.runs[0].name, run.name)),
            f": {run.name}",
        )
        for letter, run in zip(letters[1:], found.runs[1:], strict=True)
    ]
    return page_with(
        f"{len(found.runs)} runs: compared",
        element("header", way_back(), element("h1", f"{len(found.runs)} runs")),
        element(
            "main",
            scrolled(whole, "The runs"),
            element(
                "section",
                element("h2", "Losses"),
                choice_of_steps("/compare", [("run", run.name) for run in found.runs], window, shown, look),
                charts or element("p", "The runs have no loss in common."),
            ),
            element(
                "section",
                element("h2", "Settings that differ"),
                _settings(letters, found.facts),
            ),
            element("section", element("h2", "Two at a time"), element("ul", pairs)),
            id="findings",
        ),
    )


def _verdict_of_one(run: OneOfMany) -> Markup:
    if not run.is_judged:
        return element("span", "◌ not judged", class_="state unknown")
    back = [f"{name} recovered by step {step:,}" for name, step in run.recovered.items()]
    named = [f"{name} since step {step:,}" for name, step in run.issues.items()]
    if not named and run.reservation:
        return element("span", "; ".join([f"◌ {run.reservation}", *back]), class_="state unknown")
    if not named:
        return element("span", "; ".join(["✔ no issue", *back]), class_="verdict-word ok")
    worst = run.worst or Severity.INFO
    words = f"{SIGNS[worst]} {', '.join(named)}"
    return element("span", "; ".join([words, *back]), class_=f"verdict-word {worst.value}")


def error_page(title: str, lines: Sequence[str]) -> str:
    """Return a page about an error, with its cure."""
    return page_with(
        title,
        element("header", way_back(), element("h1", title)),
        element("main", *(element("p", line.strip()) for line in lines if line.strip())),
    )
