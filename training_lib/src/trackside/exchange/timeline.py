"""A run's timeline: steps, their phases, the machine's metrics and findings, on one clock.

    <folder>/framework/pevents/<hour>/<end>_<worker>_pythontimeline.json    as SageMaker Debugger stored it
    <folder>/system/incremental/<hour>/<second>.<machine>.json              the machine's samples, as it stored them
    <folder>/<run>.timeline.json                                            all of it, for ui.perfetto.dev

A step has its measured start and end, on the clock of the first worker's machine where those differ. Its phases have
measured durations; their order within it is that of an ordinary step, for a phase may occur several times in one.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trackside.contracts.errors import ConfigurationError, Problem, StorageError
from trackside.contracts.run_layout import RunLocation
from trackside.exchange.machine_files import export_machine_samples
from trackside.exchange.statistic_tables import file_name
from trackside.exchange.trace_file import TraceSpan, encode_timeline, encode_trace, timeline_key
from trackside.speed.performance.clocks import clock_offsets
from trackside.speed.performance.measured import CAPTURE, EVALUATION
from trackside.speed.performance.profile import Profile, StepDurations
from trackside.speed.performance.reading import machines_of
from trackside.storage.open_store import open_store
from trackside.trial.facts.run_profile import MachineMetric
from trackside.trial.steps.selection import StepRange
from trackside.trial.trial import Trial

STEP = "Step:ModeKeys.TRAIN"
BEFORE, AFTER = (EVALUATION, "data"), ("backward", "optimizer", CAPTURE)  # around the rest of the step
ORIGINAL_NAMES: Mapping[str, str] = {
    "data": "DataLoaderIter::GetNext",
    "rest": "Forward",
    "backward": "Backward(post-forward)",
    "optimizer": "Optimizer",
    CAPTURE: "Trackside",
    EVALUATION: "Step:ModeKeys.EVAL",
}
REST = "rest"
ALL_STEPS = StepRange()
STEPS_TRACK, PHASES_TRACK = 1, 2  # thread numbers in the merged trace
_MACHINES = 1_000_000  # process numbers of machines in the merged trace


@dataclass(frozen=True)
class FindingMark:
    """A finding, as a mark in the timeline.

    Attributes:
        rule: Name of the rule.
        message: One sentence.
        step: Its step.
        severity: `warning`.
    """

    rule: str
    message: str
    step: int
    severity: str


@dataclass(frozen=True)
class Part:
    """The part of a run that is written.

    Attributes:
        steps: Its steps.
        since: Seconds after the run's first step, from which steps are written.
        until: Seconds after the run's first step, to which steps are written.
    """

    steps: StepRange = ALL_STEPS
    since: float = 0.0
    until: float = math.inf


WHOLE = Part()


@dataclass(frozen=True)
class TimelineExport:
    """The result of an export.

    Attributes:
        merged: The file for Perfetto.
        files: The files of the original's form, one a worker.
        steps: Number of steps in them.
        samples: Number of samples of the machines.
        findings: Number of marks.
    """

    merged: Path
    files: tuple[Path, ...]
    steps: int
    samples: int
    findings: int


def export_timeline(
    uri: str, trial: Trial, folder: str | os.PathLike[str], *, findings: Sequence[FindingMark] = (), part: Part = WHOLE
) -> TimelineExport:
    """Write the timeline of a run, and replace an earlier one of the same part.

    Args:
        uri: The location of the run.
        trial: The same run.
        folder: The folder for the files; a run's `profiler-output` will do.
        findings: Marks at their steps.
        part: The part of the run.

    Raises:
        ConfigurationError: The run has no timed step in that part.
        StorageError: The run cannot be read, or the folder cannot be written to.
    """
    profile = Profile(uri, trial)
    ends = {worker: dict(zip(steps.tolist(), times.tolist(), strict=True)) for worker, (steps, times) in _ends(trial)}
    ahead = clock_offsets(ends, machines_of(open_store(RunLocation(uri).profiles)))
    ends = {worker: {step: end - ahead[worker] for step, end in found.items()} for worker, found in ends.items()}
    workers = [_Worker(each, ends.get(each.worker, {}), part) for each in profile.steps()]
    workers = [worker for worker in workers if worker.rows]
    if not workers:
        problem = Problem("RUN", "It has no timed step in that part.", "trackside profile RUN")
        raise ConfigurationError([problem], subject="The timeline")
    start = min(worker.rows[0].start for worker in workers)
    end = max(worker.rows[-1].start + worker.rows[-1].seconds for worker in workers)
    name = RunLocation(uri).name
    metrics = [metric for metric in profile.metrics() if len(metric.times)]
    files = []
    for worker in workers:
        last = worker.rows[-1].start + worker.rows[-1].seconds
        path = Path(folder) / timeline_key(last, node=worker.name)
        _write(path, encode_timeline(worker.spans(), base=worker.rows[0].start))
        files.append(path)
    export_machine_samples(open_store(RunLocation(uri).profiles), folder)
    merged = Path(folder) / f"{file_name(name)}.timeline.json"
    counters = list(_counters(metrics, start=start, end=end))
    marks = list(_marks(findings, workers, start=start))
    events = [*_names(workers, metrics), *(e for worker in workers for e in worker.events(start)), *counters, *marks]
    about = {"run": name, "start_time_since_epoch_in_micros": round(start * 1e6), "written_by": "trackside"}
    _write(merged, encode_trace(events, about=about))
    return TimelineExport(merged, tuple(files), sum(len(w.rows) for w in workers), len(counters), len(marks))


@dataclass(frozen=True)
class _Step:
    number: int
    start: float
    seconds: float
    phases: tuple[tuple[str, float], ...]
    batches_ready: float  # NaN without workers of a DataLoader


class _Worker:
    """The steps of one worker in the part that is written, in the order of time."""

    def __init__(self, durations: StepDurations, ends: Mapping[int, float], part: Part) -> None:
        self.name = durations.worker
        first_end, newest = min(ends.values(), default=0.0), -math.inf
        self.rows: list[_Step] = []
        for place, step in enumerate(durations.steps.tolist()):
            end, seconds = ends.get(step), float(durations.seconds[place])
            if end is None or step not in part.steps or not part.since <= end - first_end <= part.until:
                continue
            phases = {name: float(values[place]) for name, values in durations.phases.items()}
            measured = {name: value for name, value in phases.items() if value > 0}  # NaN is none
            # The two clocks differ by a little, and events of one track must not overlap.
            began = max(end - seconds, newest)
            phases_of_step = tuple(_ordered(measured, seconds, end - began))
            self.rows.append(_Step(step, began, end - began, phases_of_step, float(durations.batches_ready[place])))
            newest = end

    def spans(self) -> Iterator[TraceSpan]:
        """Yield steps and phases in the original's words."""
        for row in self.rows:
            step = {"step_num": str(row.number), "pid": self.name}
            yield TraceSpan(STEP, STEP, row.start, row.seconds, step)
            at = row.start
            for name, seconds in row.phases:
                yield TraceSpan(ORIGINAL_NAMES[name], ORIGINAL_NAMES[name], at, seconds, step)
                at += seconds

    def events(self, start: float) -> Iterator[dict[str, Any]]:
        """Yield steps and phases as events of the merged trace."""
        pid = _number(self.name)
        for row in self.rows:
            at = row.start - start
            track = {"pid": pid, "tid": STEPS_TRACK, "args": {"step": row.number}}
            yield _complete(f"step {row.number}", "step", at, row.seconds, track)
            if math.isfinite(row.batches_ready):
                value = {"value": row.batches_ready}
                yield {"name": "batches ready", "ph": "C", "pid": pid, "ts": round(at * 1e6, 3), "args": value}
            for name, seconds in row.phases:
                yield _complete(name, "phase", at, seconds, {**track, "tid": PHASES_TRACK})
                at += seconds


