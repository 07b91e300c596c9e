"""Samples of machines, as the original has them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from smdebug import not_offered
from smdebug.core.logger import get_logger
from smdebug.profiler.utils import TimeUnits, convert_utc_timestamp_to_nanoseconds
from trackside.contracts.errors import RecordError
from trackside.records.machine.machine_samples import SUFFIX
from trackside.records.machine.machine_samples_reader import decode_machine_samples
from trackside.records.machine.system_metrics_file import SystemSample, decode_system_metrics


class ProfilerSystemEvent:
    """One number of one moment. `timestamp` is in seconds since the epoch; `name` is None for what has no device."""

    def __init__(  # noqa: PLR0917 - the old signature
        self, event_type: str, name: str | None, dimension: str, value: float, node_id: str, timestamp: float
    ) -> None:
        self.type, self.name, self.dimension = event_type, name, dimension
        self.value, self.node_id, self.timestamp = value, node_id, timestamp


class SystemProfilerEventParser:
    """The samples of files."""

    def __init__(self) -> None:
        self.logger = get_logger()
        self.clear_events()

    def read_events_from_file(self, eventfile: str | os.PathLike[str]) -> None:
        """Add the samples of a local file. A last line that was cut off is left out.

        Raises:
            ValueError: Another line is damaged.
            OSError: The file cannot be read.
        """
        self.add(samples_in(Path(eventfile).read_bytes(), os.fspath(eventfile)))

    def read_events_from_json_data(self, system_profiler_json_data: Iterable[Mapping[str, Any]]) -> None:
        for event in system_profiler_json_data:
            self.read_event_from_dict(event)

    def read_event_from_dict(self, event: Mapping[str, Any]) -> None:
        fields = (event[key] for key in ("Dimension", "Value", "NodeId", "Timestamp"))
        self._events.append(ProfilerSystemEvent(event["Type"], event.get("Name"), *fields))

    def add(self, events: Iterable[ProfilerSystemEvent]) -> None:
        """Add samples that were read."""
        self._events += events

    def get_events_within_time_range(
        self,
        start_time: float,
        end_time: float,
        unit: TimeUnits = TimeUnits.MICROSECONDS,
        event_type: str | None = None,
    ) -> list[ProfilerSystemEvent]:
        """Return the samples of a range, of one type if it is given."""
        start, end = (convert_utc_timestamp_to_nanoseconds(moment, unit) for moment in (start_time, end_time))
        return [event for event in self._events if is_within(event, start, end, event_type)]

    def get_all_events(self) -> list[ProfilerSystemEvent]:
        return self._events

    def clear_events(self) -> None:
        self._events: list[ProfilerSystemEvent] = []


class ProfilerSystemEvents(SystemProfilerEventParser):
    """The samples of files."""


def is_within(event: ProfilerSystemEvent, start: float, end: float, event_type: str | None = None) -> bool:
    """Return True for a sample of a range in nanoseconds, and of that type if one is given."""
    moment = convert_utc_timestamp_to_nanoseconds(event.timestamp, TimeUnits.SECONDS)
    return event_type in {None, event.type} and start <= moment <= end


def samples_in(data: bytes, name: str) -> list[ProfilerSystemEvent]:
    """Return the samples of a file.

    Raises:
        ValueError: A line other than the last is damaged.
    """
    try:
        decode = decode_machine_samples if name.endswith(SUFFIX) else decode_system_metrics
        return [_event(sample) for sample in decode(data, key=name)]
    except RecordError as error:
        raise ValueError(f"Can't open profiler system metric file {name}: {error}") from error


def _event(sample: SystemSample) -> ProfilerSystemEvent:
    name = sample.name or None
    return ProfilerSystemEvent(sample.kind, name, sample.dimension, sample.value, sample.node, sample.timestamp)


__getattr__ = not_offered.attribute_of(__name__)
