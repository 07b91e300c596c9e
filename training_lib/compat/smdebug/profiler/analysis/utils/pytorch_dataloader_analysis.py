# ruff: noqa: T201 - its answers are printed, as the original's are
"""Facts about the data loaders of a PyTorch training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smdebug import not_offered
from smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
from trackside.speed.performance.profile import pandas_module

if TYPE_CHECKING:
    from smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts

_SHOWN = "%Y-%m-%dT%H:%M:%S:%f"
_OUTLIER = 2  # times the median


class PT_dataloader_analysis:  # noqa: N801 - the old name
    """Facts about the data loaders of a run, printed, with a frame of the outliers: twice the median or more.

    Args:
        pandas_frame: The run.
    """

    def __init__(self, pandas_frame: PandasFrame) -> None:
        self.pd_data_frame = pandas_frame
        self.dataIter_metric = pandas_frame.get_all_dataloader_metrics([".*DataLoaderIter::GetNext"])
        self.initialize_metric = pandas_frame.get_all_dataloader_metrics(["DataLoaderIterInitialize"])
        self.dataWorker_metric = pandas_frame.get_all_dataloader_metrics(["DataLoaderWorker"])
        self.analyze_dataIter = not self.dataIter_metric.empty
        self.analyze_initializer = not self.initialize_metric.empty
        self.analyze_workers = not self.dataWorker_metric.empty

    def analyze_dataloaderIter_initialization(self) -> Any:  # noqa: N802 - the old name
        """Print how iterators were made, and return the slow ones; None if none was."""
        if not self.analyze_initializer:
            return _print_missing("DataLoaderIter initialization")
        found = []
        for kind in ("_MultiProcessingDataLoaderIter.__init__", "_SingleProcessDataLoaderIter.__init__"):
            made = self.initialize_metric[self.initialize_metric["framework_metric"] == kind]
            if made.empty:
                print(f"Training is not configured to use {kind} iterator")
                continue
            pinned, workers = made["pin_memory"].unique()[0], made["num_workers"].unique()[0]
            print(f"{kind}: {len(made)} times, pin_memory = {pinned}, num_workers = {workers}")
            found.append(_outliers(made, "duration_us", ["start_time", "end_time", "duration_us"], of=kind))
        slow = [frame for frame in found if frame is not None]
        return pandas_module("PT_dataloader_analysis").concat(slow, ignore_index=True) if slow else None

    def analyze_dataloaderWorkers(self) -> Any:  # noqa: N802 - the old name
        """Print how long workers lived, and return those that lived long; None if none did."""
        return self._durations(self.dataWorker_metric, "DataLoaderWorker processes")

    def analyze_dataloader_getnext(self) -> Any:
        """Print how long batches were waited for, and return the long waits; None if none was."""
        return self._durations(self.dataIter_metric, "DataLoaderIter::GetNext calls")

    def analyze_batchtime(self) -> Any:
        """Print the time from one batch to the next, and return the long ones; None if none was."""
        if self.dataIter_metric.empty:
            return _print_missing("DataLoaderIter::GetNext calls")
        pandas = pandas_module("PT_dataloader_analysis")
        batches = self.dataIter_metric.sort_values(["node_id", "pid", "start_time_us"])
        for column in ("start_time", "end_time"):
            batches[column] = pandas.to_datetime(batches[column], format=_SHOWN)
        starts = batches.groupby(["node_id", "pid"])["start_time"]
        batches["previous_batch_start"] = starts.shift()
        batches["BatchTime_in_seconds"] = starts.diff().dt.total_seconds()
        columns = ["previous_batch_start", "start_time", "BatchTime_in_seconds", "worker_id"]
        return _outliers(batches, "BatchTime_in_seconds", columns, of="batches", unit="seconds")

    def plot_the_window(
        self,
        start_timestamp: float,
        end_timestamp: float,
        select_events: Sequence[str] = (".*",),
        select_dimensions: Sequence[str] = (".*",),
    ) -> TimelineCharts:
        """Return charts of a range in microseconds since the epoch."""
        from smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts

        return TimelineCharts(
            self.pd_data_frame.system_metrics_reader,
            self.pd_data_frame.framework_metrics_reader,
            starttime=start_timestamp,
            endtime=end_timestamp,
            select_events=select_events,
            select_dimensions=select_dimensions,
        )

    def _durations(self, frame: Any, what: str) -> Any:
        if frame.empty:
            return _print_missing(what)
        print(f"Total number of {what}: {len(frame)}")
        return _outliers(frame, "duration_us", ["start_time", "end_time", "duration_us", "worker_id"], of=what)


def _outliers(frame: Any, column: str, columns: Sequence[str], *, of: str, unit: str = "us") -> Any:
    """Print median and maximum of a column, and return the rows of twice the median or more, the largest first."""
    median, most = frame[column].median(), frame[column].max()
    print(f"Median duration of {of}: {median} {unit}; maximum: {most} {unit}")
    found = frame.loc[frame[column] >= _OUTLIER * median, list(columns)]
    if found.empty:
        print(f"No outliers found in {of}")
        return None
    return found.sort_values(column, ascending=False).reset_index(drop=True)


def _print_missing(what: str) -> None:
    print(f"Trace events corresponding to {what} are not present")


__getattr__ = not_offered.attribute_of(__name__)
