"""Line charts as inline SVG: the mean of each bucket as a line, its extremes as a band, broken numbers as marks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.trial.tensors.buckets import Buckets
from trackside.views.report.charts.look import AS_IT_FITS, LINEAR, LOGARITHMIC, Look, smoothed
from trackside.views.report.charts.markup import Markup, element
from trackside.views.report.charts.wall_time import WallTime

WIDTH, HEIGHT = 960, 180
LEFT, RIGHT, TOP, BOTTOM = 72, 12, 10, 24  # the same gutters in each chart, so that steps stand below one another
MOST_BUCKETS = 400
_LOG_DECADES = 2.0  # a curve over more decades is drawn on a logarithmic axis: one that goes through 0, if it does
_USUAL = 0.25  # share of the sizes of a curve through 0 that stand below its usual size
_GROUPED = 999.5, 99_950  # sizes that are written as 1,230, and not as 1.23e+03
_TICKS = 4


@dataclass(frozen=True)
class Span:
    """Steps of a problem, shaded in each chart. `name` is the rule's."""

    first: int
    last: int
    severity: str
    name: str


def line_chart(
    title: str,
    found: Buckets,
    *,
    steps: tuple[int, int],
    spans: Sequence[Span] = (),
    shown: Sequence[float] = (),
    clock: WallTime | None = None,
    look: Look = AS_IT_FITS,
) -> Markup:
    """Return a chart of one curve.

    Args:
        title: The curve's name.
        found: Its numbers, at least one bucket.
        steps: First and last step of the axis.
        spans: Problems to shade.
        shown: Numbers that the vertical axis reaches in any case: 0 and 100 for a share.
        clock: The moments of the steps, for an axis in wall time.
        look: The chosen scale and smoothing; a smoothed curve stands above the one that was measured.
    """
    axis = Axis.of(found, shown, scale=look.scale)
    scale = _Steps(*steps, clock)
    places = [scale.x((a + b) / 2) for a, b in zip(found.first.tolist(), found.last.tolist(), strict=True)]
    children = [
        *(_shade(span, scale) for span in spans),
        *_grid(axis),
        *_step_labels(scale),
        *_band(places, found, axis),
        *_lines(places, found.mean, axis, class_="curve measured" if look.smooth else "curve"),
        *(_lines(places, smoothed(found.mean, look.smooth), axis) if look.smooth else ()),
        *_broken(places, found),
        element("line", class_="cursor", x1=0, x2=0, y1=TOP, y2=HEIGHT - BOTTOM, visibility="hidden"),
    ]
    summary = _summary(title, found)
    drawing = element(
        "svg",
        element("title", summary),
        *children,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="chart",
        data_steps=f"{steps[0]},{steps[1]}",
        data_clock=clock.to_json() if clock else None,
        data_points=json.dumps(_points(found), separators=(",", ":")),
    )
    kind = "; logarithmic on both sides of 0" if axis.low < 0 else "; logarithmic, and even near 0"
    words = f"{summary.removeprefix(f'{title}: ')}{kind if axis.linear else ''}"
    caption = element("figcaption", element("b", title), " ", element("span", words))
    readout = element("output", class_="readout")
    return element("figure", caption, drawing, readout, _table(title, found))


def small_chart(title: str, found: Buckets, *, steps: tuple[int, int], spans: Sequence[Span] = ()) -> Markup:
    """Return a curve without axes, to stand among many; its numbers are in its title. Arguments as of `line_chart`."""
    axis, scale = Axis.of(found), _Steps(*steps, None)
    places = [scale.x((a + b) / 2) for a, b in zip(found.first.tolist(), found.last.tolist(), strict=True)]
    return element(
        "svg",
        element("title", _summary(title, found)),
        *(_shade(span, scale) for span in spans),
        *_band(places, found, axis),
        *_lines(places, found.mean, axis),
        *_broken(places, found),
        viewBox=f"{LEFT} {TOP} {WIDTH - LEFT - RIGHT} {HEIGHT - TOP - BOTTOM}",
        preserveAspectRatio="none",
        role="img",
        class_="small-chart",
    )


class _Steps:
    """The horizontal axis."""

    def __init__(self, first: int, last: int, clock: WallTime | None) -> None:
        self.first, self.last, self.clock = first, max(last, first + 1), clock

    def x(self, step: float) -> float:
        share = self.clock.share(step) if self.clock else (step - self.first) / (self.last - self.first)
        return round(LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT), 1)


