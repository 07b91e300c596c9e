"""Pictures of the report on a model: curves that share an axis, bars, and a matrix; each also as a table.

Lines and bars differ by dashes and by name as well as by color.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trackside.views.report.charts.line_chart import number, round_numbers
from trackside.views.report.charts.markup import Markup, element
from trackside.views.report.charts.png import data_address, png

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 60, 14, 26, 40
MOST_LINES = 10  # as many looks as the style has
_MOST_POINTS = 400
_TABLE_ROWS = 20
_SHADES = 64

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Line:
    """A curve: its name, and finite numbers."""

    name: str
    x: Numbers
    y: Numbers


def curves(
    title: str,
    lines: Sequence[Line],
    *,
    x: str,
    y: str,
    marks: Sequence[tuple[float, str]] = (),
    diagonal: bool = False,
    steps: tuple[int, int] | None = None,
) -> Markup:
    """Return a figure of curves.

    Args:
        title: Its title.
        lines: At most `MOST_LINES`, at least one of them with a point.
        x: The horizontal axis.
        y: The vertical axis.
        marks: Places on the horizontal axis, with their names.
        diagonal: True to draw the line where both are equal, over both axes from 0 to 1.
        steps: First and last step of the horizontal axis, of which a script lets one choose some; None: as the points.
    """
    lines = [_thinned(line) for line in lines]
    frame = _Frame.around(lines, is_unit=diagonal, steps=steps)
    children = [
        *frame.axes(x, y),
        *([_segment(frame, (0, 0), (1, 1), "equal")] if diagonal else ()),
        *(_mark(frame, place, name) for place, name in marks),
        *(_drawn(frame, line, place) for place, line in enumerate(lines)),
    ]
    rows = [
        (line.name, number(float(line.x[p])), number(float(line.y[p])))
        for line in lines
        for p in _some(len(line.x), max(2, _TABLE_ROWS // len(lines)))
    ]
    return _figure(title, children, legend=[line.name for line in lines], head=("line", x, y), rows=rows, steps=steps)


def histogram(title: str, edges: Numbers, named: Sequence[tuple[str, NDArray[np.int64]]], *, x: str) -> Markup:
    """Return a figure of counts in bins.

    Args:
        title: Its title.
        edges: Of shape (bins + 1,).
        named: Name and counts, of shape (bins,), of each kind of bar.
        x: The horizontal axis.
    """
    highest = float(max((counts.max() for _, counts in named), default=1))
    frame = _Frame(float(edges[0]), float(edges[-1]), 0.0, highest or 1.0)
    bars = [
        element(
            "rect",
            x=frame.x(left + (right - left) * place / len(named)),
            y=frame.y(float(count)),
            width=max(1.0, frame.x(right) - frame.x(left) - 1) / len(named),
            height=HEIGHT - BOTTOM - frame.y(float(count)),
            class_=f"bar bar-{place}",
        )
        for place, (_, counts) in enumerate(named)
        for (left, right), count in zip(pairwise(edges.tolist()), counts.tolist(), strict=True)
        if count
    ]
    rows = [
        (f"{number(left)} to {number(right)}", *(f"{int(counts[p]):,}" for _, counts in named))
        for p, (left, right) in enumerate(pairwise(edges.tolist()))
    ]
    names = [name for name, _ in named]
    legend = names if len(names) > 1 else ()
    return _figure(title, [*frame.axes(x, "samples"), *bars], legend=legend, head=(x, *names), rows=rows, kind="bar")


def meters(title: str, head: Sequence[str], rows: Sequence[tuple[Sequence[str], float]]) -> Markup:
    """Return a table with a bar in each row: its cells, and the share from 0 to 1 to draw."""
    body = [
        element(
            "tr",
            element("th", cells[0], scope="row"),
            *(element("td", cell) for cell in cells[1:]),
            element(
                "td",
                element(
                    "meter", f"{share:.0%}", value=f"{min(1.0, max(0.0, share)):.3f}", aria_label=f"{title}: {cells[0]}"
                ),
            ),
        )
        for cells, share in rows
    ]
    top = element("tr", *(element("th", word, scope="col") for word in (*head, "Drawn")))
    return element("table", element("caption", title), element("thead", top), element("tbody", body), class_="phases")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str | None = None) -> Markup:
    """Return a plain table; its first column names the rows."""
    top = element("tr", *(element("th", word, scope="col") for word in head))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    title = element("caption", caption) if caption else None
    return element("table", title, element("thead", top), element("tbody", body), class_="numbers-table")


def folded(title: str, content: Markup) -> Markup:
    """Return content that is folded up."""
    return element("details", element("summary", title), content)


def shades(title: str, shares: Numbers, *, rows: str, columns: str) -> Markup:
    """Return a picture of shares from 0 to 1, of shape (height, width): light to dark."""
    places = np.round(np.clip(np.nan_to_num(shares), 0, 1) ** 0.5 * (_SHADES - 1)).astype(np.uint8)
    scale = np.linspace(0, 1, _SHADES)[:, None]
    colors = np.round((1 - scale) * (247, 251, 255) + scale * (8, 48, 107))
    palette = np.concatenate([colors, np.full((_SHADES, 1), 255)], axis=1).astype(np.uint8)
    image = element(
        "img",
        src=Markup(data_address(png(places, palette))),
        alt=f"{title}: {rows} from the top, {columns} from the left, dark where the share is large",
        class_="shades",
        width=480,
        height=480,
    )
    return element("figure", element("figcaption", element("b", title), f" {rows} ↓, {columns} →"), image)


class _Frame:
    """The place of numbers in a drawing."""

    def __init__(self, left: float, right: float, low: float, high: float) -> None:
        self._left, self._right = left, right if right > left else left + 1
        self._low, self._high = low, high if high > low else low + (abs(low) or 1.0)

    @classmethod
    def around(cls, lines: Sequence[Line], *, is_unit: bool, steps: tuple[int, int] | None) -> _Frame:
        if is_unit:
            return cls(0.0, 1.0, 0.0, 1.0)
        x, y = (np.concatenate([getattr(line, name) for line in lines]) for name in ("x", "y"))
        low, high = float(y.min()), float(y.max())
        room = 0.05 * (high - low)
        first, last = steps or (float(x.min()), float(x.max()))
        return cls(first, last, max(0.0, low - room) if low >= 0 else low - room, high + room)

    def x(self, value: float) -> float:
        share = (value - self._left) / (self._right - self._left)
        return round(LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(HEIGHT - BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - TOP - BOTTOM), 1)

    def axes(self, x: str, y: str) -> Iterator[Markup]:
        for value in round_numbers(self._low, self._high):
            yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=self.y(value), y2=self.y(value), class_="grid")
            yield element("text", number(value), x=LEFT - 6, y=self.y(value) + 4, text_anchor="end")
        for value in round_numbers(self._left, self._right):
            yield element("text", f"{value:,.6g}", x=self.x(value), y=HEIGHT - BOTTOM + 16, text_anchor="middle")
        yield element("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle", class_="axis-name")
        yield element("text", y, x=8, y=15, class_="axis-name")


def _drawn(frame: _Frame, line: Line, place: int) -> Markup:
    if len(line.x) == 1:
        at = frame.x(float(line.x[0])), frame.y(float(line.y[0]))
        return element("circle", cx=at[0], cy=at[1], r=3.5, class_=f"dot line-{place}")
    points = (f"{frame.x(x)},{frame.y(y)}" for x, y in zip(line.x.tolist(), line.y.tolist(), strict=True))
    return element("polyline", points=" ".join(points), class_=f"line line-{place}")


def _mark(frame: _Frame, place: float, name: str) -> Markup:
    title = element("title", name)
    at = frame.x(place)
    line = element("line", title, x1=at, x2=at, y1=TOP, y2=HEIGHT - BOTTOM, class_="mark-line")
    is_left = at > WIDTH / 2
    text = element("text", name, x=at + (-5 if is_left else 5), y=15, text_anchor="end" if is_left else "start")
    return element("g", line, text)


def _segment(frame: _Frame, start: tuple[float, float], end: tuple[float, float], name: str) -> Markup:
    return element(
        "line", x1=frame.x(start[0]), y1=frame.y(start[1]), x2=frame.x(end[0]), y2=frame.y(end[1]), class_=name
    )


def _figure(
    title: str,
    children: Sequence[Markup],
    *,
    legend: Sequence[str],
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    kind: str = "line",
    steps: tuple[int, int] | None = None,
) -> Markup:
    drawing = element(
        "svg",
        element("title", title),
        *children,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="drawing",
        data_steps=f"{steps[0]},{steps[1]}" if steps else None,
    )
    names = [
        element(
            "li", element("svg", _sample(kind, place), viewBox="0 0 24 10", class_="sample", aria_hidden="true"), name
        )
        for place, name in enumerate(legend)
    ]
    return element(
        "figure",
        element("figcaption", element("b", title)),
        drawing,
        element("ul", names, class_="legend") if names else None,
        folded(f"{title} as a table", table(head, rows)),
        class_=None if steps else "small",
    )


def _sample(kind: str, place: int) -> Markup:
    if kind == "bar":
        return element("rect", x=4, y=0, width=16, height=10, class_=f"bar bar-{place}")
    return element("line", x1=0, x2=24, y1=5, y2=5, class_=f"line line-{place}")


def _thinned(line: Line) -> Line:
    """Return a line of few points, which keeps its ends and the extremes between."""
    if len(line.x) <= _MOST_POINTS:
        return line
    edges = np.unique(np.linspace(0, len(line.x), _MOST_POINTS // 2 + 1).astype(int))
    parts = [(a, line.y[a:b]) for a, b in pairwise(edges.tolist())]
    places = {0, len(line.x) - 1, *(a + int(y.argmin()) for a, y in parts), *(a + int(y.argmax()) for a, y in parts)}
    chosen = sorted(places)
    return Line(line.name, line.x[chosen], line.y[chosen])


def _some(count: int, most: int) -> list[int]:
    found: list[int] = np.unique(np.linspace(0, count - 1, min(count, most)).astype(int)).tolist() if count else []
    return found
