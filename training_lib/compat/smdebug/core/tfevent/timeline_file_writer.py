"""Timelines: events that a script writes, in files for the readers of profiles, Perfetto and chrome://tracing."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from typing import IO, TYPE_CHECKING, Any

from smdebug import not_offered
from smdebug.core.access_layer.file import SMDEBUG_TEMP_PATH_SUFFIX
from smdebug.core.locations import TraceFileLocation
from smdebug.core.logger import get_logger
from smdebug.core.utils import ensure_dir, get_node_id
from smdebug.profiler.profiler_constants import CONVERT_TO_MICROSECS, PYTHONTIMELINE_SUFFIX

if TYPE_CHECKING:
    from smdebug.profiler.profiler_config_parser import ProfilerConfigParser


class TimelineRecord:
    """An event.

    Args:
        timestamp: Its start, in seconds since the epoch.
        base_start_time: The moment that times in the file count from, in microseconds since the epoch.
        training_phase: The group of the event: `Step:ModeKeys.TRAIN`.
        phase: Its kind: X, B, E, i.
        operator_name: Its name.
        args: Further facts; of an instant event `s` is its scope.
        duration: Its duration in microseconds; None: until now.
    """

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        timestamp: float,
        base_start_time: int,
        training_phase: str = "",
        phase: str = "X",
        operator_name: str = "",
        args: dict[str, Any] | None = None,
        duration: int | None = 0,
    ) -> None:
        start = int(timestamp * CONVERT_TO_MICROSECS)
        self.training_phase, self.phase, self.op_name = training_phase, phase, operator_name
        self.args = dict(args or {})
        self.base_start_time = base_start_time
        self.rel_ts_micros = start - base_start_time
        self.duration = int(time.time() * CONVERT_TO_MICROSECS) - start if duration is None else duration
        self.event_end_ts_micros = start + self.duration
        self.pid = 0

    def to_json(self) -> str:
        """Return the event in the words of the format."""
        facts = dict(self.args)
        event = {"name": self.op_name, "pid": self.pid, "ph": self.phase, "ts": self.rel_ts_micros}
        if self.phase == "i":
            event["s"] = facts.pop("s", "t")
        elif self.phase == "X":
            event["dur"] = self.duration
        if facts:
            event["args"] = facts
        return json.dumps(event)


class TimelineFileWriter:
    """Writes events in a thread of its own. Nothing is written while the profiler is off.

    Args:
        profiler_config_parser: The configuration: the folder, and when files are closed.
        max_queue: Number of events that may wait.
        suffix: End of the files' names, which says what wrote them.
    """

    def __init__(
        self,
        profiler_config_parser: ProfilerConfigParser,
        max_queue: int = 100,
        suffix: str = PYTHONTIMELINE_SUFFIX,
    ) -> None:
        self.start_time_since_epoch_in_micros = round(time.time() * CONVERT_TO_MICROSECS)
        self._parser = profiler_config_parser
        self._waiting: queue.Queue[TimelineRecord | None] = queue.Queue(max_queue)
        self._worker = _Worker(self._waiting, profiler_config_parser, suffix)
        self._worker.start()

    def write_trace_events(
        self,
        timestamp: float,
        training_phase: str = "",
        op_name: str = "",
        phase: str = "X",
        duration: float = 0,
        **kwargs: Any,
    ) -> None:
        """Add an event. `timestamp` and `duration` are in seconds."""
        if self._worker._healthy and self._worker.is_alive() and self._parser.profiling_enabled:
            length = int(duration * CONVERT_TO_MICROSECS)
            base = self.start_time_since_epoch_in_micros
            self.write_event(TimelineRecord(timestamp, base, training_phase, phase, op_name, kwargs, length))

    def write_event(self, event: TimelineRecord) -> None:
        """Add an event that was made."""
        self._waiting.put(event)

    def flush(self) -> None:
        """Wait until all events are written."""
        self._waiting.join()

    def close(self) -> None:
        """Write what waits, and close the file. A second call does nothing."""
        if self._worker.is_alive():
            self._waiting.put(None)
            self._worker.join()

    def count_from(self, moment: int) -> None:
        """Let times of the files that follow count from this moment, in microseconds since the epoch."""
        self.start_time_since_epoch_in_micros = moment


class _Worker(threading.Thread):
    """The thread that writes, and the file that is open."""

    def __init__(self, waiting: queue.Queue[TimelineRecord | None], parser: ProfilerConfigParser, suffix: str) -> None:
        super().__init__(daemon=True)
        self._waiting, self._parser, self._suffix = waiting, parser, suffix
        self._healthy = True
        self._failures = 0
        self._file: IO[str] | None = None
        self._path = ""
        self._size = 0  # characters
        self._closed_at = time.time()
        self._newest_end = 0  # of the events in the file, in microseconds
        self._numbers: dict[str, int] = {}  # of training phases, the same in all files
        self._named: set[str] = set()  # in this file

    def run(self) -> None:
        """Write events until None arrives."""
        while True:
            try:
                event = self._waiting.get(timeout=1.0)
            except queue.Empty:
                self._close_if_due(time.time() * CONVERT_TO_MICROSECS)
                continue
            try:
                if event is None:
                    self._close()
                    return
                self._write(event)
            except OSError as error:
                self._fail(error)
            finally:
                self._waiting.task_done()

    def _write(self, event: TimelineRecord) -> None:
        config = self._parser.config
        if config is None or not self._healthy:
            return
        self._close_if_due(event.event_end_ts_micros)
        if self._file is None:
            self._path = os.path.join(
                config.local_path, "framework", f"{get_node_id()}_{self._suffix}{SMDEBUG_TEMP_PATH_SUFFIX}"
            )
            ensure_dir(self._path)
            self._file = open(self._path, "w", encoding="utf-8")  # noqa: SIM115 - it stays open
            self._size, self._named, self._failures, self._newest_end = 0, set(), 0, 0
            start = {"start_time_since_epoch_in_micros": event.base_start_time}
            self._line(_named("process_name", 0, start), first=True)
            self._line(_named("process_sort_index", 0, {"sort_index": 0}))
        number = self._numbers.setdefault(event.training_phase, len(self._numbers) + 1)  # 0 names the file
        if event.training_phase not in self._named:
            self._named.add(event.training_phase)
            self._line(_named("process_name", number, {"name": event.training_phase}))
            self._line(_named("process_sort_index", number, {"sort_index": number}))
        event.pid = number
        self._line(event.to_json())
        self._file.flush()
        self._newest_end = max(self._newest_end, event.event_end_ts_micros)

    def _line(self, text: str, *, first: bool = False) -> None:
        if self._file is not None:
            self._size += self._file.write(("[\n" if first else ",\n") + text)

    def _close_if_due(self, now: float) -> None:
        config = self._parser.config
        if self._file is None or config is None:
            return
        policy = config.trace_file.rotation_policy
        is_old = now / CONVERT_TO_MICROSECS - self._closed_at > policy.file_close_interval
        if is_old or self._size > policy.file_max_size:
            self._close()

    def _close(self) -> None:
        """Close the file, and give it the name that readers look for."""
        file, self._file = self._file, None
        config = self._parser.config
        if file is None:
            return
        with file:
            file.write("\n]")
        self._closed_at = time.time()
        if config is not None:
            path = TraceFileLocation.get_file_location(self._newest_end, config.local_path, self._suffix)
            ensure_dir(path)
            os.replace(self._path, path)

    def _fail(self, error: OSError) -> None:
        self._failures += 1
        config = self._parser.config
        if config is not None and self._failures >= config.trace_file.file_open_fail_threshold:
            self._healthy = False
            get_logger().warning("No timeline can be written, and none is tried any more: %s", error)


def _named(what: str, number: int, facts: dict[str, Any]) -> str:
    return json.dumps({"name": what, "ph": "M", "pid": number, "args": facts})


__getattr__ = not_offered.attribute_of(__name__)
