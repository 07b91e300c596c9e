"""Readers of the samples of machines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial

from smdebug import not_offered
from smdebug.profiler.metrics_reader_base import MetricsReaderBase
from smdebug.profiler.system_profiler_file_parser import (
    ProfilerSystemEvent,
    ProfilerSystemEvents,
    is_within,
    samples_in,
)
from smdebug.profiler.utils import TimeUnits, convert_utc_timestamp_to_nanoseconds
from trackside.environment import OldNamesEnvironment
from trackside.records.machine.machine_samples import without_exports
from trackside.records.machine.system_metrics_file import MOST_BYTES

_FILE = re.compile(r"system/.+/(?P<second>\d{10})\.(?P<node>algo-\d+)\.(?:json|tms)")


class SystemMetricsReader(MetricsReaderBase[ProfilerSystemEvent]):
    """A reader of the samples below `system`."""

    prefix = "system"

    def __init__(self, use_in_memory_cache: bool = False, *, location: str | os.PathLike[str] = "") -> None:
        super().__init__(use_in_memory_cache, location=location)
        self._event_parsers = [ProfilerSystemEvents()]

    def _timestamps(self) -> list[int]:
        return [second * 1_000_000 for second, _, _ in self._files()]

    def _files(self) -> list[tuple[int, str, str]]:
        """Return (second, node, key) of each file, by time."""
        found = ((key, _FILE.fullmatch(key)) for key in without_exports(self._keys))
        return sorted((int(match["second"]), match["node"], key) for key, match in found if match)

    def _files_between(self, start: float, end: float) -> list[tuple[str, Callable[[], list[ProfilerSystemEvent]]]]:
        """Return the files between, and of each machine the one before: it may reach into the range."""
        buffer = OldNamesEnvironment.read().time_buffer_microseconds
        before: dict[str, str] = {}
        found = []
        for second, node, key in self._files():
            if second * 1_000_000 <= start - buffer:
                before[node] = key
            elif second * 1_000_000 <= end + buffer:
                found.append(key)
        return [(key, partial(self._events_of, key)) for key in [*before.values(), *found]]

    def _events_of(self, key: str) -> list[ProfilerSystemEvent]:
        found = samples_in(self._store.get(key, length=MOST_BYTES), f"{self._store.uri}/{key}")
        if self._cache_events_in_memory:
            self._event_parsers[0].add(found)
        return found

    def _is_within(self, event: ProfilerSystemEvent, start: float, end: float, event_type: str | None) -> bool:
        first, last = (convert_utc_timestamp_to_nanoseconds(each, TimeUnits.MICROSECONDS) for each in (start, end))
        return is_within(event, first, last, event_type)


class LocalSystemMetricsReader(SystemMetricsReader):
    """A reader of the samples in a local folder."""

    def __init__(self, trace_root_folder: str | os.PathLike[str], use_in_memory_cache: bool = False) -> None:
        self.trace_root_folder = trace_root_folder
        super().__init__(use_in_memory_cache, location=trace_root_folder)


class S3SystemMetricsReader(SystemMetricsReader):
    """A reader of the samples below an s3:// prefix."""

    def __init__(self, s3_trial_path: str, use_in_memory_cache: bool = False) -> None:
        super().__init__(use_in_memory_cache, location=s3_trial_path)


__getattr__ = not_offered.attribute_of(__name__)
