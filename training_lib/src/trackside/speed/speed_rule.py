"""The base class of rules about the speed of a run, and their measurements. Pure functions of a window."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.rule_catalogue import LifeCycle
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.run.recorded_names import (
    BACKWARD_SECONDS,
    CAPTURE_SECONDS,
    DATA_PROCESSOR_WAIT_SECONDS,
    DATA_SECONDS,
    EVALUATION_SECONDS,
    OPTIMIZER_SECONDS,
    PROCESSOR_WAIT_SECONDS,
    STEP_SECONDS,
)
from trackside.contracts.verdict import Finding, FindingKind, Severity
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION
from trackside.situation.constants import FIRST
from trackside.trial.window import MachineSeries, Window

Values = NDArray[np.float64]

CPU, IO_WAIT = "CPUUtilization", "I/OWaitPercentage"
GPU, GPU_MEMORY = "GPUUtilization", "GPUMemoryUtilization"
NO_GPU = "samples of a GPU; none was sampled, and NVIDIA's need the package nvidia-ml-py beside `trackside run`"
NO_SAMPLES = "samples of the machine; `trackside run` takes them"
STEPS = "steps"  # the subject of findings about them

DATA, BACKWARD, OPTIMIZER = "data", "backward", "optimizer"
_PHASES = {DATA: DATA_SECONDS, BACKWARD: BACKWARD_SECONDS, OPTIMIZER: OPTIMIZER_SECONDS}
_NO_TRAINING = (EVALUATION_SECONDS, CAPTURE_SECONDS)
_TOTALS = {CPU: "CPUUtilizationTotal", IO_WAIT: "I/OWaitPercentageTotal"}


@dataclass(frozen=True)
class SpeedRule(Rule):
    """A rule that reads the machine's metrics and the seconds of steps.

    They judge only if chosen. Their issues are warnings unless the user, or a request for SageMaker Debugger, makes
    them critical.
    """

    watches: ClassVar[tuple[str, ...]] = EVERY_COLLECTION
    needs = ()
    paced: ClassVar[bool] = True
    judges_speed: ClassVar[bool] = True
    severity: ClassVar[Severity] = Severity.WARNING
    since: ClassVar[str] = "0.1"
    life_cycle: ClassVar[LifeCycle] = LifeCycle.PREVIEW

    is_critical: bool = parameter(False, "make its issues critical: only such issues may stop a run")

    @abstractmethod
    def check(self, window: Window) -> Iterable[Finding]:
        """Implement `Rule.check`."""

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return a warning, or critical if the user asked for that."""
        return Severity.CRITICAL if self.is_critical else self.severity

    def lacks_samples(self, window: Window, metric: str, count: int) -> str:
        """Return a clause if no GPU has so many samples of a metric; "" if one has.

        Args:
            window: The run up to the step to judge.
            metric: Name of the metric.
            count: Number of samples.
        """
        counts = [len(series.values) for series in window.machine(metric)]
        if not counts:
            return NO_GPU
        return "" if max(counts) >= count else f"{count} samples of a GPU; the run has {max(counts)}"


@dataclass(frozen=True)
class StepTimes:
    """Seconds of the training steps of one worker, without evaluations, our own cost, and waits for a processor.

    A long wait for a batch is left without its own waits for a processor: those of the training thread, and the share
    in which a DataLoader's workers had none. Of the rest of a step, and of short fetches, the share without a processor
    is left out of all phases alike: in which of them the thread waited is not measured.

    worker   name of the worker
    steps    int64 of shape (n,), n >= 1, ascending
    seconds  float64 of shape (n,)
    phases   seconds of each phase that ever occurred, shape (n,), 0 at a step without it
    whole    seconds by the clock, without evaluations and our own cost, shape (n,)
    """

    worker: str
    steps: NDArray[np.int64]
    seconds: Values
    phases: Mapping[str, Values]
    whole: Values

    @property
    def waited_share(self) -> float:
        """Share of the time by the clock in which the training had no processor."""
        total = float(self.whole.sum())
        return max(0.0, 1.0 - float(self.seconds.sum()) / total) if total > 0 else 0.0

    def newest(self, count: int) -> StepTimes:
        """Return the newest steps, all of them if they are fewer.

        Args:
            count: The most steps.
        """
        phases = {name: values[-count:] for name, values in self.phases.items()}
        return StepTimes(self.worker, self.steps[-count:], self.seconds[-count:], phases, self.whole[-count:])

    def usual(self, phase: str) -> StepTimes:
        """Return the steps without the one in 25 that is longest in a phase: a loop waits more often than that.

        It is up to one in four where the training had no processor: its other threads, which it waits for now and then,
        had none either.

        Args:
            phase: `data`, `backward` or `optimizer`; one that never occurred leaves all steps.
        """
        if phase not in self.phases:
            return self
        left_out = int(len(self.steps) * max(1 / 25, self.waited_share / 4))
        kept = np.sort(np.argsort(self.phases[phase], kind="stable")[: len(self.steps) - left_out])
        phases = {name: values[kept] for name, values in self.phases.items()}
        return StepTimes(self.worker, self.steps[kept], self.seconds[kept], phases, self.whole[kept])

    def share_of(self, phase: str) -> float:
        """Return the share of a phase in all these seconds; 0 for a phase that never occurred.

        Args:
            phase: `data`, `backward` or `optimizer`.
        """
        total = float(self.seconds.sum())
        return float(self.phases[phase].sum()) / total if phase in self.phases and total > 0 else 0.0


