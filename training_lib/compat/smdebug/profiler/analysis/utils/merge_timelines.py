"""One timeline of all nodes and sources of a run, on one clock, with what the rules found."""

from __future__ import annotations

import json
import os
import re
import socket
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from enum import Enum
from types import MappingProxyType
from typing import Any

from smdebug import not_offered
from smdebug.profiler.algorithm_metrics_reader import (
    AlgorithmMetricsReader,
    LocalAlgorithmMetricsReader,
    S3AlgorithmMetricsReader,
)
from smdebug.profiler.profiler_constants import MERGEDTIMELINE_SUFFIX, PYTHONTIMELINE_SUFFIX
from smdebug.profiler.system_metrics_reader import LocalSystemMetricsReader, S3SystemMetricsReader
from smdebug.profiler.system_profiler_file_parser import ProfilerSystemEvent
from smdebug.profiler.trace_event_file_parser import TraceEvent
from trackside.contracts.errors import RecordError, RunNotFoundError
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run_layout import PROFILES
from trackside.runs.recorded_run import read_run
from trackside.speed.performance.clocks import clock_offsets
from trackside.speed.performance.reading import machines_of
from trackside.storage.open_store import open_store

LOW_GPU = 85  # percent, below which the original marks a moment
NEAR_MICROSECONDS = 20_000  # samples of one moment
_SAMPLES, _MARKS, _FINDINGS = "sys_metrics", "sys_metrics_bottlenecks", "findings"
_TRAIN = "Step:ModeKeys.TRAIN"
_JOB_MACHINE = re.compile(r"algo-\d+")
_WHOLE = (0, 1 << 62)  # microseconds
_OTHERS = 1_000_000
# The number of a phase's first group, by what its name holds.
_GROUPS = {
    "Step:": 1,
    "Forward": 10_000,
    "Backward": 20_000,
    "DataIterator": 30_000,
    "Dataset": 40_000,
    "/device": 50_000,
    "/host": 60_000,
    "gpu_functions": 70_000,
    "cpu_functions": 80_000,
    "Horovod": 90_000,
    "": _OTHERS,
}


class MergeUnit(Enum):
    """The unit of a range: microseconds since the epoch, or steps."""

    TIME = "time"
    STEP = "step"


class MergedTimeline:
    """One timeline of all nodes and sources of a run, for Perfetto and chrome://tracing.

    Where machines' clocks differ, all events and samples are on that of the first one. Issues that Trackside's rules
    found in the run are marks at the ends of their steps.

    Args:
        path: The run's profiles: a folder or an s3:// prefix.
        file_suffix_filter: Only events of files whose name ends with one of these; None for all.
        output_directory: The place of the merged timeline; None for `path`.
    """

    def __init__(
        self, path: str, file_suffix_filter: Sequence[str] | None = None, output_directory: str | None = None
    ) -> None:
        self.path, self.file_suffix_filter = path, file_suffix_filter
        self.out_dir = path if output_directory is None else output_directory
        is_remote = path.startswith("s3")
        self.framework_metrics_reader: AlgorithmMetricsReader = (
            S3AlgorithmMetricsReader(path) if is_remote else LocalAlgorithmMetricsReader(path)
        )
        self._samples = S3SystemMetricsReader(path) if is_remote else LocalSystemMetricsReader(path)

    def file_name(self, end_timestamp_in_us: float) -> str:
        """Return the name of the timeline that ends at this moment."""
        node = f"{os.getpid()}-{socket.gethostname()}".replace("_", "-")  # names are split at `_`
        return os.path.join(self.out_dir, f"{round(end_timestamp_in_us)}_{node}_{MERGEDTIMELINE_SUFFIX}")

    def merge_timeline(
        self,
        start: float,
        end: float,
        unit: MergeUnit | str = MergeUnit.TIME,
        sys_metrics_filter: Mapping[str, Any] | None = MappingProxyType({"lowgpu": ()}),
    ) -> str:
        """Store the merged timeline of a range, whole or not at all, and return its name.

        Args:
            start: Its begin.
            end: Its end.
            unit: The unit of both.
            sys_metrics_filter: None or `{}` leaves the samples of the machines out.

        Raises:
            StorageError: The run cannot be read, or the timeline cannot be stored.
        """
        if MergeUnit(unit) is MergeUnit.STEP:
            start, end = self.framework_metrics_reader.time_of_steps(int(start), int(end))
        steps = self._steps()
        ahead = _ahead(steps, self._machines())
        most = max((abs(offset) for offset in ahead.values()), default=0.0)
        found = self.framework_metrics_reader.get_events(
            start - most, end + most, file_suffix_filter=self.file_suffix_filter
        )
        events = [_moved(event, ahead.get(_machine(event.node_id), 0.0)) for event in found]
        samples = self._samples.get_events(start - most, end + most) if sys_metrics_filter else []
        marks = _of_findings(self._findings(), steps, ahead)
        all_events = [
            event
            for event in (*events, *_of_machines(samples, ahead), *marks)
            if event.start_time <= end and event.end_time >= start
        ]
        lines = list(_lines(sorted(all_events, key=lambda event: event.start_time)))
        name = self.file_name(end)
        open_store(self.out_dir).put(os.path.basename(name), ("[\n" + ",\n".join(lines) + "\n]").encode())
        return name

    def _steps(self) -> dict[str, dict[int, float]]:
        """Return the end of each training step by node, in microseconds by the node's own clock."""
        steps: dict[str, dict[int, float]] = {}
        for event in self.framework_metrics_reader.get_events(*_WHOLE, file_suffix_filter=[PYTHONTIMELINE_SUFFIX]):
            number = (event.event_args or {}).get("step_num")
            if event.event_phase == _TRAIN and number is not None:
                steps.setdefault(event.node_id, {})[int(number)] = event.end_time
        return steps

    def _machines(self) -> dict[str, str]:
        """Return the machine of each worker, as Trackside's capture noted it."""
        found = machines_of(open_store(self.path))
        return {worker.replace("_", "-"): machine for worker, machine in found.items()}

    def _findings(self) -> list[IssueGroup]:
        """Return the issues that the rules found in the run that the profiles belong to."""
        run, _, last = self.path.rstrip("/").rpartition("/")
        if last != PROFILES:
            return []
        try:
            return list(read_run(run).groups)
        except (RecordError, RunNotFoundError):
            return []


