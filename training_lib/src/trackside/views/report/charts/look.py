"""The look of charts that a reader chooses: the vertical scale, and smoothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LINEAR, LOGARITHMIC = "linear", "log"
SCALES = {"": "as it fits", LINEAR: "linear", LOGARITHMIC: "logarithmic"}
SMOOTHINGS = {0: "no", 10: "over 10 points", 40: "over 40 points"}  # of a chart's 400: a fortieth, and a tenth


@dataclass(frozen=True)
class Look:
    """How curves are drawn.

    scale   one of `SCALES`; "": linear or logarithmic, as the numbers are
    smooth  one of `SMOOTHINGS`: points of a chart over which the mean moves; 0: none
    """

    scale: str = ""
    smooth: int = 0

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Look:
        """Return the look of an address; a word that is not known chooses none."""
        scale, smooth = query.get("scale", ""), query.get("smooth", "")
        known = {str(points): points for points in SMOOTHINGS}
        return cls(scale if scale in SCALES else "", known.get(smooth, 0))

    @property
    def query(self) -> dict[str, str]:
        """The look as an address has it."""
        return {"scale": self.scale, "smooth": str(self.smooth or "")}


AS_IT_FITS = Look()


def smoothed(values: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    """Return the exponential moving mean of numbers, of which the last `points` weigh most.

    The first numbers are not pulled towards 0, and one that is not finite leaves a gap and no trace.
    """
    kept = 1.0 - 1.0 / points if points else 0.0
    found, total, weight = np.full(len(values), np.nan), 0.0, 0.0
    for place, value in enumerate(values.tolist()):
        if np.isfinite(value):
            total, weight = kept * total + (1 - kept) * value, kept * weight + (1 - kept)
            found[place] = total / weight
    return found
