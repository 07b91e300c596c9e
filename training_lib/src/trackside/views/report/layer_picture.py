"""Layers over steps as a picture below the cell of a notebook: `Trial.heatmap`. Needs no script and no style sheet."""

from __future__ import annotations

from dataclasses import dataclass

from trackside.contracts.errors import ConfigurationError, Problem, TensorNotSavedError, did_you_mean
from trackside.trial.trial import Trial
from trackside.views.report.charts.heatmap import ROW_HEIGHT, Heatmap, size_picture
from trackside.views.report.charts.line_chart import number
from trackside.views.report.charts.markup import Markup, element
from trackside.views.report.charts.png import data_address
from trackside.views.report.layers import LAYER_MAPS, heatmap_of

WIDTH = 640
_LABEL = f"height:{ROW_HEIGHT}px;line-height:{ROW_HEIGHT}px;font-size:11px;white-space:nowrap;text-align:right"
_AXIS = "display:flex;justify-content:space-between;font-size:11px"
_NAMES = {"gradient_norm": 0, "update_ratio": 1, "zero_share": 2, "weight_norm": 3}


@dataclass(frozen=True, eq=False)
class LayerPicture:
    """Layers over steps. `numbers`: the picture's content, a row for each tensor."""

    numbers: Heatmap

    def __repr__(self) -> str:
        rows, _ = self.numbers.values.shape
        first, last = int(self.numbers.edges[0]), int(self.numbers.edges[-1]) - 1
        return f"<LayerPicture {self.numbers.title!r}: {rows} tensors, steps {first} to {last}>"

    def _repr_html_(self) -> str:
        found = self.numbers
        image, low, high = size_picture(found)
        rows, _ = found.values.shape
        height = rows * ROW_HEIGHT
        first, last = int(found.edges[0]), int(found.edges[-1]) - 1
        caption = element(
            "p",
            element("b", found.title),
            f" from {number(low)} (dark) to {number(high)} (bright), logarithmic" if low < high else None,
            "; magenta: not finite.",
            f" {found.left_out} more tensors had no room." if found.left_out else None,
        )
        picture = element(
            "img",
            src=Markup(data_address(image)),
            alt=f"{found.title}: {rows} tensors over steps {first:,} to {last:,}",
            style=f"display:block;width:{WIDTH}px;max-width:none;height:{height}px;image-rendering:pixelated",
        )
        labels = element("div", (element("div", name, style=_LABEL) for name in found.tensors))
        axis = element("div", element("span", f"step {first:,}"), element("span", f"{last:,}"), style=_AXIS)
        drawing = element("div", labels, element("div", picture, axis), style="display:flex;gap:8px")
        return str(element("div", caption, drawing))


def layer_picture(trial: Trial, of: str, *, steps: tuple[int, int] | None = None) -> LayerPicture:
    """Return the picture of a run's layers. Parameters and errors are those of `Trial.heatmap`."""
    if of not in _NAMES:
        problem = Problem("of", f"is {of!r}.", did_you_mean(of, _NAMES))
        raise ConfigurationError([problem], subject="Trial.heatmap")
    span = steps or (0, max(trial.recorded_through, *trial.steps("TRAIN")[-1:], 0))
    found = heatmap_of(trial, LAYER_MAPS[_NAMES[of]], span)
    if found is None:
        raise TensorNotSavedError(f"{trial.uri} holds no {of.replace('_', ' ')} of a layer at these steps.")
    return LayerPicture(found)
