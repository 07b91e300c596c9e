"""Read timelines in the Chrome trace-event format: ours, those of SageMaker Debugger, and those of its frameworks.

A file is an array of events, or an object that holds it as `traceEvents`. An array may lack its end, as the format
allows: a process that was killed leaves one behind.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trackside.contracts.errors import RecordError

MOST_BYTES = 256 << 20  # of one timeline, unpacked; the original closes its own at 10 MB
UNKNOWN = "Unknown"
_PROCESS_OF_A_NODE = re.compile(r"(?P<process>.*)-(?P<node>algo.*)", re.DOTALL)


class TimelineEvent(NamedTuple):
    """An event with a duration.

    Attributes:
        name: Its name.
        phase: Name of its group: `Step:ModeKeys.TRAIN`.
        start: Microseconds since the epoch.
        duration: Microseconds.
        group: Number of its group in its file.
        thread: Number of its thread; one that follows from its node and group if the file has none.
        thread_name: Name of its thread.
        arguments: Further facts; None for none.
        node: Name of its machine or process.
        file_start: Start as its file counts it, in microseconds; exact, where `start` is rounded to a quarter of one.
    """

    name: str
    phase: str
    start: float
    duration: float
    group: Any
    thread: Any
    thread_name: str
    arguments: Mapping[str, Any] | None
    node: str
    file_start: float


def decode_trace(data: bytes, *, key: str, node: str = "", base: int = 0) -> Iterator[TimelineEvent]:
    """Yield the events of a file, in its order. An event of two halves stands where it ends.

    Args:
        data: The content, plain or compressed with gzip.
        key: The key, for errors.
        node: Name of the machine or process that wrote it.
        base: The moment that its times count from, in microseconds since the epoch, if the file has none.

    Raises:
        RecordError: It is no timeline, or one of its events lacks what every event has.
    """
    match = _PROCESS_OF_A_NODE.fullmatch(node)
    reader = _Reader(f"{match['node']}-{match['process']}" if match else node, base)
    document = _document(data, key=key)
    if isinstance(document, dict):  # PyTorch's profiler counts from a moment of its own
        reader.base = base or int(document.get("baseTimeNanoseconds") or 0) // 1000
        document = document.get("traceEvents")
    if not isinstance(document, list):
        raise RecordError(key, 0, "is no timeline: it holds no array of events")
    for number, event in enumerate(document):
        try:
            found = reader.read(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"has an event that cannot be read, number {number}: {type(error).__name__} {error}"
            raise RecordError(key, 0, what) from error
        if found is not None:
            yield found


def _document(data: bytes, *, key: str) -> Any:
    try:
        text = _plain(data).decode("utf-8").strip()
        if text.startswith("[") and not text.endswith("]"):
            text = text.rstrip(",") + "]"
        return json.loads(text)
    except (ValueError, RecursionError, zlib.error) as error:
        raise RecordError(key, 0, f"is no timeline: {type(error).__name__}") from error


def _plain(data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
    plain = unpacking.decompress(data, MOST_BYTES)
    if unpacking.unconsumed_tail:
        raise ValueError("too large")
    return plain


@dataclass
class _Reader:
    """The state of one file: names of groups and threads, and the events that have begun.

    node  name of the machine or process
    base  the moment that times count from
    """

    node: str
    base: int
    groups: dict[Any, str] = field(default_factory=dict)
    threads: dict[tuple[Any, Any], str] = field(default_factory=dict)
    begun: dict[Any, list[dict[str, Any]]] = field(default_factory=dict)

    def read(self, event: Any) -> TimelineEvent | None:
        """Return the event that ends here; None for every other line."""
        match event.get("ph"):
            case "M":
                self._note(event)
            case "X":
                return self._event(event, event["ts"], event["dur"], event.get("args"))
            case "B":
                self.begun.setdefault(event["pid"], []).append(event)
            case "E":
                return self._ended(event)
        return None

    def _note(self, event: dict[str, Any]) -> None:
        facts = event.get("args") or {}
        if event["name"] == "process_name":
            self.groups[event["pid"]] = str(facts.get("name", UNKNOWN))
        elif event["name"] == "thread_name":
            self.threads[event["pid"], event["tid"]] = f"{self.node}_{facts['name']}"
        elif event["name"] == "thread_sort_index":
            self.threads.setdefault((event["pid"], event["tid"]), UNKNOWN)
        if "start_time_since_epoch_in_micros" in facts:
            self.base = int(facts["start_time_since_epoch_in_micros"])

    def _ended(self, end: dict[str, Any]) -> TimelineEvent | None:
        """Return the event that ends here: the last one begun on its thread. None for an end without a beginning."""
        open_ones = self.begun.get(end["pid"], [])
        for place in range(len(open_ones) - 1, -1, -1):
            if "tid" not in end or open_ones[place].get("tid", end["tid"]) == end["tid"]:
                begin = open_ones.pop(place)
                facts = {**(begin.get("args") or {}), **(end.get("args") or {})}
                duration = end["ts"] - begin["ts"]
                return self._event(begin, begin["ts"], duration, facts or None) if duration >= 0 else None
        return None

    def _event(
        self, event: dict[str, Any], start: float, duration: float, arguments: dict[str, Any] | None
    ) -> TimelineEvent:
        if not (math.isfinite(start) and math.isfinite(duration)):
            raise ValueError("a time that is not finite")
        if not isinstance(arguments, (dict, type(None))):
            raise TypeError("arguments that are no object")
        group = event["pid"]
        phase = self.groups.get(group, UNKNOWN)
        thread = event.get("tid", 0)
        thread_name = self.threads.get((group, thread)) if "tid" in event else None
        if thread_name is None:
            thread_name = f"{self.node}_{thread}"
            thread = zlib.crc32(f"{thread_name}{phase}".encode())
        name = str(event["name"])
        return TimelineEvent(
            name, phase, start + self.base, duration, group, thread, thread_name, arguments, self.node, start
        )
