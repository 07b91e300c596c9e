"""The durations of steps over time."""

from __future__ import annotations

import numpy as np

from smdebug import not_offered
from smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
from smdebug.profiler.analysis.notebook_utils.chart import Chart
from trackside.views.report.charts.profile_charts import time_chart


class StepTimelineChart(Chart):
    """The durations of steps over time, in seconds.

    Args:
        metrics_reader: The run.
        width: The most steps that are shown: the last ones.
    """

    def __init__(self, metrics_reader: AlgorithmMetricsReader, width: int = 1000) -> None:
        super().__init__()
        self.metrics_reader, self.width = metrics_reader, width
        self.update_data(metrics_reader.get_timestamp_of_latest_available_file())

    def update_data(self, current_timestamp: float) -> None:
        """Draw the steps up to a moment, in microseconds since the epoch."""
        self.last_timestamp = current_timestamp
        steps = [
            (event.start_time / 1e6, event.duration / 1e6, int((event.event_args or {}).get("step_num", -1)), event)
            for event in self.metrics_reader.get_events(0, current_timestamp)
            if event.event_name.startswith("Step")
        ]
        steps.sort(key=lambda step: step[0])
        self.metric_names = [event.event_name for *_, event in steps]
        self.steps_np = np.array([step[:3] for step in steps]).reshape(-1, 3)
        self.start = float(self.steps_np[0, 0]) if steps else 0.0
        shown = list(zip(self.metric_names, self.steps_np.tolist(), strict=True))[-self.width :]
        curves = {
            name: np.array([row[:2] for each, row in shown if each == name]) for name in sorted({n for n, _ in shown})
        }
        self.show([time_chart("Steps, seconds", {name: (rows[:, 0], rows[:, 1]) for name, rows in curves.items()})])


__getattr__ = not_offered.attribute_of(__name__)
