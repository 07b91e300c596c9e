"""Histograms of the durations of events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from smdebug import not_offered
from smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
from smdebug.profiler.analysis.notebook_utils.chart import Chart, chosen
from smdebug.profiler.trace_event_file_parser import TraceEvent
from trackside.views.report.charts.profile_charts import histogram_chart

MICROS = 1e6
SELECTED = ("Step:ModeKeys", "Forward-node", r"Backward\(post-forward\)-node")
_BARS = 50


class StepHistogram(Chart):
    """Histograms of the durations of events, in seconds. The longest are in them.

    Args:
        metrics_reader: The run.
        width: Changes nothing.
    """

    def __init__(self, metrics_reader: AlgorithmMetricsReader, width: int = 500) -> None:
        super().__init__()
        self.metrics_reader, self.width = metrics_reader, width
        self.last_timestamp: float = metrics_reader.get_timestamp_of_latest_available_file()
        self._events: list[TraceEvent] = []

    def plot(
        self,
        starttime: float = 0,
        endtime: float | None = None,
        select_metrics: Sequence[str] = SELECTED,
        show_workers: bool = True,
    ) -> None:
        """Draw the events of a range: a histogram a phase.

        Args:
            starttime: Its begin, in microseconds since the epoch.
            endtime: Its end; None for the last event.
            select_metrics: Regexes of phases.
            show_workers: True for a histogram of each node.
        """
        self.last_timestamp = (
            self.metrics_reader.get_timestamp_of_latest_available_file() if endtime is None else endtime
        )
        self.select_metrics, self.show_workers = list(select_metrics), show_workers
        self._events = self.metrics_reader.get_events(starttime, self.last_timestamp)
        self._draw()

    def update_data(self, current_timestamp: float) -> None:
        """Draw the events that end up to a later moment, too."""
        newer = self.metrics_reader.get_events(self.last_timestamp, current_timestamp)
        self._events += [event for event in newer if event.end_time > self.last_timestamp]
        self.last_timestamp = current_timestamp
        self._draw()

    def clear(self) -> None:
        """Forget the events."""
        self._events = []

    def _draw(self) -> None:
        found: dict[str, list[float]] = defaultdict(list)
        for event in self._events:
            name = f"{event.event_phase}-nodeid:{event.node_id}" if self.show_workers else event.event_phase
            found[name].append(event.duration / MICROS)
        self.step_metrics = {name: found[name] for name in chosen(found, self.select_metrics)}
        self.show(
            histogram_chart(f"{name}, seconds", np.array(durations), _edges(durations))
            for name, durations in self.step_metrics.items()
        )


def _edges(durations: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    least, most = min(durations), max(durations)
    return np.linspace(least, most if most > least else least + 1e-6, _BARS + 1)


__getattr__ = not_offered.attribute_of(__name__)