def _ahead(steps: Mapping[str, Mapping[int, float]], machines: Mapping[str, str]) -> dict[str, float]:
    """Return the microseconds by which the clock of each machine is ahead of the first one's; 0 where unknown."""
    of_node = {node: machines.get(node) or _machine(node) for node in steps}
    offsets = clock_offsets(steps, of_node)
    by_machine = {of_node[node]: offset for node, offset in offsets.items()}
    return by_machine | {_machine(node): offset for node, offset in offsets.items()}


def _machine(node: Any) -> str:
    """Return the machine in the name of a node: `algo-1` of `algo-1-11`, else the whole name."""
    match = _JOB_MACHINE.search(str(node))
    return match[0] if match else str(node)


def _moved(event: TraceEvent, ahead: float) -> TraceEvent:
    if ahead:
        event = copy(event)  # the reader may keep its own
        event.start_time -= ahead
        event.end_time -= ahead
    return event


def _of_findings(
    groups: Sequence[IssueGroup], steps: Mapping[str, Mapping[int, float]], ahead: Mapping[str, float]
) -> Iterator[TraceEvent]:
    """Yield a mark for each issue at the end of its step, on all tracks."""
    for group in groups:
        lead = group.lead
        ends = [
            of_node[lead.step] - ahead.get(_machine(node), 0.0)
            for node, of_node in steps.items()
            if lead.step in of_node
        ]
        if ends:
            facts = {"s": "g", "message": lead.message, "step": lead.step, "severity": group.severity.value}
            yield _event(round(max(ends)), _FINDINGS, "i", lead.configuration_name, facts)


def _of_machines(found: Sequence[ProfilerSystemEvent], ahead: Mapping[str, float]) -> Iterator[TraceEvent]:
    """Yield a counter a sample, and a mark with all samples of a moment in which a GPU had little to do."""

    def moment_of(sample: ProfilerSystemEvent) -> int:
        return round(sample.timestamp * 1e6 - ahead.get(_machine(sample.node_id), 0.0))

    samples = sorted(found, key=moment_of)
    moments = list(map(moment_of, samples))
    marked = -NEAR_MICROSECONDS
    for sample, moment in zip(samples, moments, strict=True):
        yield _event(moment, _SAMPLES, "C", _name(sample), {"value": sample.value})
        is_low = sample.dimension == "GPUUtilization" and sample.value < LOW_GPU
        if is_low and moment - marked >= NEAR_MICROSECONDS:
            marked = moment
            first = bisect_left(moments, moment - NEAR_MICROSECONDS)
            last = bisect_right(moments, moment + NEAR_MICROSECONDS)
            near = {_name(each): each.value for each in samples[first:last]}
            yield _event(moment, _MARKS, "i", _MARKS, {"s": "g", **near})


def _name(sample: ProfilerSystemEvent) -> str:
    return "_".join(part for part in (sample.name, sample.dimension, sample.node_id) if part)


def _event(moment: int, group: str, kind: str, name: str, facts: dict[str, Any]) -> TraceEvent:
    return TraceEvent(moment, name, 0, 0, 0, facts, 0, kind, "system_metrics", event_phase=group)


def _lines(events: Sequence[TraceEvent]) -> Iterator[str]:
    """Yield the lines of the merged timeline: each group and thread is named where it first occurs."""
    groups: dict[str, int] = {}
    following = dict(_GROUPS)
    threads: set[tuple[int, Any]] = set()
    for event in events:
        if event.event_phase not in groups:
            kind = next(kind for kind in _GROUPS if kind in event.event_phase)
            group = groups[event.event_phase] = following[kind]
            following[kind] += 1
            yield _named("process_name", group, {"name": event.event_phase})
            yield _named("process_sort_index", group, {"sort_index": group})
        group = groups[event.event_phase]
        thread = event.phase_tid
        if event.process_info is not None and (group, thread) not in threads:
            threads.add((group, thread))
            name = event.process_info.get_thread_info(thread).thread_name
            yield _named("thread_name", group, {"name": name}, tid=thread)
        document = {**json.loads(event.to_json()), "cat": event.event_phase or "other", "pid": group, "tid": thread}
        yield json.dumps(document)


def _named(what: str, group: int, facts: dict[str, Any], **more: Any) -> str:
    return json.dumps({"name": what, "ph": "M", "pid": group, **more, "args": facts})


__getattr__ = not_offered.attribute_of(__name__)
