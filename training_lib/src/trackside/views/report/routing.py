"""Experts of a mixture over steps: the share of the layer's gradient that each expert gets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trackside.situation.experts import Experts, experts_in
from trackside.trial.tensors.buckets import edges_of
from trackside.trial.trial import Trial
from trackside.views.report.charts.heatmap import MOST_COLUMNS, MOST_ROWS, Heatmap

MOST_LAYERS = 8


def routing_maps(trial: Trial, steps: tuple[int, int]) -> Iterator[Heatmap]:
    """Yield a picture for each layer of experts: a row an expert, a column some steps.

    A cell is the share of the layer's squared gradient norms that the expert has. An expert that the router never
    chooses has 0: its gradient is zero, or there is none. Experts in rows of one parameter have one norm together, and
    no picture.

    Args:
        trial: The run.
        steps: First and last training step to show.
    """
    facts = trial.model_facts
    layers = [layer for layer in experts_in(facts) if layer.members] if facts else []
    for layer in layers[:MOST_LAYERS]:
        found = _map(trial, layer, steps)
        if found is not None:
            yield found


def _map(trial: Trial, layer: Experts, steps: tuple[int, int]) -> Heatmap | None:
    edges = edges_of(*steps, MOST_COLUMNS)
    gradients = {name: f"gradient/{name}" for names in layer.members for name in names}
    found = trial.parts.columns.in_buckets(list(gradients.values()), "l2", edges, mode="TRAIN")
    squares = np.zeros((layer.count, len(edges) - 1))
    is_known, is_broken = np.zeros(squares.shape, bool), np.zeros(squares.shape, bool)
    for row, names in enumerate(layer.members):
        for name in names:
            for buckets in found.get(gradients[name], {}).values():
                places = np.searchsorted(edges, buckets.first, side="right") - 1
                squares[row, places] += np.nan_to_num(buckets.mean) ** 2
                is_known[row, places] = True
                is_broken[row, places] |= buckets.is_broken
    measured = is_known.any(axis=0)
    if not measured.any():
        return None
    whole = squares.sum(axis=0)
    with np.errstate(all="ignore"):
        shares = np.where(whole > 0, squares / whole, 0.0)
    # Where the layer was measured, an expert without a gradient got nothing.
    shares = np.where(measured, shares, np.nan)
    rows = tuple(f"expert {number}" for number in range(layer.count))[:MOST_ROWS]
    title = f"Share of the gradient of {layer.name}, {layer.count} experts"
    return Heatmap(title, rows, edges, shares[: len(rows)], is_broken[: len(rows)], layer.count - len(rows))
