"""Numbers of a training, which may still be on their way from a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]


class Values(Protocol):
    """Numbers that may still be on their way from a device."""

    def is_here(self) -> bool:
        """Return True if `get` need not wait."""

    def get(self) -> Numbers:
        """Return the numbers, one-dimensional."""


@dataclass(frozen=True, eq=False)
class Here:
    """Numbers that are available already."""

    numbers: Numbers

    def is_here(self) -> bool:
        """Return True."""
        return True

    def get(self) -> Numbers:
        """Return the numbers."""
        return self.numbers
