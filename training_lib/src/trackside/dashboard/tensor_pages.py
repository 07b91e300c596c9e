"""The pages of a run's tensors: all of them, and one."""

from __future__ import annotations

from collections.abc import Sequence

from trackside.dashboard.shell import (
    TIME,
    address_of,
    choice_of_axis,
    choice_of_steps,
    given,
    page_with,
    tensor_address,
    text_of,
    way_back,
)
from trackside.dashboard.tensors import TensorCurves
from trackside.dashboard.watched import Window
from trackside.report.distribution import Distribution
from trackside.report.distribution_figure import distribution_figure
from trackside.report.line_chart import Span, line_chart
from trackside.report.markup import element
from trackside.report.wall_time import WallTime


def tensors_page(run: str, names: Sequence[str], *, wanted: str, found: int) -> str:
    """Return the page that lists the tensors of a run: the first of `found` with the wanted text in their names."""
    search = element(
        "form",
        element("label", "Name holds ", element("input", type="search", name="q", value=wanted)),
        " ",
        element("button", "Show"),
        role="search",
    )
    rows = [element("li", element("a", name, href=tensor_address(run, name))) for name in names]
    more = f"{found - len(names):,} more: search for a part of the name." if found > len(names) else None
    return page_with(
        f"{run}: tensors",
        element("header", way_back(run), element("h1", "Tensors"), search),
        element(
            "main",
            element("ul", rows, class_="tensors") if rows else element("p", "No tensor was recorded with such a name."),
            element("p", more, class_="note") if more else None,
        ),
    )


def tensor_page(
    run: str,
    tensor: str,
    found: TensorCurves | None,
    *,
    window: Window,
    axis: str,
    clock: WallTime | None,
    spans: Sequence[Span],
    values: Distribution | None,
) -> str:
    """Return the page of one tensor: each of its statistics over the steps, for each process, and its values.

    Args:
        run: Name of the run.
        tensor: Name of the tensor.
        found: Its statistics.
        window: The chosen steps.
        axis: `TIME` or "".
        clock: The moments of the steps, for `TIME`, if they are known.
        spans: Steps of issues about the tensor.
        values: Its values over steps.
    """
    steps = found.steps if found else None
    spans = [span for span in spans if steps and span.last >= steps[0] and span.first <= steps[1]]
    curves = found.curves if found else ()
    charts = [line_chart(title, numbers, steps=steps, spans=spans, clock=clock) for title, numbers in curves if steps]
    issues = dict.fromkeys(f"{span.name} since step {span.first:,} ({span.severity})" for span in spans)
    note = f"Shaded: {', '.join(issues)}." if issues else None
    return page_with(
        f"{run}: {tensor}",
        element(
            "header",
            way_back(run),
            element("h1", tensor),
            choice_of_steps(address_of(run, "tensor"), given(name=tensor, axis=axis), window, steps),
            choice_of_axis(
                address_of(run, "tensor", name=tensor, steps=text_of(window), axis="" if axis else TIME),
                is_by_time=bool(axis),
                is_known=clock is not None,
            ),
            element(
                "p",
                element(
                    "a",
                    "Between two steps",
                    href=address_of(run, "difference", steps=text_of(window), name=tensor),
                ),
            ),
        ),
        element(
            "main",
            element("p", note, class_="note") if note else None,
            charts or element("p", "No number of this tensor was recorded at these steps."),
            element("section", element("h2", "Distribution"), distribution_figure(values, clock=clock))
            if values
            else None,
        ),
    )
