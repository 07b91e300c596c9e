"""Charts of profiles as static SVG that needs no style sheet and no script: for notebooks and mail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.trial.tensors.buckets import Buckets, bucketed, edges_of
from trackside.views.report.charts.line_chart import number
from trackside.views.report.charts.markup import Markup, element
from trackside.views.report.charts.png import data_address, png

WIDTH, HEIGHT = 720, 160
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 24, 22
MOST_BUCKETS = 400
_ROW = 14
_COLORS = ("#1f5fa8", "#c2571a", "#2e7d32", "#8e3b8c", "#6b6b6b", "#b58900")
_LOW, _HIGH = (0, 34, 78), (254, 232, 56)  # dark blue to yellow, which stay apart in grey


def time_chart(title: str, curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Markup:
    """Return curves over time: the mean of each moment as a line, its extremes as a band.

    Args:
        title: The title, with the unit.
        curves: (seconds, values) by name, by time; values that are not finite are left out.
    """
    finite = {
        name: (times[np.isfinite(values)], values[np.isfinite(values)]) for name, (times, values) in curves.items()
    }
    known = {name: each for name, each in finite.items() if len(each[0])}
    if not known:
        return _drawing(title, "no numbers", [])
    end = max(float(seconds[-1]) for seconds, _ in known.values())
    start = min(float(seconds[0]) for seconds, _ in known.values())
    found = {name: _by_time(seconds - start, values, end - start) for name, (seconds, values) in known.items()}
    low = min(0.0, *(float(each.low.min()) for each in found.values()))
    high = max(float(each.high.max()) for each in found.values())
    width = max(1, math.ceil((end - start) * 1e3))
    children = list(_frame(low, high, ("0 s", f"{number((end - start) / 2)} s", f"{number(end - start)} s")))
    for place, (name, each) in enumerate(found.items()):
        color = _COLORS[place % len(_COLORS)]
        xs = [LEFT + (WIDTH - LEFT - RIGHT) * x / width for x in ((each.first + each.last) / 2).tolist()]
        upper = [f"{x:.1f},{_y(y, low, high):.1f}" for x, y in zip(xs, each.high.tolist(), strict=True)]
        lower = [f"{x:.1f},{_y(y, low, high):.1f}" for x, y in zip(xs, each.low.tolist(), strict=True)]
        mean = [f"{x:.1f},{_y(y, low, high):.1f}" for x, y in zip(xs, each.mean.tolist(), strict=True)]
        children.append(element("path", d=f"M{' L'.join([*upper, *reversed(lower)])}Z", fill=color, fill_opacity=0.2))
        children.append(element("polyline", element("title", name), points=" ".join(mean), fill="none", stroke=color))
        if len(found) > 1:
            left = LEFT + 8 + 160 * (place % 4)
            children.append(element("text", name[:24], x=left, y=TOP + 12 + 12 * (place // 4), fill=color))
    return _drawing(title, f"from {number(low)} to {number(high)}", children)


def histogram_chart(title: str, values: NDArray[np.float64], edges: NDArray[np.float64]) -> Markup:
    """Return how often values lie between edges. A value outside of the edges is counted in the first or last bar.

    Args:
        title: The title, with the unit.
        values: The numbers.
        edges: Ascending.
    """
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    most = max(1, int(counts.max(initial=0)))
    middle = float(edges[0] + edges[-1]) / 2
    labels = (number(float(edges[0])), number(middle), number(float(edges[-1])))
    width = (WIDTH - LEFT - RIGHT) / len(counts)
    bars = [
        element(
            "rect",
            element("title", f"{number(float(edges[place]))} to {number(float(edges[place + 1]))}: {count}"),
            x=LEFT + place * width,
            y=_y(count, 0, most),
            width=max(0.5, width - 0.5),
            height=HEIGHT - BOTTOM - _y(count, 0, most),
            fill=_COLORS[0],
        )
        for place, count in enumerate(counts.tolist())
        if count
    ]
    return _drawing(title, f"{len(values):,} numbers", [*_frame(0, most, labels), *bars])


def usage_map(title: str, names: Sequence[str], values: NDArray[np.float64], seconds: float) -> Markup:
    """Return shares of devices over time as a picture: dark is 0 %, bright 100 %, white no sample.

    Args:
        title: The title.
        names: A name a row.
        values: Percent, of shape (rows, columns); NaN where there is no sample.
        seconds: The time that the columns span.
    """
    shares = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 100.0)
    places = np.where(np.isnan(values), 0, 1 + np.round(shares).astype(np.int64)).astype(np.uint8)
    scale = np.stack([np.linspace(low, high, 101) for low, high in zip(_LOW, _HIGH, strict=True)], axis=1)
    colors = np.concatenate([np.full((1, 4), 255), np.concatenate([scale, np.full((101, 1), 255)], axis=1)])
    left, height = 330, len(names) * _ROW
    picture = element(
        "image",
        href=Markup(data_address(png(places, colors.astype(np.uint8)))),
        x=left, y=TOP, width=WIDTH - left - RIGHT, height=height,
        preserveAspectRatio="none", style="image-rendering:pixelated",
    )  # fmt: skip
    rows = [
        element("text", name[-54:], x=left - 6, y=TOP + _ROW * (place + 0.8), text_anchor="end")
        for place, name in enumerate(names)
    ]
    below = TOP + height + 14
    axis = [
        element("text", "0 s", x=left, y=below),
        element("text", f"{number(seconds)} s", x=WIDTH - RIGHT, y=below, text_anchor="end"),
    ]
    return _drawing(title, "dark 0 %, bright 100 %", [picture, *rows, *axis], height=below + 8)


def _by_time(seconds: NDArray[np.float64], values: NDArray[np.float64], whole: float) -> Buckets:
    """Return numbers in buckets of whole milliseconds."""
    edges = edges_of(0, max(1, math.ceil(whole * 1e3)), MOST_BUCKETS)
    return bucketed((seconds * 1e3).astype(np.int64), values, edges)


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / ((high - low) or 1.0)


def _frame(low: float, high: float, labels: tuple[str, str, str]) -> list[Markup]:
    ends = [(low, HEIGHT - BOTTOM), (high, TOP)]
    places = zip(labels, (LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT), ("start", "middle", "end"), strict=True)
    return [
        *(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, stroke="#bbb") for _, y in ends),
        *(element("text", number(value), x=LEFT - 6, y=y + 4, text_anchor="end") for value, y in ends),
        *(element("text", label, x=x, y=HEIGHT - 6, text_anchor=anchor) for label, x, anchor in places),
    ]


def _drawing(title: str, note: str, children: Sequence[Markup], *, height: float = HEIGHT) -> Markup:
    return element(
        "svg",
        element("title", f"{title}: {note}"),
        element("rect", x=0, y=0, width=WIDTH, height=height, fill="#fff"),
        element("text", title, x=LEFT, y=14, font_weight="bold"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
        width=WIDTH,
        height=height,
        role="img",
        font_family="sans-serif",
        font_size=11,
        style="display:block;max-width:100%",
    )
