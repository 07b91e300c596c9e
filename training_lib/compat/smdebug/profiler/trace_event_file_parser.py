"""Events of timelines, as the original has them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from smdebug import not_offered
from smdebug.core.logger import get_logger
from smdebug.profiler.utils import (
    TimeUnits,
    convert_utc_datetime_to_microseconds,
    convert_utc_timestamp_to_microseconds,
    timeline_at,
)
from trackside.contracts.errors import RecordError, StorageError
from trackside.speed.performance.timelines import read_timeline
from trackside.speed.performance.trace_events import TimelineEvent, decode_trace
from trackside.storage.local import LocalStore


class ThreadInfo:
    """A thread of a phase."""

    def __init__(self, tid: Any, thread_name: str) -> None:
        self.tid, self.thread_name = tid, thread_name

    def __repr__(self) -> str:
        return f"tid:{self.tid} name:{self.thread_name}"


class ProcessInfo:
    """A phase, and the threads that were seen in it."""

    def __init__(self, id: Any, name: str) -> None:  # noqa: A002 - the old name
        self.id, self.name = id, name
        self._threads: dict[Any, ThreadInfo] = {}

    def add_thread(self, threadid: Any, thread_name: str) -> None:
        self._threads.setdefault(threadid, ThreadInfo(threadid, thread_name))

    def get_thread_info(self, threadid: Any) -> ThreadInfo:
        return self._threads[threadid]

    def __repr__(self) -> str:
        return f"id:{self.id} name:{self.name} threads:{self._threads}"


class TraceEvent:
    """An event of a timeline. Times are in microseconds since the epoch."""

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        ts: float,
        name: str,
        dur: float,
        phase_pid: Any,
        phase_tid: Any,
        event_args: Mapping[str, Any] | None,
        node_id: Any,
        phase: str,
        file_type: str,
        event_phase: str = "",
        pid: Any = 0,
        tid: Any = 0,
        process_info: ProcessInfo | None = None,
    ) -> None:
        self.start_time, self.duration, self.end_time = ts, dur, ts + dur
        self.event_name, self.event_phase, self.phase = name, event_phase, phase
        self.phase_pid, self.phase_tid, self.pid, self.tid = phase_pid, phase_tid, pid, tid
        self.event_args, self.node_id = event_args, node_id
        self.process_info, self.file_type = process_info, file_type

    def to_json(self) -> str:
        """Return the event in the Chrome trace-event format."""
        document = {"name": self.event_name, "pid": self.pid, "tid": self.tid, "ph": self.phase, "ts": self.start_time}
        facts = dict(self.event_args or {})
        if self.phase == "i":
            document["s"] = facts.pop("s", "t")
        elif self.phase == "X":
            document["dur"] = self.duration
        if facts:
            document["args"] = facts
        return json.dumps(document)


class TraceEventParser:
    """The events of timelines of one kind."""

    def __init__(self, type: str = "") -> None:  # noqa: A002 - the old name
        self.type = type
        self.logger = get_logger()
        self.clear_events()
        self._processes: dict[Any, ProcessInfo] = {}

    def read_events_from_file(self, tracefile: str | os.PathLike[str]) -> None:
        """Add the events of a local file. One that cannot be read is an error in the log."""
        path = os.fspath(tracefile)
        try:
            self.add(read_timeline(LocalStore(os.path.dirname(path) or "."), timeline_at(path)))
        except (RecordError, StorageError) as error:
            self.logger.error(f"Can't open trace file {path}: {error}")

    def read_events_from_json_data(self, trace_json_data: Any, node_id: str) -> None:
        """Add the events of a parsed file."""
        self.add(decode_trace(json.dumps(trace_json_data).encode(), key="the given data", node=node_id))

    def add(self, events: Any) -> list[TraceEvent]:
        """Add events of one file, and return them as they are known here."""
        phases: dict[tuple[Any, str], ProcessInfo] = {}
        found = [self._event(event, phases) for event in events]
        self._trace_events += found
        return found

    def get_all_events(self) -> list[TraceEvent]:
        return self._trace_events

    def get_events_start_time_sorted(self) -> list[TraceEvent]:
        return sorted(self._trace_events, key=lambda event: event.start_time)

    def get_events_end_time_sorted(self) -> list[TraceEvent]:
        return sorted(self._trace_events, key=lambda event: event.end_time)

    def get_events_within_time_range(
        self,
        start_time: float,
        end_time: float,
        unit: TimeUnits = TimeUnits.MICROSECONDS,
        event_type: str | None = None,
    ) -> list[TraceEvent]:
        """Return the events that overlap a range; of one phase or name only if `event_type` is given."""
        start, end = (convert_utc_timestamp_to_microseconds(moment, unit) for moment in (start_time, end_time))
        return [event for event in self._trace_events if overlaps(event, start, end, event_type)]

    def get_events_within_range(self, start_time: datetime, end_time: datetime) -> list[TraceEvent]:
        """Return the events that overlap a range."""
        start, end = (convert_utc_datetime_to_microseconds(moment) for moment in (start_time, end_time))
        return self.get_events_within_time_range(start, end)

    def get_process_info(self, process_id: Any) -> ProcessInfo:
        return self._processes[process_id]

    def get_processes(self) -> dict[Any, ProcessInfo]:
        return self._processes

    def clear_events(self) -> None:
        self._trace_events: list[TraceEvent] = []

    def _event(self, event: TimelineEvent, phases: dict[tuple[Any, str], ProcessInfo]) -> TraceEvent:
        phase = phases.get((event.group, event.phase))
        if phase is None:  # each file numbers its phases by itself
            phase = phases[event.group, event.phase] = ProcessInfo(event.group, event.phase)
            self._processes[event.group] = phase
        phase.add_thread(event.thread, event.thread_name)
        facts = event.arguments or {}
        return TraceEvent(
            event.start,
            event.name,
            event.duration,
            event.group,
            event.thread,
            event.arguments,
            event.node,
            "X",
            self.type,
            event_phase=event.phase,
            pid=facts.get("pid", event.group),
            tid=facts.get("thread_id", event.thread),
            process_info=phase,
        )


def overlaps(event: TraceEvent, start: float, end: float, event_type: str | None = None) -> bool:
    """Return True for an event that overlaps a range in microseconds, and is of that phase or name if one is given."""
    is_wanted = event_type is None or event_type in {event.event_phase, event.event_name}
    return is_wanted and event.end_time >= start and event.start_time <= end


__getattr__ = not_offered.attribute_of(__name__)
