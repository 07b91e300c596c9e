"""Replicas of a step, as `tf.distribute.MirroredStrategy` runs them: each has its share of the batch.

Keras divides the loss of each by their number, so that the loss and the gradients of the step are sums over replicas.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import keras

from trackside.adapters.keras.values import array_of

_BACKEND = keras.backend.backend()


def number_of_replicas() -> int:
    """Return the number of replicas of the step under way; 1 outside of a strategy."""
    if _BACKEND != "tensorflow":
        return 1
    return int(sys.modules["tensorflow"].distribute.get_strategy().num_replicas_in_sync)


class ReplicaGradients:
    """The gradients of one update, until all replicas have theirs. Only the last one gets the sums."""

    def __init__(self) -> None:
        self._parts: list[list[Any]] = []

    def begin(self) -> None:
        """Drop what an update that failed has left."""
        self._parts = []

    def total(self, gradients: Iterable[Any]) -> list[Any] | None:
        """Return the gradients of the step; None until the last replica has called."""
        replicas = number_of_replicas()
        if replicas == 1:
            return list(gradients)
        self._parts.append([array_of(gradient) for gradient in gradients])
        if len(self._parts) < replicas:
            return None
        parts, self._parts = self._parts, []
        return [None if part[0] is None else sum(part) for part in zip(*parts, strict=True)]
