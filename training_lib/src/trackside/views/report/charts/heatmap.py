"""Layers over steps as a picture: a row a tensor, a column some steps, drawn three times.

By size, by the change of each row from its own start, and by the rank of each cell in its column.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.views.report.charts.line_chart import LEFT, RIGHT, WIDTH, number
from trackside.views.report.charts.markup import Markup, element
from trackside.views.report.charts.png import data_address, png
from trackside.views.report.charts.wall_time import WallTime

MOST_COLUMNS = 160
MOST_ROWS = 200
ROW_HEIGHT = 14
_FIRST_COLOR, _COLORS = 2, 127  # places 0 and 1: no number yet, not finite; then each color, then each one faded
_FADED = 190.0  # opacity of a cell with the last number before it: strong enough that rows show no stripes
_NOTHING, _BROKEN = (0, 0, 0, 0), (214, 0, 147, 255)
_SIZE = ((0, 34, 78), (53, 69, 108), (102, 105, 112), (148, 142, 119), (200, 184, 102), (254, 232, 56))  # cividis
_CHANGE = ((5, 48, 97), (67, 147, 195), (247, 247, 247), (214, 96, 77), (103, 0, 31))
_MOST_DECADES_OF_CHANGE = 3.0  # from there on all changes look alike


@dataclass(frozen=True, eq=False)
class Heatmap:
    """A statistic of many tensors.

    title   the statistic, with its unit
    tensors names of the rows
    edges   first step of each column and the end of the last one, of shape (columns + 1,)
    values  of shape (rows, columns); NaN where there is no number
    is_broken   True where a number was not finite, of shape (rows, columns)
    first       place of the first row among all that could be shown
    count       the number of these; 0: those shown are all
    scale       numbers of the darkest and the brightest color; None: those of the cells, on a logarithmic scale
    """

    title: str
    tensors: tuple[str, ...]
    edges: NDArray[np.int64]
    values: NDArray[np.float64]
    is_broken: NDArray[np.bool_]
    first: int = 0
    count: int = 0
    scale: tuple[float, float] | None = None

    @property
    def left_out(self) -> int:
        """The number of tensors on other pages."""
        return max(0, self.count - len(self.tensors))

    @property
    def rows_shown(self) -> str:
        """The rows of all that are shown: `rows 201 to 400 of 2,002`; "" if all are."""
        last = self.first + len(self.tensors)
        return f"rows {self.first + 1:,} to {last:,} of {self.count:,}" if self.left_out else ""


def heatmap_figure(
    found: Heatmap,
    *,
    number_of: int,
    marked: Sequence[str] = (),
    address: Callable[[str], str] | None = None,
    clock: WallTime | None = None,
) -> Markup:
    """Return the figure.

    Args:
        found: The numbers.
        number_of: Number of the figure on the page.
        marked: Tensors that findings name; their rows bear a mark.
        address: Returns the address of a tensor's page; None: nothing is linked.
        clock: The moments of the steps, for columns of equal time.
    """
    rows, columns = found.values.shape
    shown = clock.columns(found.edges, MOST_COLUMNS) if clock else None
    height = rows * ROW_HEIGHT
    sizes, low, high = _sizes(found)
    pictures = [("size", sizes)]
    if found.scale is None:
        pictures += [("change from the row's own start", _changes(found)), ("rank in the column", _ranks(found))]
    name = f"map-{number_of}"
    choices = [
        element(
            "label",
            element("input", type="radio", name=name, class_=f"pick-{place}", checked=place == 0),
            f" {word} ",
        )
        for place, (word, _) in enumerate(pictures if len(pictures) > 1 else ())
    ]
    width = WIDTH - LEFT - RIGHT
    labels = [
        element(
            "li",
            element("span", "● " if tensor in marked else "", class_="mark"),
            tensor,
            class_="marked" if tensor in marked else None,
            data_address=address(tensor) if address else None,
        )
        for tensor in found.tensors
    ]
    images = [
        element(
            "img",
            src=Markup(data_address(png(places if shown is None else places[:, shown], colors))),
            class_=f"picture picture-{place}",
            alt=f"{found.title}, {word}: {rows} rows over {columns} columns of steps",
            width=width,
            height=height,
        )
        for place, (word, (places, colors)) in enumerate(pictures)
    ]
    caption = element(
        "figcaption",
        element("b", found.title),
        f" from {number(low)} (dark) to {number(high)} (bright){_scale_words(found)}; " if low < high else " ",
        element("span", "magenta", class_="broken-word"),
        ": not finite; faded: not recorded, the number before it. ",
        f"{found.rows_shown}. ".capitalize() if found.rows_shown else None,
    )
    drawing = element(
        "div",
        element("ol", labels, class_="rows"),
        element(
            "div",
            images,
            class_="pictures",
            data_edges=json.dumps(found.edges.tolist()),
            data_columns=None if shown is None else json.dumps(shown.tolist()),
            data_values=json.dumps(_plain(found), separators=(",", ":")),
        ),
        element("div", (element("span", word) for word in _axis(found, clock)), class_="axis"),
        class_="heatmap",
    )
    readout = element("output", class_="readout")
    return element(
        "figure", caption, choices, drawing, readout, _links(found, address) if address else None, class_="map"
    )


def _links(found: Heatmap, address: Callable[[str], str]) -> Markup:
    """Return the tensors of the rows as links: a row is too low to be one that fingers hit, and needs a script."""
    links = [element("li", element("a", tensor, href=address(tensor))) for tensor in found.tensors]
    words = f"Links to the {len(links)} tensors of these rows" if len(links) > 1 else "Link to the tensor of this row"
    return element("details", element("summary", words), element("ul", links, class_="row-links"))


def _scale_words(found: Heatmap) -> str:
    return ", on a logarithmic scale" if found.scale is None else ""


def size_picture(found: Heatmap) -> tuple[bytes, float, float]:
    """Return the picture of sizes as PNG, a pixel a cell, and the sizes of its darkest and brightest color."""
    (places, colors), low, high = _sizes(found)
    return png(places, colors), low, high


def _axis(found: Heatmap, clock: WallTime | None) -> tuple[str, ...]:
    first, last = int(found.edges[0]), int(found.edges[-1]) - 1
    return clock.labels() if clock else tuple(f"{step:,}" for step in (first, (first + last) // 2, last))


def _sizes(found: Heatmap) -> tuple[tuple[NDArray[np.uint8], NDArray[np.uint8]], float, float]:
    if found.scale is not None:
        low, high = found.scale
        return (_places((found.values - low) / (high - low), found), _colors(_SIZE)), low, high
    logs = _logs(found.values)
    known = logs[np.isfinite(logs)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    width = high - low
    shares = (logs - low) / width if width > 0 else np.where(np.isfinite(logs), 0.5, np.nan)
    picture = _places(shares, found), _colors(_SIZE)
    return picture, 10.0**low if len(known) else 0.0, 10.0**high if len(known) else 0.0


def _changes(found: Heatmap) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return each row against its own first quarter, in decades: drift that the scale of all rows hides."""
    logs = _logs(found.values)
    shares = np.full(logs.shape, np.nan)
    for place, row in enumerate(logs):
        known = row[np.isfinite(row)]
        if len(known):
            base = float(np.median(known[: max(1, len(known) // 4)]))
            shares[place] = 0.5 + (row - base) / (2 * _MOST_DECADES_OF_CHANGE)
    return _places(shares, found), _colors(_CHANGE)


def _ranks(found: Heatmap) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the place of each cell among the numbers of its column: the layer that stands out, whatever their scale.

    Where a column has one number, that stands in the middle.
    """
    shares = np.full(found.values.shape, np.nan)
    for column, values in enumerate(found.values.T):
        known = np.flatnonzero(np.isfinite(values))
        order = np.searchsorted(np.sort(values[known]), values[known], side="left")
        shares[known, column] = order / (len(known) - 1) if len(known) > 1 else 0.5
    return _places(shares, found), _colors(_SIZE)


def _logs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of sizes; zeros stand a decade below the smallest number."""
    with np.errstate(all="ignore"):
        logs = np.log10(np.abs(values))
    known = logs[np.isfinite(logs)]
    floor = float(known.min()) - 1 if len(known) else 0.0
    return np.where(np.isneginf(logs), floor, logs)


def _places(shares: NDArray[np.float64], found: Heatmap) -> NDArray[np.uint8]:
    known = np.isfinite(shares)
    clipped = np.clip(np.where(known, shares, 0.0), 0.0, 1.0)
    places = np.where(known, _FIRST_COLOR + np.round(clipped * (_COLORS - 1)), 0).astype(np.int64)
    newest = np.maximum.accumulate(np.where(known, np.arange(shares.shape[1]), -1), axis=1)
    held = np.take_along_axis(places, np.maximum(newest, 0), axis=1) + _COLORS
    places = np.where(known, places, np.where(newest >= 0, held, 0))
    return np.where(found.is_broken, 1, places).astype(np.uint8)


def _colors(anchors: Sequence[tuple[int, int, int]]) -> NDArray[np.uint8]:
    at = np.linspace(0, len(anchors) - 1, _COLORS)
    scale = np.stack([np.interp(at, np.arange(len(anchors)), [a[part] for a in anchors]) for part in range(3)], axis=1)
    both = [np.concatenate([scale, np.full((_COLORS, 1), opacity)], axis=1) for opacity in (255.0, _FADED)]
    return np.round(np.concatenate([[_NOTHING, _BROKEN], *both])).astype(np.uint8)


def _plain(found: Heatmap) -> list[list[float | str | None]]:
    def plain(value: float, is_broken: bool) -> float | str | None:
        if is_broken:
            return "not finite"
        return float(f"{value:.3g}") if math.isfinite(value) else None

    return [
        [plain(value, broken) for value, broken in zip(row, flags, strict=True)]
        for row, flags in zip(found.values.tolist(), found.is_broken.tolist(), strict=True)
    ]
