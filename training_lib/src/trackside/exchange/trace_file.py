"""Write timelines in the Chrome trace-event format: in SageMaker Debugger's form, and as one file for Perfetto.

The original's file is a JSON array, one event a line. It begins with the moment that its times count from. Each
training phase (`Step:ModeKeys.TRAIN`) is a process of its own; an event is complete ("X"), with its start and duration
in microseconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

TIMELINE_SUFFIX = "pythontimeline.json"
TIMELINE_PREFIX = "framework/pevents/"


@dataclass(frozen=True)
class TraceSpan:
    """An event with a duration.

    Attributes:
        phase: Its training phase, which groups events: `Step:ModeKeys.TRAIN`.
        name: Its name.
        start: Seconds since the epoch.
        seconds: Its duration in seconds.
        arguments: Further facts.
    """

    phase: str
    name: str
    start: float
    seconds: float
    arguments: Mapping[str, Any] = field(default_factory=dict)


def timeline_key(end: float, *, node: str) -> str:
    """Return the key, below a run's profiles, of a timeline of the original.

    Args:
        end: The end of its last event, in seconds since the epoch.
        node: Name of the machine or process; `_` becomes `-`, for the name is split there.
    """
    hour = time.strftime("%Y%m%d%H", time.gmtime(end))
    return f"{TIMELINE_PREFIX}{hour}/{_microseconds(end)}_{node.replace('_', '-')}_{TIMELINE_SUFFIX}"


def encode_timeline(spans: Iterable[TraceSpan], *, base: float) -> Iterator[str]:
    """Yield the parts of a timeline as the original writes it.

    Args:
        spans: Its events.
        base: The moment that its times count from, in seconds since the epoch.
    """
    yield "[\n" + _line(
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": _microseconds(base)}}
    )
    yield ",\n" + _line({"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}})
    phases: dict[str, int] = {}
    for span in spans:
        if span.phase not in phases:
            number = phases[span.phase] = len(phases) + 1  # 0 names the file
            yield ",\n" + _line({"name": "process_name", "ph": "M", "pid": number, "args": {"name": span.phase}})
            yield ",\n" + _line(
                {"name": "process_sort_index", "ph": "M", "pid": number, "args": {"sort_index": number}}
            )
        yield ",\n" + _line(
            {
                "name": span.name,
                "pid": phases[span.phase],
                "ph": "X",
                "ts": _microseconds(span.start) - _microseconds(base),
                "dur": _microseconds(span.seconds),
                "args": dict(span.arguments),
            }
        )
    yield "\n]\n"


def encode_trace(events: Iterable[Mapping[str, Any]], *, about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of one trace for Perfetto and chrome://tracing.

    Args:
        events: Its events, in the words of the format: `{"ph": "C", "pid": 1, "ts": 0, ...}`.
        about: Facts about the trace.
    """
    yield f'{{"displayTimeUnit":"ms","otherData":{_line(about)},"traceEvents":['
    separator = "\n"
    for event in events:
        yield separator + _line(event)
        separator = ",\n"
    yield "\n]}\n"


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
