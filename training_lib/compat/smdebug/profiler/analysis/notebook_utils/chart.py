"""The common part of the charts for notebooks."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from smdebug.core.utils import match_inc
from smdebug.profiler.system_profiler_file_parser import ProfilerSystemEvent
from trackside.views.report.charts.markup import Markup, joined

TOTAL = "total"
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # seconds since the epoch, and values


class Chart:
    """A chart that notebooks show. `svg` is its drawing."""

    def __init__(self) -> None:
        self.svg = Markup("")

    def _repr_html_(self) -> str:
        return self.svg

    def show(self, drawings: Iterable[Markup]) -> None:
        """Keep drawings as this chart's, and show them where a notebook runs."""
        self.svg = joined(*drawings)
        display = sys.modules.get("IPython.display")
        if display is not None:
            display.display(display.HTML(self.svg))


def curves_of(events: Iterable[ProfilerSystemEvent], *, by_node: bool) -> dict[str, dict[str, Curve]]:
    """Return curves by dimension and device, with `total`, the mean over the devices at each moment.

    Args:
        events: Samples of machines.
        by_node: True for a dimension of its own for each machine.
    """
    samples: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        dimension = f"{event.dimension}-nodeid:{event.node_id}" if by_node else event.dimension
        samples[dimension][event.name or ""].append((event.timestamp, event.value))
        samples[dimension][TOTAL].append((event.timestamp, event.value))
    return {
        dimension: {name: _curve(found, is_mean=name == TOTAL) for name, found in devices.items()}
        for dimension, devices in samples.items()
    }


def chosen(names: Iterable[str], regexes: Sequence[str]) -> list[str]:
    """Return the names in which one of the regexes is found."""
    return [name for name in names if match_inc(name, regexes)]


def chosen_curves(
    curves: Mapping[str, Mapping[str, Curve]], *, dimensions: Sequence[str], events: Sequence[str]
) -> dict[str, dict[str, Curve]]:
    """Return the curves of chosen dimensions and devices."""
    return {
        dimension: {name: curves[dimension][name] for name in chosen(curves[dimension], events)}
        for dimension in chosen(curves, dimensions)
    }


def _curve(samples: list[tuple[float, float]], *, is_mean: bool) -> Curve:
    """Return samples by time, those of one moment as their mean if `is_mean`."""
    pairs = np.array(sorted(samples)).reshape(-1, 2)
    if not is_mean:
        return pairs[:, 0], pairs[:, 1]
    moments, first = np.unique(pairs[:, 0], return_index=True)
    return moments, np.add.reduceat(pairs[:, 1], first) / np.diff(np.append(first, len(pairs)))
