"""The samples of machines over time, and the events of a range of them."""

# ruff: noqa: T201 - its answers are printed, as the original's are
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from smdebug import not_offered
from smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
from smdebug.profiler.analysis.notebook_utils.chart import TOTAL, Chart, Curve, chosen_curves, curves_of
from smdebug.profiler.system_metrics_reader import SystemMetricsReader
from smdebug.profiler.trace_event_file_parser import TraceEvent
from trackside.views.report.charts.profile_charts import time_chart

_PERCENT = 100.0


class TimelineCharts(Chart):
    """The samples of machines over time: a chart a dimension.

    Args:
        system_metrics_reader: The run's samples.
        framework_metrics_reader: The run's timelines.
        starttime: Begin of the range, in microseconds since the epoch.
        endtime: Its end; None for the last file, as far as it goes.
        select_dimensions: Regexes of dimensions.
        select_events: Regexes of devices; `total` is the mean over all.
        x: The most samples of a curve that are shown: the last ones.
        show_workers: True for a chart of each machine.
    """

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        system_metrics_reader: SystemMetricsReader,
        framework_metrics_reader: AlgorithmMetricsReader,
        starttime: float = 0,
        endtime: float | None = None,
        select_dimensions: Sequence[str] = (".*",),
        select_events: Sequence[str] = (".*",),
        x: int = 1000,
        show_workers: bool = True,
    ) -> None:
        super().__init__()
        self.system_metrics_reader, self.framework_metrics_reader = system_metrics_reader, framework_metrics_reader
        self.select_dimensions, self.select_events = list(select_dimensions), list(select_events)
        self.width, self.show_workers, self._start = x, show_workers, starttime
        latest = system_metrics_reader.get_timestamp_of_latest_available_file() + 60e6
        self.update_data(latest if endtime is None else endtime)

    def update_data(self, current_timestamp: float) -> None:
        """Draw the samples up to a moment, in microseconds since the epoch."""
        self.last_timestamp_system_metrics = current_timestamp
        events = self.system_metrics_reader.get_events(self._start, current_timestamp)
        self.system_metrics = curves_of(events, by_node=self.show_workers)
        found = chosen_curves(self.system_metrics, dimensions=self.select_dimensions, events=self.select_events)
        self.show(
            time_chart(
                dimension,
                {name: (times[-self.width :], values[-self.width :]) for name, (times, values) in devices.items()},
            )
            for dimension, devices in found.items()
        )

    def find_time_annotations(self, indexes: Sequence[int]) -> dict[str, float]:
        """Print the seconds of each event in a range, summed, and return them.

        Args:
            indexes: Places of samples of the processors; the first and the last bound the range.
        """
        found: dict[str, float] = defaultdict(float)
        for event in self._events_between(indexes):
            step = (event.event_args or {}).get("step_num")
            found[event.event_name if step is None else f"{event.event_name}_{step}"] += event.duration / 1e6
        for name, seconds in found.items():
            print(f"Spent {seconds} s (cumulative time) in {name}")
        return dict(found)

    def plot_detailed_profiler_data(self, indexes: Sequence[int]) -> None:
        """Draw the share of each phase over a range: 100 while one of its events runs.

        Args:
            indexes: As for `find_time_annotations`.
        """
        by_phase: dict[str, list[TraceEvent]] = defaultdict(list)
        for event in self._events_between(indexes):
            by_phase[event.event_phase].append(event)
        self.show(time_chart(f"{phase}, % of the time", {phase: _busy(events)}) for phase, events in by_phase.items())

    def _events_between(self, indexes: Sequence[int]) -> list[TraceEvent]:
        times = next((each[TOTAL][0] for name, each in self.system_metrics.items() if name.startswith("CPU")), None)
        if not len(indexes) or times is None:
            print("No selection made")
            return []
        first, last = float(times[min(indexes)]), float(times[min(max(indexes), len(times) - 1)])
        print(f"Selected timerange: {first} to {last}")
        return self.framework_metrics_reader.get_events(first * 1e6, last * 1e6)


def _busy(events: Sequence[TraceEvent]) -> Curve:
    """Return (seconds, 0 or 100) at the begin and the end of each stretch in which one of the events runs."""
    times: list[float] = []
    values: list[float] = []
    end = -np.inf
    for event in sorted(events, key=lambda event: event.start_time):
        if event.start_time > end:
            times += [end, event.start_time, event.start_time] if times else [event.start_time]
            values += [0.0, 0.0, _PERCENT] if values else [_PERCENT]
        elif event.end_time <= end:
            continue
        end = event.end_time
        times.append(end)
        values.append(_PERCENT)
    return np.array(times) / 1e6, np.array(values)


__getattr__ = not_offered.attribute_of(__name__)
