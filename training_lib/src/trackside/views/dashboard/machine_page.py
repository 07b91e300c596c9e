"""The page of a run's machines: a tab for each, its cores over the steps, each metric as a curve and in quantiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trackside.trial.tensors.buckets import bucketed, edges_of
from trackside.views.dashboard.machine_view import MachineView
from trackside.views.dashboard.shell import (
    TIME,
    address_of,
    choice_of_axis,
    choice_of_steps,
    given,
    page_with,
    text_of,
    way_back,
)
from trackside.views.dashboard.watched import Window
from trackside.views.report.charts.heatmap import heatmap_figure
from trackside.views.report.charts.line_chart import MOST_BUCKETS, line_chart, number
from trackside.views.report.charts.markup import Markup, element, joined, scrolled
from trackside.views.report.gathered import ReportData
from trackside.views.report.machine import MachineCurve
from trackside.views.report.model.figures import table

MOST_NODES = 64  # tabs
_QUANTILES = (("Most", 1.0), ("99 %", 0.99), ("95 %", 0.95), ("Median", 0.5), ("Least", 0.0))


def machine_page(run: str, found: MachineView, *, data: ReportData, window: Window, axis: str) -> str:
    """Return the page. `axis`: `TIME` or ""."""
    steps = data.steps or (0, 0)
    chosen = given(node=found.node if len(found.nodes) > 1 else "")
    return page_with(
        f"{run}: machine",
        element(
            "header",
            way_back(run),
            element("h1", f"Machine {found.node}" if found.node else "Machine"),
            _tabs(run, found, window, axis),
            choice_of_steps(address_of(run, "machine"), {**given(axis=axis), **chosen}, window, data.steps),
            choice_of_axis(
                address_of(run, "machine", steps=text_of(window), axis="" if axis else TIME, **chosen),
                is_by_time=bool(axis),
                is_known=data.wall_time is not None,
            ),
        ),
        element("main", _content(found, data, steps), id="findings"),
    )


def _tabs(run: str, found: MachineView, window: Window, axis: str) -> Markup | None:
    """Return a link to each machine; None for a run on one."""
    if len(found.nodes) < 2:
        return None
    links = [
        element(
            "a",
            node,
            href=address_of(run, "machine", node=node, steps=text_of(window), axis=axis),
            aria_current="page" if node == found.node else None,
        )
        for node in found.nodes[:MOST_NODES]
    ]
    return element("nav", links, aria_label="Machines", class_="tabs")


def _content(found: MachineView, data: ReportData, steps: tuple[int, int]) -> Markup:
    if found.cores is None and not found.curves:
        return element(
            "p", "No sample of this machine was recorded at these steps. ", element("code", "trackside run"),
            " takes two a second.",
        )  # fmt: skip
    edges = edges_of(*steps, MOST_BUCKETS)
    charts = [
        line_chart(
            one.title,
            bucketed(one.steps, one.values, edges),
            steps=steps,
            spans=data.spans,
            shown=(0.0, 100.0) if "in use, %" in one.title else (0.0,),
            clock=data.wall_time,
        )
        for one in found.curves
    ]
    parts: list[Markup] = []
    if found.cores is not None:
        note = "A row is a core; a cell shows its largest use at these steps."
        figure = heatmap_figure(found.cores, number_of=0, clock=data.wall_time)
        parts += [element("h2", "Cores"), element("p", note, class_="note"), figure]
    if found.curves:
        parts += [element("h2", "Use at these steps"), _quantiles(found.curves), element("h2", "Over the steps")]
    return joined(parts, charts)


def _quantiles(curves: Sequence[MachineCurve]) -> Markup:
    rows = [
        (one.title, *(number(float(value)) for value in np.quantile(one.values, [share for _, share in _QUANTILES])))
        for one in curves
    ]
    return scrolled(table(("Metric", *(word for word, _ in _QUANTILES)), rows), "Quantiles of each metric")
