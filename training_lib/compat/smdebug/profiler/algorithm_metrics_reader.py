"""Readers of timelines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

from smdebug import not_offered
from smdebug.profiler.metrics_reader_base import MetricsReaderBase
from smdebug.profiler.profiler_constants import (
    HOROVODTIMELINE_SUFFIX,
    MODELTIMELINE_SUFFIX,
    PYTHONTIMELINE_SUFFIX,
    SMDATAPARALLELTIMELINE_SUFFIX,
    TENSORBOARDTIMELINE_SUFFIX,
)
from smdebug.profiler.tf_profiler_parser import (
    HorovodProfilerEvents,
    SMDataParallelProfilerEvents,
    SMProfilerEvents,
    TensorboardProfilerEvents,
)
from smdebug.profiler.trace_event_file_parser import TraceEvent, TraceEventParser, overlaps
from smdebug.profiler.utils import TimeUnits
from trackside.environment import OldNamesEnvironment
from trackside.speed.performance.timelines import TimelineFile, files_between, read_timeline, timeline_files

_WHOLE = (0, 1 << 62)  # microseconds


class AlgorithmMetricsReader(MetricsReaderBase[TraceEvent]):
    """A reader of the timelines below `framework`."""

    prefix = "framework"

    def __init__(self, use_in_memory_cache: bool = False, *, location: str | os.PathLike[str] = "") -> None:
        super().__init__(use_in_memory_cache, location=location)
        self._parsers: dict[str, TraceEventParser] = {
            PYTHONTIMELINE_SUFFIX: SMProfilerEvents(),
            MODELTIMELINE_SUFFIX: SMProfilerEvents(type="DetailedframeworkMetrics"),
            TENSORBOARDTIMELINE_SUFFIX: TensorboardProfilerEvents(),
            HOROVODTIMELINE_SUFFIX: HorovodProfilerEvents(),
            SMDATAPARALLELTIMELINE_SUFFIX: SMDataParallelProfilerEvents(),
        }
        self._event_parsers = list(self._parsers.values())

    def get_current_time_range_for_event_query(self) -> tuple[int, int]:
        """Return the ends of the first and of the last timeline in microseconds."""
        return self.get_timestamp_of_first_available_file(), self.get_timestamp_of_latest_available_file()

    def get_events_by_step(
        self,
        start_step: int,
        end_step: int,
        event_type: str | None = None,
        file_suffix_filter: Sequence[str] | None = None,
    ) -> list[TraceEvent]:
        """Return the events from the begin of one step to that of another; to the last event if that never came."""
        start, end = self.time_of_steps(start_step, end_step)
        return self.get_events(start, end, TimeUnits.MICROSECONDS, event_type, file_suffix_filter)

    def time_of_steps(self, start_step: int, end_step: int) -> tuple[float, float]:
        """Return the time from the begin of one step to that of another in microseconds; (0, 0) for unknown steps."""
        steps = [
            (int(event.event_args["step_num"]), event)
            for event in self.get_events(*_WHOLE, file_suffix_filter=[PYTHONTIMELINE_SUFFIX])
            if event.event_args and "step_num" in event.event_args
        ]
        starts = [event.start_time for step, event in steps if step == start_step]
        ends = [event.start_time - 1 for step, event in steps if step == end_step]
        behind = [event.end_time for step, event in steps if start_step <= step <= end_step]
        if not starts or end_step < start_step:
            self.logger.info(f"Invalid step interval [{start_step}, {end_step}]")
            return 0, 0
        return min(starts), min(ends) if ends else max(behind)

    def _timestamps(self) -> list[int]:
        return [file.end for file in timeline_files(self._keys) if file.end]

    def _files_between(self, start: float, end: float) -> list[tuple[str, Callable[[], list[TraceEvent]]]]:
        buffer = OldNamesEnvironment.read().time_buffer_microseconds
        files = files_between(timeline_files(self._keys), start, end, buffer=buffer)
        return [
            (file.key, partial(self._events_of, file, parser))
            for source, parser in self._parsers.items()
            for file in files
            if file.source == source
        ]

    def _events_of(self, file: TimelineFile, parser: TraceEventParser) -> list[TraceEvent]:
        found = parser.add(read_timeline(self._store, file))
        if not self._cache_events_in_memory:
            parser.clear_events()
        return found

    def _is_within(self, event: TraceEvent, start: float, end: float, event_type: str | None) -> bool:
        return overlaps(event, start, end, event_type)


class LocalAlgorithmMetricsReader(AlgorithmMetricsReader):
    """A reader of the timelines of a local folder."""

    def __init__(self, trace_root_folder: str | os.PathLike[str], use_in_memory_cache: bool = False) -> None:
        self.trace_root_folder = trace_root_folder
        super().__init__(use_in_memory_cache, location=trace_root_folder)


class S3AlgorithmMetricsReader(AlgorithmMetricsReader):
    """A reader of the timelines below an s3:// prefix."""

    def __init__(self, s3_trial_path: str, use_in_memory_cache: bool = False) -> None:
        super().__init__(use_in_memory_cache, location=s3_trial_path)


__getattr__ = not_offered.attribute_of(__name__)
