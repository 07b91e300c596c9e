"""Measurements of a run's speed, as plain numbers: seconds by phase, DataLoaders, lines, the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trackside.records.machine.performance_facts import FETCH, INSIDE, PerformanceFacts

PHASES = ("data", "forward", "backward", "optimizer")  # of a training step; the rest is in none of them
FEWEST_SAMPLES = 20  # of stacks, to conclude anything from them
CAPTURE, EVALUATION = "capture", "evaluation"  # beside it: our own cost, and what is no training


@dataclass(frozen=True)
class PhaseSeconds:
    """Seconds of one phase over the measured steps.

    Attributes:
        seconds: Seconds of all steps together.
        steps: Number of steps at which the phase was measured.
    """

    seconds: float
    steps: int


@dataclass(frozen=True)
class Machine:
    """The machine during a run, on average. None where it was not measured.

    Attributes:
        cpu_percent: Processors in use, of all.
        io_wait_percent: Processors idle while a process waited for a disk.
        training_cpu_percent: Processors that the training used; 100 is one processor.
        memory_percent: The highest share of the memory in use.
        gpu_percent: Accelerators in use.
        disk_wait_percent: Samples in which a process of the training waited for a disk.
        memory_series: (seconds since the epoch, bytes) of the training's processes.
        samples: Number of samples.
    """

    cpu_percent: float | None = None
    io_wait_percent: float | None = None
    training_cpu_percent: float | None = None
    memory_percent: float | None = None
    gpu_percent: float | None = None
    disk_wait_percent: float | None = None
    memory_series: tuple[tuple[float, float], ...] = ()
    samples: int = 0


@dataclass(frozen=True)
class GradientWait:
    """The wait of one worker for the gradients of the others, in seconds of a step.

    Attributes:
        seconds: The wait of this worker.
        least_seconds: The wait of the worker that waits least: what the exchange itself takes.
        least_worker: That worker, for which the others wait.
        own_share: Share of the time in which neither of both was kept waiting for a processor by other work.
    """

    seconds: float
    least_seconds: float
    least_worker: str
    own_share: float = 1.0


def with_gradient_waits(workers: Mapping[str, Measured]) -> dict[str, Measured]:
    """Return measurements with the waits for gradients, where those of several workers are known.

    Args:
        workers: The measurements by worker.
    """
    waits = {
        name: one.facts.collectives.exposed_seconds
        for name, one in workers.items()
        if one.facts is not None and one.facts.collectives is not None
    }
    if len(waits) < 2:
        return dict(workers)
    least = min(waits, key=lambda name: waits[name])

    def wait_of(name: str) -> GradientWait:
        without_processor = max(workers[each].processor_wait or 0.0 for each in (name, least))
        return GradientWait(waits[name], waits[least], least, max(0.0, 1.0 - without_processor))

    return {name: replace(one, gradient_wait=wait_of(name)) if name in waits else one for name, one in workers.items()}


@dataclass(frozen=True)
class Measured:
    """Measurements of one worker.

    Attributes:
        steps: Number of measured steps, without the first ones.
        seconds: Their seconds, with evaluations and our own cost, without waits for a processor in long fetches.
        phases: Seconds by phase; a phase that never occurred is absent.
        facts: DataLoaders and stack samples; None if none were stored.
        machine: The machine.
        captured_steps: Number of steps that the run has recorded in any way.
        overhead: Processor time of all that Trackside did for the always-on statistics, over the steps' own; None where
            it was not measured.
        processor_wait: Share of the steps' seconds by the clock in which the training thread was ready and other work
            had the processor; None where it was not measured.
        gradient_wait: The wait for gradients of other ranks; None where it was not measured.
        batches_ready: Batches of a DataLoader's workers that were ready when the next was asked for, on average; None
            without workers.
        training_by_clock: `training_seconds` before waits for a processor were left out; None if none were.
    """

    steps: int = 0
    seconds: float = 0.0
    phases: Mapping[str, PhaseSeconds] = field(default_factory=dict)
    facts: PerformanceFacts | None = None
    machine: Machine = Machine()
    captured_steps: int = 0
    overhead: float | None = None
    processor_wait: float | None = None
    gradient_wait: GradientWait | None = None
    batches_ready: float | None = None
    training_by_clock: float | None = None

    @property
    def training_seconds(self) -> float:
        """Seconds of the steps without evaluations and without our own cost, which is highest at the first ones."""
        return self.seconds - self.of(EVALUATION) - self.of(CAPTURE)

    @property
    def clock_seconds(self) -> float:
        """`training_seconds` by the clock, with waits for a processor."""
        return self.training_seconds if self.training_by_clock is None else self.training_by_clock

    def of(self, phase: str) -> float:
        """Return the seconds of a phase, 0 for an absent one."""
        found = self.phases.get(phase)
        return found.seconds if found else 0.0

    @property
    def rest_seconds(self) -> float:
        """Seconds of the steps in no phase."""
        return max(0.0, self.training_seconds - sum(map(self.of, PHASES)))


def with_own_seconds(measured: Measured, *, waited: float, in_fetches: float | None) -> Measured:
    """Return measurements without the time in which the training thread was ready and had no processor.

    Other work on the machine had it, and no change of the training wins it back. Of a wait for workers of a DataLoader
    their share without a processor is left out too. Evaluations and our own cost stay as they are by the clock.

    Args:
        measured: The measurements by the clock.
        waited: Seconds of the steps in which the training thread had no processor.
        in_fetches: The part of them in long fetches of batches; None if unknown: then nothing is left out.
    """
    data = measured.phases.get("data")
    if data is None or in_fetches is None:
        return measured
    of_workers = measured.facts.own_share_of_workers if measured.facts is not None else 1.0
    own_data = max(0.0, data.seconds - in_fetches) * of_workers
    beside = measured.seconds - data.seconds
    own = min(1.0, max(0.0, 1.0 - (waited - in_fetches) / beside)) if beside > 0 else 1.0
    phases = {name: replace(one, seconds=own * one.seconds) for name, one in measured.phases.items() if name in PHASES}
    phases["data"] = replace(data, seconds=own_data)
    seconds = own * (measured.training_seconds - data.seconds) + own_data
    others = measured.of(EVALUATION) + measured.of(CAPTURE)
    own_phases = {**measured.phases, **phases}
    return replace(measured, seconds=seconds + others, phases=own_phases, training_by_clock=measured.training_seconds)


def with_sampled_phases(measured: Measured) -> Measured:
    """Return measurements with the phases that no clock measures, as shares of the stack samples in no phase.

    The forward phase is the share below the call of a module. The share in which the loop waited for a batch of
    anything but a DataLoader is added to the data phase. Neither is on too few samples, or if no sample was in it.
    """
    lines = measured.facts.lines if measured.facts else ()
    others = [line for line in lines if line.phase in {"other", FETCH, INSIDE}]
    total = sum(line.samples for line in others)
    if not total or sum(line.samples for line in lines) < FEWEST_SAMPLES:
        return measured
    rest, phases = measured.rest_seconds, dict(measured.phases)
    in_model = sum(line.samples for line in others if line.is_in_model)
    in_fetches = sum(line.samples for line in others if line.phase == FETCH)
    if in_model:
        phases["forward"] = PhaseSeconds(rest * in_model / total, measured.steps)
    if in_fetches:
        phases["data"] = PhaseSeconds(measured.of("data") + rest * in_fetches / total, measured.steps)
    return replace(measured, phases=phases)
