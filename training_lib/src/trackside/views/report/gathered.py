"""The content of a report, read from a run: problems, rules, curves, layers over steps, and facts about the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.verdict import Finding
from trackside.runs.live_run import Curve, CurveKind, LiveRun, LiveRunReader
from trackside.runs.recorded_run import RecordedRun, read_run
from trackside.runs.rule_state import RuleStatus
from trackside.runs.run_folder import RunRecord
from trackside.speed.performance.reading import measured_workers
from trackside.speed.performance.verdict import PerformanceVerdict, judged_workers
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.tensors.buckets import Buckets, BucketSums, edges_of
from trackside.trial.trial import Trial
from trackside.views.report.changes import Changes, changes
from trackside.views.report.charts.heatmap import Heatmap
from trackside.views.report.charts.line_chart import MOST_BUCKETS, Span
from trackside.views.report.charts.wall_time import WallTime
from trackside.views.report.distribution import Distribution, distributions
from trackside.views.report.fine_tuning import fine_tuning_curves
from trackside.views.report.incident import Incident, incidents
from trackside.views.report.layers import FIRST_LAYERS, LayerChoice, layer_maps
from trackside.views.report.machine import core_maps, machine_curves
from trackside.views.report.model.labelled import LabelledRun, labelled_run
from trackside.views.report.routing import routing_maps

MOST_LOSSES = 4

_TITLES = {
    CurveKind.LEARNING_RATE: "Learning rate",
    CurveKind.GRADIENT_NORM: "Gradient norm",
    CurveKind.PACE: "Steps a second",
}
_MOST_LOOKS = 3  # a run that trains may grow at each

Window = tuple[int | None, int | None]
Began = Callable[[Trial, Sequence[IssueGroup]], tuple[Incident, ...]]
Speed = tuple[tuple[str, PerformanceVerdict], ...]


@dataclass(frozen=True, eq=False)
class ReportData:
    """All that a report shows.

    recorded   rules and verdicts
    live       pace and state; of each curve its last number
    record     of `trackside run`; None for other runs
    facts      about the program; None without any
    steps      first and last training step; None without any
    wall_time  the moments of these steps, if the charts are over wall time
    charts     (title, numbers) of each curve, each with at least one bucket
    fine_tuning  (title, numbers) of each number of a fine-tuning that was logged
    is_window  True if only some steps are shown
    changes    what changed at these steps against those before; None for all steps, or if too few lie before
    heatmaps   layers over steps, each with at least one row
    layers     the choice of these layers
    routing    experts over steps, a picture for each layer of experts
    distributions   values over steps of the tensors to look at first
    machine  (title, numbers) of each metric of the machines, over the same steps
    cores    use of the cores of each machine over the same steps
    speed      verdict on the speed of each process by its name, the slowest first
    model      labels, predictions, metrics and importance; None for a run that saved none of them
    incidents  how each standing problem began
    workers    names of the processes that trained
    generated_at   seconds since the epoch
    """

    recorded: RecordedRun
    live: LiveRun
    record: RunRecord | None
    facts: ModelFacts | None
    steps: tuple[int, int] | None
    wall_time: WallTime | None
    charts: tuple[tuple[str, Buckets], ...]
    fine_tuning: tuple[tuple[str, Buckets], ...]
    is_window: bool
    changes: Changes | None
    heatmaps: tuple[Heatmap, ...]
    layers: LayerChoice
    routing: tuple[Heatmap, ...]
    distributions: tuple[Distribution, ...]
    machine: tuple[tuple[str, Buckets], ...]
    cores: tuple[Heatmap, ...]
    speed: Speed
    model: LabelledRun | None
    incidents: tuple[Incident, ...]
    workers: tuple[str, ...]
    generated_at: float

    @property
    def problems(self) -> tuple[IssueGroup, ...]:
        """Standing ones first, then the gravest."""
        return self.recorded.groups

    @property
    def rules(self) -> tuple[RuleStatus, ...]:
        """The state of each rule."""
        return self.recorded.rules

    @property
    def is_boosted(self) -> bool:
        """True for a training of XGBoost that saved something about its model."""
        framework = self.facts.program.framework if self.facts else ""
        return self.model is not None and (framework == "xgboost" or bool(self.model.importance))

    @property
    def spans(self) -> tuple[Span, ...]:
        """The steps of each problem, for the charts."""
        first, last = self.steps or (0, 0)
        return tuple(span for span in _spans(self.problems, last) if span.last >= first and span.first <= last)

    def spans_of(self, tensor: str) -> tuple[Span, ...]:
        """Return the steps of each issue with a finding about this tensor, in the whole run."""
        return tuple(_spans_about(tensor, self.problems, max(self.live.step, self.steps[1] if self.steps else 0)))

    def findings_of(self, tensor: str) -> tuple[Finding, ...]:
        """Return the findings of standing issues about this tensor, the gravest problem first."""
        issues = [issue for group in self.problems for issue in group.standing]
        return tuple(finding for issue in issues for finding in issue.findings if finding.subject == tensor)

    @property
    def named_tensors(self) -> frozenset[str]:
        """The tensors that the findings of standing problems name."""
        issues = [issue for group in self.problems for issue in group.standing]
        return frozenset(finding.subject for issue in issues for finding in issue.findings)


def gather(
    uri: str,
    trial: Trial,
    *,
    clock: Callable[[], float],
    window: Window = (None, None),
    is_by_time: bool = False,
    layers: LayerChoice = FIRST_LAYERS,
    begin_stage: Callable[[str], None] = lambda _: None,
    stores: Callable[[str], Store] = open_store,
    speed: Callable[[str], Speed] | None = None,
    began: Began = incidents,
) -> ReportData:
    """Return the content of the report of a run.

    Args:
        uri: The location of the run.
        trial: The same run.
        clock: Returns seconds since the epoch.
        window: First and last step of the curves and the layers; None: those of the run.
        is_by_time: True for charts over wall time.
        layers: The layers to show.
        begin_stage: Called with the name of each stage of reading.
        stores: Opens the store of a location.
        speed: Judges the speed of the run at a location; None: from all that was measured.
        began: Returns how the standing problems of a run began.

    Raises:
        RunNotFoundError: No run is at that location.
        StorageError: The store cannot be read.
    """
    begin_stage("Reading what the rules found")
    recorded = read_run(uri, stores=stores)
    begin_stage("Reading the curves of the training")
    live, steps, charts = _charts(LiveRunReader(trial, clock=clock, stores=stores), trial, window)
    named = frozenset(one.subject for group in recorded.groups for issue in group.standing for one in issue.findings)
    begin_stage("Reading layers over steps")
    heatmaps = tuple(layer_maps(trial, steps, named=named, choice=layers)) if steps else ()
    begin_stage("Reading distributions, the machine, and how problems began")
    is_window = window != (None, None)
    return ReportData(
        recorded=recorded,
        live=live,
        record=recorded.record,
        facts=trial.model_facts,
        steps=steps,
        wall_time=wall_time(trial, steps) if is_by_time and steps else None,
        charts=charts,
        fine_tuning=fine_tuning_curves(trial, steps) if steps else (),
        is_window=is_window,
        changes=changes(trial, steps) if is_window and steps else None,
        heatmaps=heatmaps,
        layers=layers,
        routing=tuple(routing_maps(trial, steps)) if steps else (),
        distributions=distributions(trial, recorded.groups, steps) if steps else (),
        machine=tuple(machine_curves(trial, steps)) if steps else (),
        cores=tuple(core_maps(trial, steps)) if steps else (),
        speed=speed(uri) if speed else judged_workers(measured_workers(uri, trial)),
        model=labelled_run(trial),
        incidents=began(trial, recorded.groups),
        workers=tuple(trial.workers),
        generated_at=clock(),
    )


def _charts(
    reader: LiveRunReader, trial: Trial, window: Window
) -> tuple[LiveRun, tuple[int, int] | None, tuple[tuple[str, Buckets], ...]]:
    """Return the run with the last number of each curve, the first and the last step to show, and the curves as charts.

    Curves are put into buckets as they are read, over the steps that the run recorded. Rarely its curves begin or end
    elsewhere: then they are read again, over the steps that they have.
    """
    known: tuple[int, int] | None = None
    first = window[0] or 0
    for _ in range(_MOST_LOOKS):
        drawn = _DrawnCurves(trial, window, known)
        live = reader.look(first=first, drawing=drawn.begin)
        known = drawn.steps
        if first and (drawn.shown is None or drawn.shown[0] < first):  # no such step: then the whole run is shown
            first = 0
        elif within(known, window) == drawn.shown:
            break
    return live, drawn.shown if known else None, tuple(drawn.charts())


class _DrawnCurves:
    """Curves in buckets over one axis, which is known before the first number."""

    def __init__(self, trial: Trial, window: Window, known: tuple[int, int] | None) -> None:
        self._trial, self._window, self._known = trial, window, known
        self._finished: list[tuple[CurveKind, str, _DrawnCurve]] = []
        self.shown: tuple[int, int] | None = None

    def begin(self, kind: CurveKind, _: str) -> _DrawnCurve:
        """Return what takes the numbers of a curve."""
        if self.shown is None:  # not before: the reader has looked for what is new
            self.shown = within(self._known or self._trial.parts.steps.training_ends(), self._window)
        return _DrawnCurve(self.shown, lambda name, drawn: self._finished.append((kind, name, drawn)))

    @property
    def steps(self) -> tuple[int, int] | None:
        """First and last step of the curves; None without any."""
        ends = [one.ends for one in self._shown() if one.ends]
        return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else None

    def charts(self) -> Iterator[tuple[str, Buckets]]:
        """Yield title and numbers of each curve with a number on the axis."""
        losses = 0
        for kind, name, drawn in self._finished:
            losses += kind is CurveKind.LOSS
            buckets = drawn.buckets()
            if buckets is not None and losses <= MOST_LOSSES:
                yield name if kind is CurveKind.LOSS else _TITLES[kind], buckets

    def _shown(self) -> Iterator[_DrawnCurve]:
        losses = [drawn for kind, _, drawn in self._finished if kind is CurveKind.LOSS]
        yield from losses[:MOST_LOSSES]
        yield from (drawn for kind, _, drawn in self._finished if kind is not CurveKind.LOSS)


class _DrawnCurve:
    """A curve in buckets, and its last number.

    ends   first and last step; None without any
    """

    def __init__(self, shown: tuple[int, int] | None, finish: Callable[[str, _DrawnCurve], None]) -> None:
        self._sums = BucketSums(edges_of(*shown, MOST_BUCKETS)) if shown else None
        self._finish = finish
        self._newest = (np.empty(0, np.int64), np.empty(0))
        self.ends: tuple[int, int] | None = None

    def add(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Implement `Drawing.add`."""
        if self._sums is not None:
            self._sums.add(steps, values)
        self._take(int(steps[0]), int(steps[-1]), (steps[-1:].copy(), values[-1:].copy()))

    def merge(self, other: _DrawnCurve) -> None:
        """Implement `Drawing.merge`."""
        if self._sums is not None and other._sums is not None:
            self._sums.merge(other._sums)
        if other.ends is not None:
            self._take(*other.ends, other._newest)

    def curve(self, name: str) -> Curve:
        """Return the last number alone: a page is kept, and a million steps would be, too."""
        self._finish(name, self)
        return Curve(name, *self._newest)

    def buckets(self) -> Buckets | None:
        """Return the numbers on the axis; None without any."""
        found = self._sums.buckets() if self._sums is not None else None
        return found if found is not None and len(found.first) else None

    def _take(self, first: int, last: int, newest: tuple[NDArray[np.int64], NDArray[np.float64]]) -> None:
        if self.ends is None or last >= self.ends[1]:
            self._newest = newest
        self.ends = (min(first, self.ends[0]), max(last, self.ends[1])) if self.ends else (first, last)


