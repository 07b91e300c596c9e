"""Metrics of a run as frames of pandas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from smdebug import not_offered
from smdebug.core.utils import match_inc
from smdebug.profiler.algorithm_metrics_reader import (
    AlgorithmMetricsReader,
    LocalAlgorithmMetricsReader,
    S3AlgorithmMetricsReader,
)
from smdebug.profiler.system_metrics_reader import (
    LocalSystemMetricsReader,
    S3SystemMetricsReader,
    SystemMetricsReader,
)
from smdebug.profiler.trace_event_file_parser import TraceEvent
from smdebug.profiler.utils import convert_utc_datetime_to_microseconds, us_since_epoch_to_human_readable_time
from trackside.speed.performance.profile import pandas_module

_SYSTEM = ["timestamp", "timestamp_us", "value", "system_metric", "dimension", "nodeID", "type"]
_TIMES = ["start_time", "end_time", "start_time_us", "end_time_us"]
_FRAMEWORK = [*_TIMES, "tid", "pid", "framework_metric", "step", "bytes", "process", "nodeID"]
_DATALOADER = [
    *_TIMES, "duration_us", "pid", "framework_metric", "step", "worker_id", "num_workers", "pin_memory", "process",
    "node_id",
]  # fmt: skip
_NAMES = ("layer_name", "name")  # arguments that name an event better than its own name
_ALWAYS = 1 << 62  # microseconds


class PandasFrame:
    """Metrics of a run as frames of pandas.

    Times in the columns that end in `_us` count from the minute of the first sample of a machine on, or from the epoch
    if there is none.

    Args:
        path: The run's profiles: a folder or an s3:// prefix.
        use_in_memory_cache: True to keep the events of each file that was read.
        scan_interval: Changes nothing: a range is read in one go.

    Raises:
        ConfigurationError: pandas is not installed.
    """

    def __init__(self, path: str, use_in_memory_cache: bool = False, scan_interval: int = 5_000_000_000) -> None:
        self._pandas = pandas_module("PandasFrame")
        self.path, self.interval = path, scan_interval
        self.system_metrics_reader: SystemMetricsReader
        self.framework_metrics_reader: AlgorithmMetricsReader
        if path.startswith("s3"):
            self.system_metrics_reader = S3SystemMetricsReader(path)
            self.framework_metrics_reader = S3AlgorithmMetricsReader(path, use_in_memory_cache=use_in_memory_cache)
        else:
            self.system_metrics_reader = LocalSystemMetricsReader(path)
            self.framework_metrics_reader = LocalAlgorithmMetricsReader(path, use_in_memory_cache=use_in_memory_cache)
        self.system_metrics: list[list[Any]] = []
        self.framework_metrics: list[list[Any]] = []
        self.start_time = self.system_metrics_reader.get_timestamp_of_first_available_file()

    def get_all_system_metrics(self, selected_system_metrics: Sequence[str] = ()) -> Any:
        """Return all samples; only those of these devices if any are given."""
        return self.get_profiler_data_by_time(
            0, _ALWAYS, selected_system_metrics=selected_system_metrics, get_framework_metrics=False
        )[0]

    def get_all_framework_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return all events; only those of these names and phases if any are given."""
        return self.get_profiler_data_by_time(
            0, _ALWAYS, selected_framework_metrics=selected_framework_metrics, get_system_metrics=False
        )[1]

    def get_profiler_data_by_time(  # noqa: PLR0917 - the old signature
        self,
        start_time_us: float,
        end_time_us: float,
        cache_metrics: bool = False,
        selected_framework_metrics: Sequence[str] = (),
        selected_system_metrics: Sequence[str] = (),
        get_framework_metrics: bool = True,
        get_system_metrics: bool = True,
    ) -> tuple[Any, Any]:
        """Return (samples, events) of a range in microseconds since the epoch.

        Args:
            start_time_us: Its begin.
            end_time_us: Its end.
            cache_metrics: True to return what earlier calls found, too.
            selected_framework_metrics: Only events of these names and phases; empty for all.
            selected_system_metrics: Only samples of these devices; empty for all.
            get_framework_metrics: False for no events.
            get_system_metrics: False for no samples.
        """
        samples: list[list[Any]] = []
        events: list[list[Any]] = []
        if get_system_metrics:
            found = self.system_metrics_reader.get_events(start_time_us, end_time_us)
            samples = [
                _sample(each) for each in found if not selected_system_metrics or each.name in selected_system_metrics
            ]
        if get_framework_metrics:
            chosen = self._chosen(start_time_us, end_time_us, selected_framework_metrics)
            events = [_event(each) for each in chosen]
        if cache_metrics:
            self.system_metrics += samples
            self.framework_metrics += events
            samples, events = self.system_metrics, self.framework_metrics
        return self._frame(samples, _SYSTEM), self._frame(events, _FRAMEWORK)

    def get_profiler_data_by_step(self, start_step: int, end_step: int, cache_metrics: bool = False) -> tuple[Any, Any]:
        """Return (samples, events) of the steps from one to another, both included."""
        samples, events = self.get_all_system_metrics(), self.get_all_framework_metrics()
        events = events[events["step"].between(start_step, end_step)]
        during = samples["timestamp_us"].between(events["start_time_us"].min(), events["end_time_us"].max())
        return samples[during], events

    def get_all_dataloader_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return all events with what is known of data loaders; only those that a regex finds if any are given."""
        found = [
            _of_a_data_loader(event)
            for event in self.framework_metrics_reader.get_events(0, _ALWAYS)
            if not selected_framework_metrics
            or match_inc(event.event_name, selected_framework_metrics)
            or match_inc(event.event_phase, selected_framework_metrics)
        ]
        return self._frame(found, _DATALOADER)

    def get_framework_metrics_by_timesteps(
        self, timestep_list: Sequence[Any] = (), selected_framework_metrics: Sequence[str] = ()
    ) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        """Return microseconds of the events that run at these moments, summed over the moments.

        Args:
            timestep_list: Moments: texts as in the column `timestamp`, or what pandas takes for a time.
            selected_framework_metrics: Only events of these names and phases; empty for all.

        Returns:
            By phase, as a share of the largest, without steps; by event, without steps; by phase of steps.
        """
        moments = sorted(map(self.convert_datetime_to_timestamp, timestep_list))
        events = self._chosen(moments[0], moments[-1], selected_framework_metrics) if moments else []
        during = [event for moment in moments for event in events if event.start_time < moment < event.end_time]
        phases = _summed(during, lambda event: event.event_phase)
        details = _summed((event for event in during if "Step" not in event.event_name), lambda event: event.event_name)
        others = {phase: value for phase, value in phases.items() if "Step" not in phase}
        return _as_shares(others), details, {phase: value for phase, value in phases.items() if "Step" in phase}

    def get_framework_metrics_by_begin_and_end_timesteps(
        self,
        begin_timestep_list: Sequence[Any],
        end_timestep_list: Sequence[Any],
        selected_framework_metrics: Sequence[str] = (),
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return the events that overlap these ranges, without steps: shares of the largest, by phase and by event.

        Args:
            begin_timestep_list: Begins of the ranges, as in `get_framework_metrics_by_timesteps`.
            end_timestep_list: Their ends.
            selected_framework_metrics: Only events of these names and phases; empty for all.
        """
        begins = [self.convert_datetime_to_timestamp(moment) for moment in begin_timestep_list]
        ends = [self.convert_datetime_to_timestamp(moment) for moment in end_timestep_list]
        events = self._chosen(min(begins), max(ends), selected_framework_metrics) if begins else []
        during = [
            event
            for begin, end in zip(begins, ends, strict=False)
            for event in events
            if event.end_time >= begin and event.start_time <= end and "Step" not in event.event_name
        ]
        by_phase = _summed(during, lambda event: event.event_phase)
        return _as_shares(by_phase), _as_shares(_summed(during, lambda event: event.event_name))

    def convert_datetime_to_timestamp(self, timestamp: Any) -> float:
        """Return microseconds since the epoch."""
        moment = self._pandas.to_datetime(timestamp, format="%Y-%m-%dT%H:%M:%S:%f", utc=True)
        return convert_utc_datetime_to_microseconds(moment)

    def _chosen(self, start: float, end: float, selected: Sequence[str]) -> list[TraceEvent]:
        return [
            event
            for event in self.framework_metrics_reader.get_events(start, end)
            if not selected or event.event_name in selected or event.event_phase in selected
        ]

    def _frame(self, rows: list[list[Any]], columns: list[str]) -> Any:
        """Return the rows as a frame, each once, with times from the begin on."""
        frame = self._pandas.DataFrame(rows, columns=columns)
        for column in ("timestamp_us", "start_time_us", "end_time_us"):
            if column in columns:
                frame[column] = frame[column] - self.start_time
        return frame[~frame.duplicated()]