@dataclass(frozen=True)
class Axis:
    """The vertical axis.

    low, high  its ends: of logarithms, if it is logarithmic
    is_log     True for positive numbers over decades
    linear     for numbers of both signs, or with 0, over decades: the size up to which the axis is nearly even, and
               beyond which it is logarithmic on both sides of 0; 0.0 for other axes
    """

    low: float
    high: float
    is_log: bool
    linear: float = 0.0

    @classmethod
    def of(cls, found: Buckets, shown: Sequence[float] = (), *, scale: str = "") -> Axis:
        """Return the axis that shows all of `found`, and the numbers `shown`; `scale` is one of `SCALES`.

        A logarithmic one of numbers that are not all above 0 goes through 0, and is nearly even around it.
        """
        finite = np.concatenate([found.low, found.high, shown])
        finite = finite[np.isfinite(finite)]
        if not len(finite):
            return cls(0.0, 1.0, is_log=False)
        low, high = float(finite.min()), float(finite.max())
        decades = {LINEAR: math.inf, LOGARITHMIC: 0.0}.get(scale, _LOG_DECADES)
        if low > 0 and math.log10(high) - math.log10(low) > decades:
            return cls(math.log10(low), math.log10(high), is_log=True)
        is_free = low < high and (scale == LOGARITHMIC or (low <= 0 <= high and not len(shown)))
        if is_free and (linear := _usual_size(finite)) < max(high, -low) / 10**decades:
            return cls(_both_logs(low, linear), _both_logs(high, linear), is_log=False, linear=linear)
        room = (high / 2 - low / 2) * 0.1 or abs(high) * 0.1 or 1.0
        top = high if high in shown else high + room
        return cls(low - room if low - room >= 0 or low < 0 else 0.0, top, is_log=False)

    def share(self, value: float) -> float:
        """Return the height of a value: 0.0 at the foot of the chart, 1.0 at its top."""
        at = math.log10(value) if self.is_log else _both_logs(value, self.linear) if self.linear else value
        width = self.high / 2 - self.low / 2
        return min(1.0, max(0.0, (at / 2 - self.low / 2) / width if width else 0.5))

    def y(self, value: float) -> float:
        """Return the place of a value in a chart of this file."""
        return round(HEIGHT - BOTTOM - self.share(value) * (HEIGHT - TOP - BOTTOM), 1)

    def ticks(self) -> Iterator[float]:
        """Yield the numbers to write beside the axis."""
        if self.is_log:
            first, last = math.ceil(self.low), math.floor(self.high)
            if last <= first:  # less than a decade
                yield from round_numbers(10.0**self.low, 10.0**self.high)
            yield from (10.0**power for power in range(first, last + 1, max(1, (last - first) // _TICKS)))
        elif self.linear:
            yield from self._ticks_of_both_signs()
        else:
            yield from round_numbers(self.low, self.high)

    def _ticks_of_both_signs(self) -> Iterator[float]:
        decades = math.floor(max(self.high, -self.low))
        base = math.floor(math.log10(self.linear))
        for power in range(decades, 0, -max(1, decades // 2)):  # the largest first: it always has a number
            for sign in (1, -1):
                if self.low <= _both_logs(sign * 10.0 ** (base + power), self.linear) <= self.high:
                    yield sign * 10.0 ** (base + power)
        yield 0.0


def _usual_size(values: NDArray[np.float64]) -> float:
    """Return a size above which most of these numbers stand. Numbers that are 0 have none."""
    return float(np.quantile(np.abs(values[values != 0]), _USUAL))


def _both_logs(value: float, linear: float) -> float:
    """Return the place of a number on an axis that is logarithmic on both sides of 0, in decades."""
    return math.copysign(math.log10(1 + abs(value) / linear), value)


def round_numbers(low: float, high: float) -> Iterator[float]:
    """Yield about four round numbers between two, for an axis."""
    rough = (high - low) / _TICKS
    if not (rough > 0 and math.isfinite(rough)):
        yield low
        return
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.99)
    number = math.ceil(low / step)
    while number * step <= high:
        yield number * step
        number += 1


def number(value: float) -> str:
    """Return a number with three digits."""
    if _GROUPED[0] <= abs(value) < _GROUPED[1]:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value + 0.0:.3g}"  # no minus before a zero


def _grid(axis: Axis) -> Iterator[Markup]:
    for value in axis.ticks():
        y = axis.y(value)
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
        yield element("text", number(value), x=LEFT - 6, y=y + 4, text_anchor="end")


def _step_labels(scale: _Steps) -> Iterator[Markup]:
    steps = scale.first, (scale.first + scale.last) // 2, scale.last
    words = scale.clock.labels() if scale.clock else tuple(f"{step:,}" for step in steps)
    places = (LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT) if scale.clock else map(scale.x, steps)
    for word, x, anchor in zip(words, places, ("start", "middle", "end"), strict=True):
        yield element("text", word, x=x, y=HEIGHT - 6, text_anchor=anchor)


def _shade(span: Span, scale: _Steps) -> Markup:
    left, right = scale.x(span.first), scale.x(span.last)
    title = element("title", f"{span.name}, steps {span.first} to {span.last}")
    box = {"x": left, "y": TOP, "width": max(2.0, right - left), "height": HEIGHT - TOP - BOTTOM}
    return element("rect", title, **box, class_=f"span {span.severity}")


def _runs(values: NDArray[np.float64]) -> Iterator[list[int]]:
    """Yield the places of finite numbers in a row."""
    run: list[int] = []
    for place, value in enumerate(values.tolist()):
        if math.isfinite(value):
            run.append(place)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _band(places: Sequence[float], found: Buckets, axis: Axis) -> Iterator[Markup]:
    if np.array_equal(found.low, found.high, equal_nan=True):
        return
    for run in _runs(found.mean):
        upper = [f"{places[p]},{axis.y(float(found.high[p]))}" for p in run]
        lower = [f"{places[p]},{axis.y(float(found.low[p]))}" for p in reversed(run)]
        yield element("path", d=f"M{' L'.join([*upper, *lower])}Z", class_="band")


def _lines(
    places: Sequence[float], values: NDArray[np.float64], axis: Axis, *, class_: str = "curve"
) -> Iterator[Markup]:
    for run in _runs(values):
        points = [f"{places[p]},{axis.y(float(values[p]))}" for p in run]
        if len(points) == 1:
            yield element("circle", cx=places[run[0]], cy=axis.y(float(values[run[0]])), r=3.0, class_="dot")
        else:
            yield element("polyline", points=" ".join(points), class_=class_)


def _broken(places: Sequence[float], found: Buckets) -> Iterator[Markup]:
    for x, is_broken in zip(places, found.is_broken.tolist(), strict=True):
        if is_broken:
            yield element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="broken")


def _summary(title: str, found: Buckets) -> str:
    steps, count = int(found.last[-1]), int(found.count.sum())
    finite = np.isfinite(found.mean)
    broken = int(found.is_broken.sum())
    parts = [f"{title}: {count:,} number{'s' * (count != 1)} up to step {steps:,}"]
    if finite.any():
        means = found.mean[finite]
        parts.append(f"{number(float(means[0]))} at first, {number(float(means[-1]))} at last")
        parts.append(f"from {number(float(np.nanmin(found.low)))} to {number(float(np.nanmax(found.high)))}")
    if broken:
        parts.append(f"not finite from step {int(found.first[found.is_broken][0]):,} on")
    return ", ".join(parts)


def _points(found: Buckets) -> list[list[float | int | str | None]]:
    def plain(value: float) -> float | None:
        return float(f"{value:.4g}") if math.isfinite(value) else None

    rows = zip(found.first, found.last, found.low, found.mean, found.high, found.count, found.is_broken, strict=True)
    return [
        [int(first), int(last), plain(low), plain(mean), plain(high), int(count), int(broken)]
        for first, last, low, mean, high, count, broken in rows
    ]


def _table(title: str, found: Buckets) -> Markup:
    """Return the numbers as a table that is folded up: for screen readers, and where no picture is shown."""
    chosen = np.unique(np.linspace(0, len(found.first) - 1, min(len(found.first), 20)).astype(int)).tolist()
    rows = [
        element(
            "tr",
            element("td", f"{int(found.first[p]):,}"),
            *(element("td", number(float(column[p]))) for column in (found.low, found.mean, found.high)),
        )
        for p in chosen
    ]
    head = element("tr", *(element("th", word, scope="col") for word in ("from step", "least", "mean", "most")))
    return element(
        "details",
        element("summary", f"{title} as a table"),
        element("table", element("thead", head), element("tbody", rows)),
    )