def _ordered(phases: Mapping[str, float], seconds: float, most: float) -> Iterator[tuple[str, float]]:
    """Yield the phases of a step with their seconds, `most` of all together, in the order of an ordinary step."""
    rest = max(0.0, seconds - sum(phases.values()))
    for name, length in [
        *((name, phases.get(name, 0.0)) for name in BEFORE),
        (REST, rest),
        *((name, phases.get(name, 0.0)) for name in AFTER),
    ]:
        shown = min(length, most)
        if shown > 0:
            most -= shown
            yield name, shown


def _ends(trial: Trial) -> Iterable[tuple[str, tuple[Any, Any]]]:
    return trial.parts.steps.times_by_worker().items()


def _names(workers: Sequence[_Worker], metrics: Sequence[MachineMetric]) -> Iterator[dict[str, Any]]:
    for worker in workers:
        pid = _number(worker.name)
        yield _meta("process_name", pid, 0, worker.name)
        yield _meta("thread_name", pid, STEPS_TRACK, "steps")
        yield _meta("thread_name", pid, PHASES_TRACK, "phases")
    for pid, node in enumerate(sorted({metric.node for metric in metrics}), _MACHINES):
        yield _meta("process_name", pid, 0, f"machine {node}")


def _counters(metrics: Sequence[MachineMetric], *, start: float, end: float) -> Iterator[dict[str, Any]]:
    numbers = {node: pid for pid, node in enumerate(sorted({metric.node for metric in metrics}), _MACHINES)}
    for metric in metrics:
        name = f"{metric.dimension} {metric.name}"
        inside = (metric.times >= start) & (metric.times <= end) & np.isfinite(metric.values)
        for moment, value in zip(metric.times[inside].tolist(), metric.values[inside].tolist(), strict=True):
            yield {
                "name": name, "ph": "C", "pid": numbers[metric.node], "ts": round((moment - start) * 1e6, 3),
                "args": {"value": value},
            }  # fmt: skip


def _marks(findings: Sequence[FindingMark], workers: Sequence[_Worker], *, start: float) -> Iterator[dict[str, Any]]:
    for finding in findings:
        ends = [row.start + row.seconds for worker in workers for row in worker.rows if row.number == finding.step]
        if ends:
            yield {
                "name": finding.rule, "ph": "i", "s": "g", "pid": _number(workers[0].name), "tid": STEPS_TRACK,
                "ts": round((max(ends) - start) * 1e6, 3),
                "args": {"message": finding.message, "step": finding.step, "severity": finding.severity},
            }  # fmt: skip


def _complete(name: str, kind: str, at: float, seconds: float, track: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event with a duration. Its kind is what readers of torch's traces group by, and expect."""
    return {"name": name, "cat": kind, "ph": "X", "ts": round(at * 1e6, 3), "dur": round(seconds * 1e6, 3), **track}


def _meta(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _number(worker: str) -> int:
    """Return the process number of a worker in the merged trace: its rank and 1, for 0 is the idle process."""
    digits = worker.rpartition("_")[2]
    return int(digits) + 1 if digits.isdigit() else 1


def _write(path: Path, parts: Iterable[str]) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(parts)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
