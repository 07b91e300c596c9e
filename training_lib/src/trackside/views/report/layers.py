"""Layers over steps: which tensors are rows of the pictures, a page of them at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trackside.trial.tensors.buckets import edges_of
from trackside.trial.tensors.statistics import STATISTICS
from trackside.trial.trial import Trial
from trackside.views.report.charts.heatmap import MOST_COLUMNS, MOST_ROWS, Heatmap

LayerMap = tuple[str, tuple[str, ...], str]  # title, collections, statistic
LAYER_MAPS: tuple[LayerMap, ...] = (
    ("Gradient norm", ("gradients",), "l2"),
    ("Relative update: |Δw| / |w|", ("weights", "biases"), "update_ratio"),
    ("Share of zeros in gradients", ("gradients",), "zero_share"),
    ("Weight norm", ("weights", "biases"), "l2"),
)
GRADIENT = "gradient/"


@dataclass(frozen=True)
class LayerChoice:
    """The layers to show.

    wanted  text that their names hold, in any case; "" for all
    page    number of the page, from 1
    """

    wanted: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> LayerChoice:
        """Return the choice of an address; what is no page is the first one."""
        page = query.get("page", "")
        is_number = page.isascii() and page.isdigit() and len(page) <= _PAGE_DIGITS
        return cls(query.get("layer", "").strip(), max(1, int(page)) if is_number else 1)

    @property
    def query(self) -> dict[str, str]:
        """The choice as an address has it."""
        return {"layer": self.wanted, "page": str(self.page) if self.page > 1 else ""}


FIRST_LAYERS = LayerChoice()
_PAGE_DIGITS = 6


def layer_maps(
    trial: Trial, steps: tuple[int, int], *, named: frozenset[str] = frozenset(), choice: LayerChoice = FIRST_LAYERS
) -> Iterator[Heatmap]:
    """Yield the pictures of layers, each with at least one row.

    Args:
        trial: The run.
        steps: First and last step.
        named: Tensors that findings name, which stand first.
        choice: The layers to show.
    """
    for each in LAYER_MAPS:
        found = heatmap_of(trial, each, steps, named=named, choice=choice)
        if found is not None:
            yield found


def heatmap_of(
    trial: Trial,
    of: LayerMap,
    steps: tuple[int, int],
    *,
    named: frozenset[str] = frozenset(),
    choice: LayerChoice = FIRST_LAYERS,
) -> Heatmap | None:
    """Return one of `LAYER_MAPS`; None if nothing was recorded.

    Those that findings name stand first, then the others, in the order of the model. Other pages are not read.
    """
    title, collections, statistic = of
    rows = _rows(trial, collections, statistic, named, choice)
    pages = max(1, -(-len(rows) // MOST_ROWS))
    first = (min(choice.page, pages) - 1) * MOST_ROWS
    some = rows[first : first + MOST_ROWS]
    edges = edges_of(*steps, MOST_COLUMNS)
    found = _heatmap(trial, title, some, statistic, edges)
    return replace(found, first=first, count=len(rows)) if found else None


def _rows(
    trial: Trial, collections: Sequence[str], statistic: str, named: frozenset[str], choice: LayerChoice
) -> list[str]:
    """Return the tensors that may have the statistic, in the order of the rows."""
    facts, recorded = trial.model_facts, trial.parts.columns.recorded_statistics()
    order = {parameter.name: place for place, parameter in enumerate(facts.parameters)} if facts else {}
    names = dict.fromkeys(name for one in collections for name in trial.tensor_names(collection=one))
    is_known = trial.parts.names.is_saved if statistic in STATISTICS else (lambda _: False)
    likely = [name for name in names if statistic in recorded.get(name, ()) or is_known(name)]
    wanted = [name for name in likely if choice.wanted.lower() in name.lower()]
    return sorted(
        wanted, key=lambda name: (name not in named, order.get(name.removeprefix(GRADIENT), len(order)), name)
    )


def _heatmap(
    trial: Trial, title: str, names: Sequence[str], statistic: str, edges: NDArray[np.int64]
) -> Heatmap | None:
    """Return the largest number of each tensor and column, over all processes; None if nothing was recorded."""
    found = trial.parts.columns.in_buckets(names, statistic, edges, mode="TRAIN")
    tensors = [name for name in names if found.get(name)]
    if not tensors:
        return None
    values = np.full((len(tensors), len(edges) - 1), np.nan)
    is_broken = np.zeros(values.shape, bool)
    for row, name in enumerate(tensors):
        for buckets in found[name].values():
            places = np.searchsorted(edges, buckets.first, side="right") - 1
            values[row, places] = np.fmax(values[row, places], buckets.high)
            is_broken[row, places] |= buckets.is_broken
    return Heatmap(title, tuple(tensors), edges, values, is_broken)
