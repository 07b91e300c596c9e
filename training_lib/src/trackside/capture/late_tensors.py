"""Tensors with values that become known after the end of their step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np


class LateTensors(Protocol):
    """Tensors of one step. The training thread reads their source later, the writer's thread makes arrays of it.

    Attributes:
        collections: The collections of all of them.
        size_bytes: Memory that counts against the budget.
    """

    collections: frozenset[str]
    size_bytes: int

    def is_ready(self) -> bool:
        """Return True once `tensors` can be called. Never waits."""

    def tensors(self) -> Iterable[tuple[str, np.ndarray]]:
        """Return names and arrays. For the writer's thread. Never raises."""
