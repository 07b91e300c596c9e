"""The picture of an issue, for messages: the training loss, and since which step the issue holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trackside.contracts.verdict import Severity, Verdict
from trackside.runs.live_run import Curve, training_losses
from trackside.trial.tensors.buckets import Buckets, bucketed, edges_of
from trackside.trial.trial import Trial, open_trial
from trackside.views.report.charts.canvas import Canvas, Color
from trackside.views.report.charts.line_chart import Axis, number

WIDTH, HEIGHT = 960, 400
LEFT, RIGHT, TOP, BOTTOM = 96, 24, 44, 44
_MOST_BUCKETS = 300
_LEAST_BEFORE, _TIMES_BEFORE = 1000, 3  # steps to show before the issue, at least; as a multiple of those since then
_TEXT_SIZE = 15.0

# Of the report in a light theme: Slack shows images on a ground of their own.
_GROUND, _GRID, _TEXT = (255, 255, 255), (225, 229, 234), (87, 96, 106)
_CURVE, _BROKEN = (5, 80, 174), (214, 0, 147)
_SEVERITY: dict[Severity, Color] = {
    Severity.CRITICAL: (179, 38, 30),
    Severity.WARNING: (138, 90, 0),
    Severity.INFO: (5, 80, 174),
}


class IssuePictures:
    """Draws the issues of a run.

    Args:
        run: Location of the run; opened at the first issue.
        clock: Returns seconds since the epoch.
    """

    def __init__(self, run: str, *, clock: Callable[[], float]) -> None:
        self._run, self._clock = run, clock
        self._trial: Trial | None = None

    def draw(self, verdict: Verdict) -> bytes | None:
        """Return the picture of an issue as PNG; None for a run without a training loss. Errors: those of the store."""
        trial = self._trial = self._trial or open_trial(self._run)
        trial.refresh()
        losses = training_losses(trial, now=self._clock())
        trial.parts.columns.trim()
        if not losses:
            return None
        since = trial.parts.steps.training_steps([verdict.since_step])[0]
        return issue_picture(losses[0], since=since, severity=verdict.severity)


def issue_picture(loss: Curve, *, since: int, severity: Severity) -> bytes:
    """Return the picture as PNG: the loss in `_MOST_BUCKETS` buckets with their extremes, shaded from `since` on.

    Args:
        loss: The training loss, with at least one number.
        since: First step of the issue.
        severity: Its severity, for the color.
    """
    first, last = int(loss.steps[0]), max(int(loss.steps[-1]), since)
    first = max(first, since - max(_LEAST_BEFORE, _TIMES_BEFORE * (last - since)))
    begin = int(np.searchsorted(loss.steps, first))
    found = bucketed(loss.steps[begin:], loss.values[begin:], edges_of(first, last, _MOST_BUCKETS))
    canvas = Canvas(WIDTH, HEIGHT, _GROUND)
    axis = Axis.of(found)

    def x(step: float) -> float:
        return LEFT + (step - first) / max(1, last - first) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)

    canvas.box(x(since), TOP, max(x(last), x(since) + 2), HEIGHT - BOTTOM, _SEVERITY[severity], opacity=0.1)
    for tick in axis.ticks():
        canvas.line([(LEFT, y(tick)), (WIDTH - RIGHT, y(tick))], _GRID, width=1)
        canvas.text(number(tick), LEFT - 10, y(tick) + 5, _TEXT, size=_TEXT_SIZE, anchor="end")
    canvas.text("loss", LEFT, TOP - 16, _TEXT, size=_TEXT_SIZE)
    _mark(canvas, x(since), f"since step {since}", _SEVERITY[severity])
    if x(since) - LEFT > len(f"step {first}") * _TEXT_SIZE:
        canvas.text(f"step {first}", LEFT, HEIGHT - 14, _TEXT, size=_TEXT_SIZE)
    canvas.text(f"{last}", WIDTH - RIGHT, HEIGHT - 14, _TEXT, size=_TEXT_SIZE, anchor="end")
    _draw(canvas, found, x, y)
    return canvas.png()


def _mark(canvas: Canvas, x: float, words: str, color: Color) -> None:
    canvas.line([(x, TOP), (x, HEIGHT - BOTTOM)], color, width=2)
    anchor, at = ("end", min(x + 8, WIDTH - RIGHT)) if x > WIDTH / 2 else ("start", max(x - 8, LEFT + 90))
    canvas.text(words, at, TOP - 16, color, size=_TEXT_SIZE, anchor=anchor)


def _draw(canvas: Canvas, found: Buckets, x: Callable[[float], float], y: Callable[[float], float]) -> None:
    run: list[tuple[float, float]] = []
    for place, mean in enumerate(found.mean.tolist()):
        left, right = x(float(found.first[place])), x(float(found.last[place]))
        if found.is_broken[place]:
            canvas.line([((left + right) / 2, TOP), ((left + right) / 2, HEIGHT - BOTTOM)], _BROKEN, width=2)
        if not np.isfinite(mean):
            _draw_run(canvas, run)
            run = []
            continue
        low, high = float(found.low[place]), float(found.high[place])
        if low != high:
            canvas.box(left - 1, y(high), right + 1, y(low), _CURVE, opacity=0.2)
        run.append(((left + right) / 2, y(mean)))
    _draw_run(canvas, run)


def _draw_run(canvas: Canvas, run: Sequence[tuple[float, float]]) -> None:
    if run:
        canvas.line(run, _CURVE, width=6 if len(run) == 1 else 2.5)
