"""Steps and their phases over the run as stacked bars, with the slowest steps and the findings as marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.speed.performance.durations import milliseconds
from trackside.speed.performance.profile import StepDurations
from trackside.trial.tensors.buckets import BucketSums, edges_of
from trackside.views.report.charts.line_chart import Span, round_numbers
from trackside.views.report.charts.markup import Markup, element, joined
from trackside.views.report.charts.wall_time import WallTime
from trackside.views.report.model.figures import folded, table

MOST_BARS = 160
MOST_SLOW = 10
PHASES = ("evaluation", "data", "rest", "backward", "optimizer", "capture")  # in the order within a step
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 220, 72, 12, 18, 24
_TABLE_ROWS = 20
_NONE = np.zeros(1)

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepBars:
    """The steps of one worker, some steps to a bar.

    worker   the worker
    first, last   first and last step of each bar, int64 of shape (n,)
    phases   mean seconds a step in each phase, of shape (n,) each; their sum is the mean step
    longest  seconds of the longest step of each bar, of shape (n,)
    slow     (step, seconds, name of its longest phase, seconds of that) of the longest steps, the longest first
    """

    worker: str
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    phases: Mapping[str, Numbers]
    longest: Numbers
    slow: tuple[tuple[int, float, str, float], ...]


def step_bars(pieces: Iterable[StepDurations], steps: tuple[int, int]) -> tuple[StepBars, ...]:
    """Return the bars of each worker's steps from the first to the last, by its name; none without a timed step.

    Args:
        pieces: The durations of the steps of workers, a piece at a time.
        steps: First and last step.
    """
    found: dict[str, _BarsOfWorker] = {}
    for piece in pieces:
        found.setdefault(piece.worker, _BarsOfWorker(steps)).add(piece)
    return tuple(bars for worker in sorted(found) if (bars := found[worker].bars(worker)) is not None)


class _BarsOfWorker:
    """Sums of the steps of one worker, some steps to a bar, and the longest of them."""

    def __init__(self, steps: tuple[int, int]) -> None:
        self._steps, self._edges = steps, edges_of(*steps, MOST_BARS)
        self._whole = BucketSums(self._edges)
        self._phases: dict[str, NDArray[np.float64]] = {}  # seconds of each bar
        self._slow: list[tuple[int, float, str, float]] = []

    def add(self, piece: StepDurations) -> None:
        """Add the steps of a piece."""
        begin, end = np.searchsorted(piece.steps, (self._steps[0], self._steps[1] + 1))
        known = np.isfinite(piece.seconds[begin:end])
        numbers, seconds = piece.steps[begin:end][known], piece.seconds[begin:end][known]
        if not len(numbers):
            return
        parts = {name: np.nan_to_num(values[begin:end][known]) for name, values in piece.phases.items()}
        parts["rest"] = np.maximum(0.0, seconds - sum(parts.values(), np.zeros(len(seconds))))
        self._whole.add(numbers, seconds)
        bars = np.searchsorted(self._edges, numbers, side="right") - 1
        for name, values in parts.items():
            sums = np.bincount(bars, weights=values, minlength=len(self._edges) - 1)
            self._phases[name] = self._phases.get(name, np.zeros(len(sums))) + sums
        slowest = sorted([*self._slow, *_slowest(numbers, seconds, parts)], key=lambda one: (-one[1], one[0]))
        self._slow = slowest[:MOST_SLOW]

    def bars(self, worker: str) -> StepBars | None:
        """Return the bars; None without a step."""
        whole = self._whole.buckets()
        if not len(whole.first):
            return None
        bars = np.searchsorted(self._edges, whole.first, side="right") - 1
        means = {name: self._phases[name][bars] / whole.count for name in PHASES if self._phases.get(name, _NONE).any()}
        return StepBars(worker, whole.first, whole.last, means, whole.high, tuple(self._slow))


def _slowest(
    steps: NDArray[np.int64], seconds: Numbers, parts: Mapping[str, Numbers]
) -> Iterator[tuple[int, float, str, float]]:
    for at in np.argsort(-seconds, kind="stable")[:MOST_SLOW].tolist():
        name = max(parts, key=lambda one: float(parts[one][at]))
        yield int(steps[at]), float(seconds[at]), name, float(parts[name][at])


def timeline_figure(
    bars: StepBars,
    *,
    steps: tuple[int, int],
    spans: Sequence[Span],
    around: Callable[[int], str],
    clock: WallTime | None = None,
) -> Markup:
    """Return the picture of one worker, and its slowest steps.

    Args:
        bars: Its steps.
        steps: First and last step of the axis.
        spans: Steps of problems, to mark.
        around: Returns the address of the same page around a step.
        clock: The moments of the steps, for an axis in wall time.
    """
    scale = _Steps(*steps, clock)
    title = f"{bars.worker}: seconds a step"
    top = float(max(bars.longest.max(), sum(bars.phases.values(), np.zeros(1)).max())) or 1.0
    names = list(bars.phases)
    drawing = element(
        "svg",
        element("title", f"{title}, by phase; the longest step takes {milliseconds(float(bars.longest.max()))}"),
        *_grid(top, scale),
        *_bars(bars, top, scale),
        *_marks(spans, scale),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="drawing timeline",
    )
    legend = [
        element(
            "li",
            element(
                "svg",
                element("rect", x=4, y=0, width=16, height=10, class_=f"phase-{PHASES.index(name)}"),
                viewBox="0 0 24 10", class_="sample", aria_hidden="true",
            ),
            name,
        )
        for name in names
    ]  # fmt: skip
    chosen = np.unique(np.linspace(0, len(bars.first) - 1, min(len(bars.first), _TABLE_ROWS)).astype(int)).tolist()
    rows = [
        (
            f"{bars.first[at]:,}",
            *(milliseconds(float(bars.phases[name][at])) for name in names),
            milliseconds(float(bars.longest[at])),
        )
        for at in chosen
    ]
    return element(
        "figure",
        element("figcaption", element("b", title), " mean of each bar by phase; – the longest step in it; ▼ a finding"),
        drawing,
        element("ul", legend, class_="legend"),
        folded(f"{title} as a table", table(("From step", *names, "Longest step"), rows)),
        _slow(bars, around),
    )


@dataclass(frozen=True)
class _Steps:
    """The horizontal axis, on which a step has a width."""

    first: int
    last: int
    clock: WallTime | None

    def x(self, step: float) -> float:
        share = self.clock.share(step) if self.clock else (step - self.first) / max(1, self.last + 1 - self.first)
        return round(_LEFT + min(1.0, max(0.0, share)) * (_WIDTH - _LEFT - _RIGHT), 1)

    def labels(self) -> Iterator[tuple[str, float, str]]:
        """Yield word, place and anchor of the beginning, the middle and the end."""
        steps = self.first, (self.first + self.last) // 2, self.last
        words = self.clock.labels() if self.clock else [f"{step:,}" for step in steps]
        places = (_LEFT, (_LEFT + _WIDTH - _RIGHT) / 2, _WIDTH - _RIGHT) if self.clock else map(self.x, steps)
        yield from zip(words, places, ("start", "middle", "end"), strict=True)


def _y(seconds: float, top: float) -> float:
    return round(_HEIGHT - _BOTTOM - min(1.0, seconds / top) * (_HEIGHT - _TOP - _BOTTOM), 1)


def _grid(top: float, scale: _Steps) -> Iterator[Markup]:
    for seconds in round_numbers(0.0, top):
        y = _y(seconds, top)
        yield element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid")
        yield element("text", milliseconds(seconds), x=_LEFT - 6, y=y + 4, text_anchor="end")
    for word, x, anchor in scale.labels():
        yield element("text", word, x=x, y=_HEIGHT - 6, text_anchor=anchor)


def _bars(bars: StepBars, top: float, scale: _Steps) -> Iterator[Markup]:
    for at, (first, last) in enumerate(zip(bars.first.tolist(), bars.last.tolist(), strict=True)):
        left = scale.x(first)
        width = max(1.0, scale.x(last + 1) - left - 0.5)
        seconds = 0.0
        for name, means in bars.phases.items():
            part = float(means[at])
            if part > 0:
                upper = _y(seconds + part, top)
                yield element(
                    "rect",
                    element("title", f"steps {first} to {last}: {name} {milliseconds(part)}"),
                    x=left,
                    y=upper,
                    width=width,
                    height=max(0.0, _y(seconds, top) - upper),
                    class_=f"phase-{PHASES.index(name)}",
                )
            seconds += part
        y = _y(float(bars.longest[at]), top)
        yield element("line", x1=left, x2=left + width, y1=y, y2=y, class_="longest")


def _marks(spans: Sequence[Span], scale: _Steps) -> Iterator[Markup]:
    for span in spans:
        x = scale.x(max(span.first, scale.first))
        line = element("line", x1=x, x2=x, y1=_TOP - 6, y2=_HEIGHT - _BOTTOM, class_="since")
        word = element("text", f"▼ {span.name}", x=x + 3, y=_TOP - 6, class_="axis-name")
        yield element("g", element("title", f"{span.name}, from step {span.first}"), line, word)


def _slow(bars: StepBars, around: Callable[[int], str]) -> Markup:
    head = element("tr", *(element("th", word, scope="col") for word in ("Step", "Takes", "Longest phase", "Of it")))
    rows = [
        element(
            "tr",
            element("th", element("a", f"{step:,}", href=around(step)), scope="row"),
            *(element("td", word) for word in (milliseconds(seconds), name, milliseconds(part))),
        )
        for step, seconds, name, part in bars.slow
    ]
    return joined(
        element(
            "table",
            element("caption", "The longest steps"),
            element("thead", head),
            element("tbody", rows),
            class_="numbers-table",
        )
    )
