"""The updates and norms of weights beside one another. Pure functions of a window."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from trackside.situation.aims import has_several_aims
from trackside.situation.constants import BELOW_CHANCE, FEWEST, REPLACED, SHORT_STRETCH
from trackside.situation.losses.losses import chance_level, training_losses
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median, medians_of_rows
from trackside.trial.window import Column, Window


def verdict_on(ratios: Mapping[str, float], *, large: float, small: float) -> str:
    """Return `large`, `small` or "", from the typical relative update of each weight."""
    finite = [ratio for ratio in ratios.values() if math.isfinite(ratio)]
    if not finite:
        return ""
    if median(finite) > large:
        return "large"
    return "small" if 0 < max(finite) < small else ""


def measured_ratios(window: Window) -> list[Column]:
    """Return the update ratios of the weights (two dimensions or more) with enough measurements."""
    columns = [c for name in trained_matrices(window) for c in window.statistic(name, "update_ratio", mode=None)]
    return [column for column in columns if len(column.values) >= FEWEST]


def typical_ratios(window: Window) -> dict[str, float]:
    """Return the median of the newest update ratios of each weight of `measured_ratios`. The last worker counts."""
    names = trained_matrices(window)
    found: dict[str, tuple[str, float]] = {}
    for panel in window.newest(names, "update_ratio", last=SHORT_STRETCH, mode=None):
        if panel.count < FEWEST:
            continue
        medians = medians_of_rows(panel.newest).tolist()
        for tensor, worker, ratio in zip(panel.tensors, panel.workers, medians, strict=True):
            if tensor not in found or worker > found[tensor][0]:
                found[tensor] = worker, ratio
    return {name: found[name][1] for name in names if name in found}


def trained_matrices(window: Window) -> tuple[str, ...]:
    """Return the trained weights of two dimensions or more."""
    facts = window.facts
    names = window.tensors("weights")
    held = [(name, facts.parameter(name) if facts else None) for name in names]
    return tuple([name for name, p in held if p is None or (len(p.shape) > 1 and p.requires_grad)])


def norms_of_weights(window: Window) -> list[Column]:
    """Return the norms of trained matrices that began above zero and are finite. Others are left to other rules."""
    columns = [c for name in trained_matrices(window) for c in window.statistic(name, "l2", mode=None)]
    return [c for c in columns if len(c.values) >= FEWEST and c.values[0] > 0 and np.isfinite(c.values).all()]


def have_shrunk(sizes: Mapping[str, float], *, share: float) -> bool:
    """Return True if the median size, the norm of each weight over its first one, is below a share."""
    return bool(sizes) and median(list(sizes.values())) < share


def must_loss_fall(window: Window) -> bool:
    """Return True if a constant loss means that nothing is learned."""
    losses = training_losses(window)
    return bool(losses) and not has_several_aims(window) and not any((c.values < 0).any() for c in losses)


def was_torn(window: Window) -> bool:
    """Return True if one of the first steps left little of the initialisation.

    Updates are measured against the weight after the step: replacing a weight altogether gives 1.
    """
    first = Evidence(window).first_update_ratio
    return first is not None and first > REPLACED / 2


def rates_rise(window: Window) -> bool:
    """Return True while any learning rate is higher than it was ten steps ago, or zero."""
    rates = [column.values for column in Evidence(window).learning_rates]
    return any(rate[-1] == 0 or (len(rate) > 1 and rate[-1] > rate[max(0, len(rate) - 10)]) for rate in rates)


def has_learned_before(window: Window) -> bool:
    """Return True if the loss lies far below chance, as after a training before this run."""
    for column in training_losses(window):
        chance = chance_level(window.facts.loss(column.tensor) if window.facts else None)
        if chance is not None and median(column.values[-20:]) < BELOW_CHANCE * chance:
            return True
    return False
