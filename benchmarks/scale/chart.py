"""A chart as SVG, written by hand: lines over a logarithmic axis, readable on light and on dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50
# Colour-blind safe (Okabe and Ito), and of enough contrast on white and on black; dashes tell them apart, too.
LINES = (("#0072b2", ""), ("#d55e00", "7 4"), ("#009e73", "2 3"))
DARK = ("#56b4e9", "#e69f00", "#2fd3a3")

Points = Sequence[tuple[float, float]]


def chart(title: str, *, x_label: str, y_label: str, series: Mapping[str, Points], summary: str) -> str:
    """Both axes are logarithmic; `summary` is the chart in one sentence, for who cannot see it."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [max(y, 0.1) for points in series.values() for _, y in points]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys) * 1.0001))
    left, right = math.log10(min(xs)), math.log10(max(xs))

    def at_x(x: float) -> float:
        return LEFT + (math.log10(x) - left) / (right - left or 1) * (WIDTH - LEFT - RIGHT)

    def at_y(y: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(max(y, 0.1)) - low) / (high - low or 1) * (HEIGHT - TOP - BOTTOM)

    parts = [_head(title, summary)]
    for power in range(low, high + 1):
        y = at_y(10**power)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:,g}</text>')
    for x in sorted(set(xs)):
        place = f'x="{at_x(x):.1f}" y="{HEIGHT - BOTTOM + 18}"'
        parts.append(f'<text {place} text-anchor="middle">{x:,.0f}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 8}">{escape(y_label)}</text>')
    names = _spread([(name, at_y(points[-1][1])) for name, points in series.items()])
    for number, (name, points) in enumerate(series.items()):
        line = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        parts.append(f'<polyline class="l{number % len(LINES)}" points="{line}"/>')
        parts += [
            f'<circle class="p{number % len(LINES)}" cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3"/>' for x, y in points
        ]
        place = f'x="{WIDTH - RIGHT + 10}" y="{names[name] + 4:.1f}"'
        parts.append(f'<text class="t{number % len(LINES)}" {place}>{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _spread(names: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Heights of the lines' names, none upon another."""
    found: dict[str, float] = {}
    before = -math.inf
    for name, y in sorted(names, key=lambda each: each[1]):
        found[name] = before = max(y, before + 15)
    return found


def _head(title: str, summary: str) -> str:
    lines, dark = [], []
    for number, (color, dashes) in enumerate(LINES):
        lines.append(f".l{number} {{ stroke: {color}; stroke-dasharray: {dashes or 'none'}; }}")
        lines.append(f".p{number}, .t{number} {{ fill: {color}; }}")
        dark.append(f".l{number} {{ stroke: {DARK[number]}; }} .p{number}, .t{number} {{ fill: {DARK[number]}; }}")
    style = "\n".join(
        [
            "svg { font: 13px system-ui, sans-serif; background: #ffffff; }",
            "text { fill: #24292f; } .grid { stroke: #d0d7de; }",
            "polyline { fill: none; stroke-width: 2; }",
            *lines,
            "@media (prefers-color-scheme: dark) {",
            "svg { background: #0d1117; } text { fill: #e6edf3; } .grid { stroke: #30363d; }",
            *dark,
            "}",
        ]
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
            f'<title id="t">{escape(title)}</title><desc id="d">{escape(summary)}</desc>',
            f"<style>\n{style}\n</style>",
            f'<text x="{LEFT}" y="16" font-weight="bold">{escape(title)}</text>',
        ]
    )