def _sample(event: Any) -> list[Any]:
    moment = int(event.timestamp * 1_000_000)
    shown = us_since_epoch_to_human_readable_time(moment)
    return [shown, moment, event.value, event.name, event.dimension, event.node_id, event.type]


def _event(event: TraceEvent) -> list[Any]:
    facts = event.event_args or {}
    fetched = facts.get("bytes_fetched", -1)
    return [*_times(event), event.tid, event.pid, _name(event), _step(event), fetched, event.event_phase, event.node_id]


def _of_a_data_loader(event: TraceEvent) -> list[Any]:
    facts = event.event_args or {}
    is_pinned = str(facts["pin_memory"] is True) if "pin_memory" in facts else "NA"
    workers = facts.get("worker_id", -1), facts.get("num_workers", -1)
    return [
        *_times(event), event.duration, event.pid, _name(event), _step(event), *workers, is_pinned, event.event_phase,
        event.node_id,
    ]  # fmt: skip


def _times(event: TraceEvent) -> list[Any]:
    shown = [us_since_epoch_to_human_readable_time(moment) for moment in (event.start_time, event.end_time)]
    return [*shown, event.start_time, event.end_time]


def _name(event: TraceEvent) -> str:
    facts = event.event_args or {}
    return str(next((facts[name] for name in _NAMES if name in facts), event.event_name))


def _step(event: TraceEvent) -> int:
    return int((event.event_args or {}).get("step_num", -1))


def _summed(events: Iterable[TraceEvent], key: Callable[[TraceEvent], str]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for event in events:
        found[key(event)] += event.duration
    return dict(found)


def _as_shares(values: dict[str, float]) -> dict[str, float]:
    most = max(values.values(), default=0.0)
    return {name: value / most if most else 0.0 for name, value in values.items()}


__getattr__ = not_offered.attribute_of(__name__)
