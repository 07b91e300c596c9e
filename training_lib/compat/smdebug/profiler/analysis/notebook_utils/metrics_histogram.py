"""Histograms of the samples of machines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smdebug import not_offered
from smdebug.profiler.analysis.notebook_utils.chart import Chart, chosen_curves, curves_of
from smdebug.profiler.system_metrics_reader import SystemMetricsReader
from smdebug.profiler.system_profiler_file_parser import ProfilerSystemEvent
from trackside.views.report.charts.profile_charts import histogram_chart

PERCENT = np.arange(0.0, 101.0, 2.0)


class MetricsHistogram(Chart):
    """Histograms of the samples of machines.

    Args:
        metrics_reader: The run.
    """

    def __init__(self, metrics_reader: SystemMetricsReader) -> None:
        super().__init__()
        self.metrics_reader = metrics_reader
        self._events: list[ProfilerSystemEvent] = []

    def plot(
        self,
        starttime: float = 0,
        endtime: float | None = None,
        select_dimensions: Sequence[str] = (".*",),
        select_events: Sequence[str] = (".*",),
        show_workers: bool = True,
    ) -> None:
        """Draw the samples of a range: a histogram a dimension and device.

        Args:
            starttime: Its begin, in microseconds since the epoch.
            endtime: Its end; None for the last file, as far as it goes.
            select_dimensions: Regexes of dimensions.
            select_events: Regexes of devices; `total` is the mean over all.
            show_workers: True for a histogram of each machine.
        """
        self.select_dimensions, self.select_events = list(select_dimensions), list(select_events)
        self.show_workers = show_workers
        self._events = self.metrics_reader.get_events(starttime, _end(self.metrics_reader, endtime))
        self.last_timestamp = _end(self.metrics_reader, endtime)
        self._draw()

    def update_data(self, current_timestamp: float) -> None:
        """Draw the samples up to a later moment, too."""
        self._events += self.metrics_reader.get_events(self.last_timestamp + 1, current_timestamp)
        self.last_timestamp = current_timestamp
        self._draw()

    def clear(self) -> None:
        """Forget the samples."""
        self._events = []

    def _draw(self) -> None:
        curves = curves_of(self._events, by_node=self.show_workers)
        found = chosen_curves(curves, dimensions=self.select_dimensions, events=self.select_events)
        self.system_metrics = {name: {d: each[1] for d, each in devices.items()} for name, devices in found.items()}
        self.show(
            histogram_chart(f"{dimension}_{device}", values, _edges(values))
            for dimension, devices in self.system_metrics.items()
            for device, values in devices.items()
        )


def _end(reader: SystemMetricsReader, given: float | None) -> float:
    """Return the end of a range: the last file covers the minute after the time in its name."""
    return reader.get_timestamp_of_latest_available_file() + 60e6 if given is None else given


def _edges(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return bars of 2 %, or fifty bars for what is no share."""
    most = float(values.max(initial=0.0))
    return PERCENT if most <= PERCENT[-1] else np.linspace(0.0, most, 51)


__getattr__ = not_offered.attribute_of(__name__)