def wall_time(trial: Trial, steps: tuple[int, int]) -> WallTime | None:
    """Return the axis of these steps in wall time; None if their moments are not known."""
    return WallTime.of(trial.parts.steps.moments(trial.workers[0]), steps) if trial.workers else None


def within(steps: tuple[int, int] | None, window: Window) -> tuple[int, int] | None:
    """Return the part of these steps that a window shows; all of them if it shows none."""
    if steps is None:
        return None
    first = steps[0] if window[0] is None else max(window[0], steps[0])
    last = steps[1] if window[1] is None else min(window[1], steps[1])
    return (first, last) if first <= last else steps


def _spans(problems: Sequence[IssueGroup], last: int) -> Iterator[Span]:
    for group in problems:
        lead, end = group.lead, group.recovered_at
        until = max(last, lead.since_step) if end is None else end
        yield Span(min(lead.since_step, until), until, group.severity.value, lead.configuration_name)


def _spans_about(tensor: str, problems: Sequence[IssueGroup], last: int) -> Iterator[Span]:
    for group in problems:
        for issue in group.issues:
            if any(finding.subject == tensor for finding in issue.findings):
                recovered = group.recovered.get(issue.configuration_name)
                until = max(last, issue.since_step) if recovered is None else recovered.step
                yield Span(min(issue.since_step, until), until, issue.severity.value, issue.configuration_name)
