"""The use of the machines over time, as a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smdebug import not_offered
from smdebug.profiler.analysis.notebook_utils.chart import Chart, Curve, chosen_curves, curves_of
from smdebug.profiler.system_metrics_reader import SystemMetricsReader
from trackside.views.report.charts.profile_charts import usage_map

_COLUMNS = 480
_AMOUNTS = ("Algorithm", "Platform", "")  # dimensions that need not be shares


class Heatmap(Chart):
    """The use of the machines over time: a row a device, the mean of its samples in each column.

    Args:
        metrics_reader: The run.
        select_metrics: Changes nothing.
        starttime: Begin of the range, in microseconds since the epoch.
        endtime: Its end; None for the last file, as far as it goes.
        select_dimensions: Regexes of dimensions.
        select_events: Regexes of devices; `total` is the mean over all.
        plot_height: Changes nothing: a row has one height.
        show_workers: False for the mean over machines.
    """

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        metrics_reader: SystemMetricsReader,
        select_metrics: Sequence[str] = (),
        starttime: float = 0,
        endtime: float | None = None,
        select_dimensions: Sequence[str] = (".*CPU", ".*GPU"),
        select_events: Sequence[str] = (".*",),
        plot_height: int = 350,
        show_workers: bool = True,
    ) -> None:
        super().__init__()
        self.metrics_reader, self.plot_height, self.show_workers = metrics_reader, plot_height, show_workers
        self.select_dimensions, self.select_events = list(select_dimensions), list(select_events)
        self.last_timestamp = metrics_reader.get_timestamp_of_latest_available_file()
        end = self.last_timestamp + 60e6 if endtime is None else endtime
        curves = curves_of(metrics_reader.get_events(starttime, end), by_node=show_workers)
        found = chosen_curves(curves, dimensions=self.select_dimensions, events=self.select_events)
        self.rows = {
            f"{dimension}_{device}": _shares(dimension, curve)
            for dimension, devices in found.items()
            for device, curve in devices.items()
        }
        if self.rows:
            first = min(float(times[0]) for times, _ in self.rows.values())
            last = max(float(times[-1]) for times, _ in self.rows.values())
            values = np.stack([_columns(curve, first, last) for curve in self.rows.values()])
            self.show([usage_map("Use of the machines", list(self.rows), values, last - first)])


def _shares(dimension: str, curve: Curve) -> Curve:
    """Return a curve in percent: of its own maximum, if it is of amounts."""
    times, values = curve
    most = float(values.max(initial=0.0))
    is_amount = dimension.partition("-nodeid:")[0] in _AMOUNTS or most > 100
    return times, values / most * 100 if is_amount and most else values


def _columns(curve: Curve, first: float, last: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the mean of each column; NaN for a column without a sample."""
    times, values = curve
    count = min(_COLUMNS, len(times))
    places = np.minimum(((times - first) / max(last - first, 1e-9) * count).astype(np.int64), count - 1)
    with np.errstate(invalid="ignore"):
        means = np.bincount(places, values, count) / np.bincount(places, minlength=count)
    return np.asarray(means[np.arange(_COLUMNS) * count // _COLUMNS])


__getattr__ = not_offered.attribute_of(__name__)
