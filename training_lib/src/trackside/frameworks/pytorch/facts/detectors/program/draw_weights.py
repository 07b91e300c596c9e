"""Weights by which a DataLoader draws its rows, where a sampler of PyTorch has few different ones: those of classes.

Reads the weights, once for a DataLoader.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils.data import WeightedRandomSampler

from trackside.contracts.observations import DRAW_WEIGHTS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.shared.detectors import watches

MOST_ROWS = 1 << 18
MOST_CLASSES = 20


@watches(DRAW_WEIGHTS)
class DrawWeights:
    """The ratio of the weights of the newest DataLoader of a training with such a sampler."""

    def __init__(self, watch: Watch) -> None:
        self._changed = watch.changed
        self._ratio = 0.0
        self._sampler: weakref.ref[Any] | None = None

    def pass_met(self, iterator: Any, batch: Any) -> None:
        """Look at the sampler of a pass."""
        sampler = attribute_of(attribute_of(iterator, "_index_sampler"), "sampler")
        if self._sampler is not None and self._sampler() is sampler:
            return
        self._sampler = weakref.ref(sampler) if isinstance(sampler, WeightedRandomSampler) else None
        ratio = ratio_of_weights(sampler)
        if ratio != self._ratio:
            self._ratio = ratio
            self._changed()

    def of(self, watch: Watch) -> float:
        """Return the largest weight over the smallest; 0 without such a sampler."""
        return self._ratio


def ratio_of_weights(sampler: Any) -> float:
    """Return the largest weight of a sampler over the smallest; 0 for another sampler, and for many weights.

    Args:
        sampler: What draws the rows of a DataLoader.
    """
    weights = attribute_of(sampler, "weights") if isinstance(sampler, WeightedRandomSampler) else None
    if type(weights) is not torch.Tensor or not has_memory(weights) or not 0 < weights.numel() <= MOST_ROWS:
        return 0.0
    different = torch.unique(weights.detach())
    least, most = float(different[0]), float(different[-1])
    return most / least if least > 0 and len(different) <= MOST_CLASSES else 0.0
