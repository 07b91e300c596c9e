"""Weights that shrink: the norm of each over its first one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trackside.rules.medians import median
from trackside.trial.window import Column, Window

FEWEST_NORMS = 3  # of a weight


def have_shrunk(sizes: Mapping[str, float], *, share: float) -> bool:
    """Return True if the median size is below a share of the first.

    Args:
        sizes: The norm of each weight over its first one.
        share: The share.
    """
    return bool(sizes) and median(list(sizes.values())) < share


def norms_of_weights(window: Window) -> list[Column]:
    """Return the norms of trained matrices that began above zero and are finite."""
    facts, found = window.facts, list[Column]()
    for name in window.tensors("weights"):
        held = facts.parameter(name) if facts else None
        if held is None or (len(held.shape) > 1 and held.requires_grad):
            columns = window.statistic(name, "l2", mode=None)
            found += [
                c for c in columns if len(c.values) >= FEWEST_NORMS and c.values[0] > 0 and np.isfinite(c.values).all()
            ]
    return found
