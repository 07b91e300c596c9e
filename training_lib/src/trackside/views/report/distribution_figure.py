"""The values of a tensor over steps as pictures: quantiles as bands, and histograms one below another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from trackside.views.report.charts.line_chart import number
from trackside.views.report.charts.markup import Markup, element, joined
from trackside.views.report.charts.wall_time import WallTime
from trackside.views.report.distribution import Distribution
from trackside.views.report.model.figures import Line, curves, folded, table

WIDTH, HEIGHT = 620, 260
LEFT, RIGHT, TOP, BOTTOM = 76, 10, 10, 24
RIDGES, RIDGE_WIDTH = 14, 320
_RIDGE_HEIGHT = 30  # of the highest bin
_BANDS = ((0, 6, "least to most"), (1, 5, "5 to 95 %"), (2, 4, "25 to 75 %"))
_MEDIAN = 3
_TICKS = 5


def distribution_figure(found: Distribution, *, clock: WallTime | None = None) -> Markup:
    """Return the figure of one tensor.

    Args:
        found: The values of the tensor.
        clock: The moments of the steps, for bands over wall time; None: over steps.
    """
    if not len(found.steps):
        return _sizes_figure(found)
    words = f"{found.size:,} elements at {len(found.steps)} saved step{'s' * (len(found.steps) != 1)}"
    broken = int(found.broken.sum())
    caption = element(
        "figcaption",
        element("b", found.name),
        f" {words}{f', of {found.worker}' if found.worker else ''}. ",
        f"{found.left_out:,} more saved steps are not drawn. " if found.left_out else None,
        element("span", f"{broken:,} numbers are not finite. ", class_="broken-word") if broken else None,
    )
    rows = [
        (f"{step:,}", *(number(float(q)) for q in quantiles[[0, 1, 3, 5, 6]]), f"{zeros:,}", f"{bad:,}")
        for step, quantiles, zeros, bad in zip(
            found.steps.tolist(), found.quantiles, found.zeros.tolist(), found.broken.tolist(), strict=True
        )
    ]
    head = ("Step", "Least", "5 %", "Median", "95 %", "Most", "Zeros", "Not finite")
    return element(
        "figure",
        caption,
        element("div", _bands(found, clock), _ridges(found), class_="spread"),
        folded(f"Values of {found.name} as a table", table(head, rows)),
        class_="distribution",
    )


def _sizes_figure(found: Distribution) -> Markup:
    lines = []
    for title, numbers in found.sizes:
        is_shown = np.isfinite(numbers.mean) & (numbers.mean > 0)
        lines.append(Line(title, numbers.first[is_shown].astype(np.float64), np.log10(numbers.mean[is_shown])))
    if not any(len(line.x) for line in lines):
        return element("p", f"No size of {found.name} is above 0 and finite.")
    drawn = curves(f"Sizes of the elements of {found.name}", lines, x="step", y="log₁₀ of the size")
    return joined(drawn)


class _Scale:
    """Values on an axis: by their place among the edges of the bins, which may grow away from 0."""

    def __init__(self, found: Distribution) -> None:
        self._edges = found.edges
        self._places = np.linspace(0.0, 1.0, len(found.edges))

    def share(self, value: float) -> float:
        return float(np.interp(value, self._edges, self._places))

    def ticks(self) -> Iterator[tuple[float, float]]:
        """Yield a value and its place, from 0 to 1."""
        for place in np.linspace(0, len(self._edges) - 1, _TICKS).astype(int):
            yield float(self._edges[place]), float(self._places[place])


def _bands(found: Distribution, clock: WallTime | None) -> Markup:
    scale = _Scale(found)
    first, last = int(found.steps[0]), max(int(found.steps[-1]), int(found.steps[0]) + 1)

    def x(step: int) -> float:
        share = (step - first) / (last - first) if clock is None else clock.share(step)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - scale.share(value) * (HEIGHT - TOP - BOTTOM), 1)

    known = [place for place in range(len(found.steps)) if math.isfinite(found.quantiles[place, _MEDIAN])]
    at = [x(int(found.steps[place])) for place in known]
    children: list[Markup] = []
    for value, place in scale.ticks():
        here = HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)
        children.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=here, y2=here, class_="grid"))
        children.append(element("text", number(value), x=LEFT - 6, y=here + 4, text_anchor="end"))
    for low, high, words in _BANDS:
        upper = [f"{here},{y(float(found.quantiles[p, high]))}" for here, p in zip(at, known, strict=True)]
        lower = [f"{here},{y(float(found.quantiles[p, low]))}" for here, p in zip(at, known, strict=True)]
        path = f"M{' L'.join([*upper, *reversed(lower)])}Z"
        children.append(element("path", element("title", words), d=path, class_="quantiles"))
    middle = [f"{here},{y(float(found.quantiles[p, _MEDIAN]))}" for here, p in zip(at, known, strict=True)]
    children.append(element("polyline", points=" ".join(middle), class_="curve"))
    children += [
        element("line", x1=x(step), x2=x(step), y1=TOP, y2=HEIGHT - BOTTOM, class_="broken")
        for step, bad in zip(found.steps.tolist(), found.broken.tolist(), strict=True)
        if bad
    ]
    ends: tuple[tuple[str, float, str], ...]
    if clock is None:
        ends = tuple((f"{at:,}", x(at), anchor) for at, anchor in ((first, "start"), (int(found.steps[-1]), "end")))
    else:
        ends = ((clock.labels()[0], LEFT, "start"), (clock.labels()[-1], WIDTH - RIGHT, "end"))
    children += [element("text", words, x=at, y=HEIGHT - 7, text_anchor=anchor) for words, at, anchor in ends]
    over = "steps" if clock is None else "time"
    title = f"{found.name} over {over}: median, and bands of {', '.join(words for *_, words in reversed(_BANDS))}"
    return _drawing(title, children, WIDTH, HEIGHT)


def _ridges(found: Distribution) -> Markup:
    """Return histograms one below another, the newest in front."""
    count = min(len(found.steps), RIDGES)
    chosen = np.unique(np.linspace(0, len(found.steps) - 1, count).astype(int)).tolist()
    room = HEIGHT - TOP - BOTTOM - _RIDGE_HEIGHT
    distance = room / max(1, len(chosen) - 1)
    bins = found.counts.shape[1]
    left, right = 44, 8
    places = [left + (place + 0.5) / bins * (RIDGE_WIDTH - left - right) for place in range(bins)]
    children: list[Markup] = []
    for number_of, place in enumerate(chosen):
        ground = TOP + _RIDGE_HEIGHT + number_of * distance
        highest = max(1, int(found.counts[place].max()))
        # Roots: a bin with few values still shows beside one with most of them.
        heights = np.sqrt(found.counts[place] / highest) * _RIDGE_HEIGHT
        points = [f"{at:.1f},{ground - height:.1f}" for at, height in zip(places, heights.tolist(), strict=True)]
        path = f"M{places[0]:.1f},{ground:.1f} L{' L'.join(points)} L{places[-1]:.1f},{ground:.1f}Z"
        words = element("title", f"step {int(found.steps[place]):,}")
        children.append(element("path", words, d=path, class_=f"ridge ridge-{_shade(number_of, len(chosen))}"))
        if number_of % max(1, len(chosen) // 7) == 0 or number_of == len(chosen) - 1:
            children.append(element("text", f"{int(found.steps[place]):,}", x=left - 6, y=ground, text_anchor="end"))
    for value, anchor, at in ((found.edges[0], "start", left), (found.edges[-1], "end", RIDGE_WIDTH - right)):
        children.append(element("text", number(float(value)), x=at, y=HEIGHT - 7, text_anchor=anchor))
    title = f"{found.name}: histograms of {len(chosen)} steps, the newest in front; heights are roots of shares"
    return _drawing(title, children, RIDGE_WIDTH, HEIGHT)


def _shade(place: int, count: int) -> int:
    return round(4 * place / max(1, count - 1))


def _drawing(title: str, children: Sequence[Markup], width: int, height: int) -> Markup:
    return element(
        "svg", element("title", title), *children, viewBox=f"0 0 {width} {height}", role="img", class_="drawing"
    )
