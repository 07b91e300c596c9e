"""Tensors with values that become known after the end of their step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trackside.capture.steps.reduced_tensors import ReducedLayout


class RowLayout:
    """The names of a row of small tensors, the same from step to step.

    - `record_names`: names of the tensors, in their order
    - `names`: the same
    - `collections`: the collections of all of them

    Args:
        names: Names of the tensors, in their order.
        collections: The collections of all of them.
    """

    def __init__(self, names: Sequence[str], collections: frozenset[str]) -> None:
        self.record_names, self.collections = tuple(names), collections
        self.names = frozenset(names)


Layout = RowLayout | ReducedLayout


@dataclass(frozen=True, eq=False)
class Row:
    """Small tensors of one step, all of one type and shape, or reductions: encoded together.

    - `layout`: their names
    - `numbers`: their values, of shape (names, *shape of a tensor)
    """

    layout: Layout
    numbers: NDArray[np.generic]


class LateTensors(Protocol):
    """Tensors of one step. The training thread reads their source later, the writer's thread makes arrays of it.

    Attributes:
        size_bytes: Memory that counts against the budget.
    """

    size_bytes: int

    def is_ready(self) -> bool:
        """Return True once `row` can be called. Never waits."""

    def row(self) -> Row | None:
        """Return names and values; None if they are lost. For the writer's thread. Never raises."""
