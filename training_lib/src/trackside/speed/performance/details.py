"""The profiles of a run's windows (`profiling/windows.py`): the operators and the functions of a few steps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.contracts.run.profiling_request import OUTSIDE
from trackside.records.machine.function_times import FUNCTIONS, FunctionTime, decode_functions
from trackside.records.untrusted_json import MOST_JSON_BYTES
from trackside.speed.performance.timelines import PREFIX, TimelineFile, read_timeline, timeline_files
from trackside.speed.performance.trace_events import TimelineEvent
from trackside.storage.store import Store

OPERATORS, PYTHON = "operators", "functions"
MOST_ROWS = 50
_TRACE = re.compile(r".*/(?P<worker>[^/.]+)\.(?P<first>\d+)-(?P<last>\d+)\.(pt|tf|mx)\.trace\.json\.gz")
_FUNCTIONS = re.compile(
    r".*/(?P<worker>[^/]+)/train-(?P<first>\d+)-stepstart-[\d.]+_train-(?P<last>\d+)-stepend-[\d.]+/functions\.json"
)
_OF_THE_PROFILER = ("Trace", "PyTorch Profiler", "Record Window End")
_CLOCK_MICROSECONDS = 0.002  # profilers count nanoseconds; a number of microseconds since a year ago rounds them


@dataclass(frozen=True)
class TimeRow:
    """An operator, a kernel or a function of a window, with its times in seconds over all of its steps.

    Attributes:
        name: Its name.
        place: The first line of a function: "train.py:7"; "" otherwise.
        calls: Number of calls.
        self_seconds: Time within it, without those that it calls.
        total_seconds: Time from its calls to their ends.
        is_on_device: It is a kernel, or a copy of a device.
    """

    name: str
    place: str
    calls: int
    self_seconds: float
    total_seconds: float
    is_on_device: bool = False


@dataclass(frozen=True)
class Detail:
    """The newest profile of one kind and worker.

    Attributes:
        kind: `OPERATORS` or `PYTHON`.
        worker: Name of the worker.
        first_step: Its first step.
        last_step: Its last step.
        rows: The longest, by their own time.
        file: A file of it, for other tools.
    """

    kind: str
    worker: str
    first_step: int
    last_step: int
    rows: tuple[TimeRow, ...]
    file: str


def read_details(store: Store) -> list[Detail]:
    """Return the newest profile of each kind and worker. A damaged one is left out.

    Args:
        store: The store of the run's profiles.

    Raises:
        StorageError: It failed.
    """
    keys = list(store.list(PREFIX))
    found = [*_operators(store, keys), *_functions(store, keys)]
    return sorted(found, key=lambda one: (one.worker, one.kind != OPERATORS))


def _operators(store: Store, keys: Sequence[str]) -> Iterable[Detail]:
    newest: dict[str, tuple[int, int, TimelineFile]] = {}
    for file in timeline_files(keys):
        if match := _TRACE.fullmatch(file.key):
            one = int(match["first"]), int(match["last"]), file
            newest[match["worker"]] = max(newest.get(match["worker"], one), one, key=lambda each: each[:2])
    for worker, (first, last, file) in newest.items():
        try:
            rows = operator_rows(read_timeline(store, file))
        except (RecordError, KeyNotFoundError):
            continue
        yield Detail(OPERATORS, worker, first, last, tuple(rows[:MOST_ROWS]), file.key)


def operator_rows(events: Iterable[TimelineEvent]) -> list[TimeRow]:
    """Return the operators and kernels of a timeline, the longest first.

    Args:
        events: Events of PyTorch's, TensorFlow's or MXNet's profiler. On each thread they lie within each other.
    """
    calls: dict[tuple[str, bool], int] = defaultdict(int)
    own: dict[tuple[str, bool], float] = defaultdict(float)
    total: dict[tuple[str, bool], float] = defaultdict(float)
    by_thread: dict[tuple[Any, Any], list[TimelineEvent]] = defaultdict(list)
    for event in events:
        if not event.name.startswith(_OF_THE_PROFILER):
            by_thread[str(event.group), str(event.thread)].append(event)
    for one_thread in by_thread.values():
        open_ones: list[tuple[float, tuple[str, bool]]] = []  # the end of each event around the next one, and its key
        for event in sorted(one_thread, key=lambda one: (one.file_start, -one.duration)):
            while open_ones and open_ones[-1][0] <= event.file_start + _CLOCK_MICROSECONDS:
                open_ones.pop()
            key = event.name, "stream" in (event.arguments or {})
            calls[key] += (
                not open_ones or open_ones[-1][1] != key
            )  # an operator may pass itself on to another of its forms
            own[key] += event.duration
            if not any(around == key for _, around in open_ones):
                total[key] += event.duration
            if open_ones:
                own[open_ones[-1][1]] -= event.duration
            open_ones.append((event.file_start + event.duration, key))
    rows = [TimeRow(key[0], "", calls[key], 1e-6 * max(0.0, own[key]), 1e-6 * total[key], key[1]) for key in calls]
    return sorted(rows, key=lambda row: -row.self_seconds)


def _functions(store: Store, keys: Iterable[str]) -> Iterable[Detail]:
    by_worker: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for key in keys:
        if match := _FUNCTIONS.fullmatch(key):
            by_worker[match["worker"]].append((int(match["first"]), int(match["last"]), key))
    for worker, files in by_worker.items():
        window = _newest_window(sorted(files))
        found: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for _, _, key in window:
            try:
                functions = decode_functions(store.get(key, length=MOST_JSON_BYTES + 1), key=key)
            except (RecordError, KeyNotFoundError):
                continue
            for one in functions:
                times = found[one.name, _place(one)]
                for number, value in enumerate((one.calls, one.self_seconds, one.total_seconds)):
                    times[number] += value
        rows = [TimeRow(name, place, int(times[0]), times[1], times[2]) for (name, place), times in found.items()]
        rows.sort(key=lambda row: -row.self_seconds)
        name = worker.replace("-", "_")
        folder = window[-1][2].removesuffix(FUNCTIONS)
        file = "stacks.txt" if f"/{OUTSIDE}/" in folder else "python_stats"
        yield Detail(PYTHON, name, window[0][0], window[-1][1], tuple(rows[:MOST_ROWS]), f"{folder}{file}")


def _place(function: FunctionTime) -> str:
    """Return the end of a function's path, and its line."""
    parts = function.file.replace("\\", "/").split("/")
    kept = parts[-2:] if parts[-1] == "__init__.py" else parts[-1:]
    return f"{'/'.join(kept)}:{function.line}" if function.line else ""


def _newest_window(files: Sequence[tuple[int, int, str]]) -> Sequence[tuple[int, int, str]]:
    """Return the files of the last steps without a gap."""
    first = len(files) - 1
    while first and files[first - 1][1] + 1 == files[first][0]:
        first -= 1
    return files[first:]
