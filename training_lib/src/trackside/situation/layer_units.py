"""The activations of a layer by unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def share_within(values: NDArray[np.generic], *, above: float, below: float) -> NDArray[np.float64] | None:
    """Return for each unit of a layer the percentage of its values v with `above` < v < `below`; None without units.

    A unit is a feature of (samples, features) and of (samples, positions, features), and a channel of
    (samples, channels, height, width) and of more dimensions; its values are those of all samples and positions. NaN is
    never within.
    """
    if values.ndim < 2 or values.size == 0 or values.dtype.kind not in "fiu":
        return None
    units = np.moveaxis(values, 1, -1) if values.ndim >= 4 else values
    rows = units.reshape(-1, units.shape[-1]).astype(np.float64)
    return np.asarray(100 * ((rows > above) & (rows < below)).mean(axis=0), np.float64)