def amazons(**of_sdk: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the presets of a rule of SageMaker Debugger: its own defaults, and issues that may stop a run.

    Args:
        of_sdk: Defaults that the SDK's classes send, as pairs with those of the documentation: `patience=(1000, 100)`.
    """
    sdk, docs = ({name: pair[k] for name, pair in of_sdk.items()} for k in (0, 1))
    return {AWS_SDK: {"is_critical": True, **sdk}, AWS_DOCS: {"is_critical": True, **docs}}


AMAZONS_TOO = (CALIBRATED, AWS_DOCS, AWS_SDK)  # the presets of such a rule


def step_times(window: Window) -> tuple[StepTimes, ...]:
    """Return the seconds of the steps of each worker, without the first steps of a run."""
    seconds = {column.worker: column for column in window.statistic(STEP_SECONDS, "mean", mode=None)}
    others = {
        name: {column.worker: column for column in window.statistic(name, "mean", mode=None)}
        for name in (*_PHASES.values(), *_NO_TRAINING, PROCESSOR_WAIT_SECONDS, DATA_PROCESSOR_WAIT_SECONDS)
    }
    found = []
    for worker, column in sorted(seconds.items()):
        steps, whole = column.steps[FIRST:], column.values[FIRST:]
        if not len(steps):
            continue
        parts = {
            name: _at(steps, columns[worker].steps, columns[worker].values)
            for name, columns in others.items()
            if worker in columns
        }
        none = np.zeros(len(steps))
        waits, fetching = parts.get(PROCESSOR_WAIT_SECONDS, none), parts.get(DATA_SECONDS, none)
        in_fetches = parts.get(DATA_PROCESSOR_WAIT_SECONDS, none)
        in_fetches = np.where(in_fetches > 0, in_fetches, (1.0 - own_share(whole, waits)) * fetching)
        own = own_share(whole - fetching, waits - in_fetches)  # of the time beside fetches
        of_training = np.maximum(whole - sum(parts.get(name, none) for name in _NO_TRAINING), 0.0)
        phases = {phase: parts[name] * own for phase, name in _PHASES.items() if name in parts}
        facts = window.speed_facts.get(worker)
        own_data = np.maximum(fetching - in_fetches, 0.0) * (1.0 if facts is None else facts.own_share_of_workers)
        if DATA in phases:
            phases[DATA] = own_data
        own_seconds = np.maximum(of_training - fetching, 0.0) * own + own_data
        found.append(StepTimes(worker, steps, own_seconds, phases, of_training))
    return tuple(found)


def own_share(seconds: Values, waits: Values) -> Values:
    """Return the share of each step in which its thread was not kept waiting for a processor.

    Args:
        seconds: Seconds of the steps.
        waits: Seconds of each in which other work had the processor.
    """
    found: Values = np.clip(1.0 - waits / np.where(seconds > 0, seconds, 1.0), 0.0, 1.0)
    return found


def of_processors(window: Window, dimension: str) -> Mapping[str, MachineSeries]:
    """Return a metric of all processors of each machine, by its name: our own total, else the mean of its cores.

    Args:
        window: The window to read.
        dimension: `CPUUtilization` or `I/OWaitPercentage`.
    """
    found = {series.node: series for series in window.machine(_TOTALS[dimension])}
    cores: dict[str, list[MachineSeries]] = {}
    for series in window.machine(dimension):
        cores.setdefault(series.node, []).append(series)
    for node, some in cores.items():
        if node not in found:
            count = min(len(series.values) for series in some)
            mean = np.mean([series.values[-count:] for series in some], axis=0)
            found[node] = MachineSeries(node, "total", some[0].times[-count:], mean)
    return found


def at_times(series: MachineSeries, times: Values) -> Values:
    """Return the newest value of a series at each moment, its first value before it has any.

    Args:
        series: The series.
        times: Moments, ascending.
    """
    places = np.searchsorted(series.times, times, side="right") - 1
    found: Values = series.values[np.maximum(places, 0)]
    return found


def device_of(series: MachineSeries) -> str:
    """Return the name of a device for users: `gpu0 of algo-1`.

    Args:
        series: One of its series.
    """
    return f"{series.name} of {series.node}"


def found_in(
    window: Window,
    subject: str,
    *,
    measure: str,
    observed: float,
    threshold: float,
    relation: str = ">",
    since: int = 0,
    worker: str = "worker_0",
    place: str = "",
    statistics: Mapping[str, float] | None = None,
    kind: FindingKind = FindingKind.NUMBER,
) -> Finding:
    """Return a finding at the step of the window.

    Args:
        window: The window that was judged.
        subject: The device, or `steps`.
        measure: The measured quantity, and its unit.
        observed: The measured value.
        threshold: Its limit.
        relation: `<` or `>`.
        since: The first step at which it held.
        worker: The worker, if it is about one.
        place: The line of the user's code.
        statistics: Further numbers.
        kind: The kind of the finding.
    """
    return Finding(
        subject=subject,
        step=window.step,
        since_step=min(max(0, since), window.step),
        measure=measure,
        observed=float(observed),
        relation=relation,
        threshold=float(threshold),
        worker=worker,
        place=place,
        statistics=statistics or {},
        kind=kind,
    )


def _at(steps: NDArray[np.int64], known: NDArray[np.int64], values: Values) -> Values:
    """Return the values at these steps, 0 at a step without one."""
    places = np.minimum(np.searchsorted(known, steps), len(known) - 1)
    found: Values = np.where(known[places] == steps, values[places], 0.0)
    return found
