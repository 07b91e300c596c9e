"""The verdict on the speed of a run: its bottleneck, the line, and the seconds that can be won back. Pure.

Causes are ranked by what can be won back, and only one of a fifth of the step binds the run: a wait of a tenth beside a
step that computes for the rest leaves it compute-bound. A measurement that is missing makes the verdict incomplete,
never a phase of 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from statistics import median

from trackside.records.machine.performance_facts import INSIDE
from trackside.speed.performance.causes import (
    DISK_WAIT_PERCENT,
    Cause,
    collection_causes,
    input_cause,
    line_causes,
    rank_causes,
)
from trackside.speed.performance.durations import duration, milliseconds
from trackside.speed.performance.measured import CAPTURE, EVALUATION, PHASES, Measured

FEWEST_STEPS = 10
BOUND_SHARE = 0.2  # of the time of the steps, to win back: the run is bound by it
NOTED_SHARE = 0.1  # to be worth a line
COMPUTE_SHARE = 0.8
BUSY_GPU_PERCENT, IDLE_GPU_PERCENT = 80.0, 50.0
CREEP_SECONDS = 60.0  # of samples, at least
CREEP_BLOCKS = 10
CREEP_BYTES, CREEP_SHARE = 100 << 20, 0.05  # growth over the second half, at least
MOST_CAUSES = 5
_DEVICES = {  # whose use was not measured
    "cuda": "GPU: install nvidia-ml-py where `trackside run` is started",
    "rocm": "GPU: the driver of AMD's GPUs offers no use of them; `amd-smi monitor` may show it",
    "xla": "device: Trainium's use needs `neuron-monitor` beside `trackside run`; a TPU's is not read, see `tpu-info`",
}
_OWN_WORK = frozenset({"input-bound", "copy-bound", "host-bound"})  # of a rank that the others wait for
LEAST_SECONDS = 1.0  # to win back, for a line in the summary of a run


class Bottleneck(Enum):
    """The kinds of verdict."""

    INPUT = "input-bound"
    COPY = "copy-bound"
    HOST = "host-bound"
    COMPUTE = "compute-bound"
    COMMUNICATION = "communication-bound"
    STRAGGLER = "straggler rank"
    MEMORY = "memory creep"
    BALANCED = "balanced"
    HANG = "hang"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class PhaseShare:
    """One phase of the step.

    Attributes:
        name: Its name; `rest` for the time in no phase. `capture` and `evaluation` come on top of the step.
        seconds: Seconds a step.
        share: Seconds for each second of the step.
        steps: Steps at which it was measured.
    """

    name: str
    seconds: float
    share: float
    steps: int


@dataclass(frozen=True)
class PerformanceVerdict:
    """The verdict on one worker of a run.

    Attributes:
        bottleneck: The kind.
        headline: One sentence: the bottleneck and its share.
        steps: Measured steps.
        seconds: Their seconds, without evaluations and our own cost.
        phases: The phases of a step, in their order.
        causes: Causes of lost time, the greatest first.
        missing: Measurements that the run lacks, and the way to get each.
        notes: Observations that change no verdict.
    """

    bottleneck: Bottleneck
    headline: str
    steps: int
    seconds: float
    phases: tuple[PhaseShare, ...] = ()
    causes: tuple[Cause, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def step_seconds(self) -> float:
        """Seconds of a step, on average."""
        return self.seconds / self.steps if self.steps else 0.0

    @property
    def can_win_back(self) -> str:
        """One sentence about the greatest cause; "" if it is not worth one."""
        cause = self.causes[0] if self.causes else None
        if cause is None or cause.kind != self.bottleneck.value or cause.seconds < LEAST_SECONDS:
            return ""
        return (
            f"{self.bottleneck.value}: {self.headline}; up to {cause.seconds:.0f} s of {self.seconds:.0f} s can be won"
        )


def judged_workers(workers: Mapping[str, Measured]) -> tuple[tuple[str, PerformanceVerdict], ...]:
    """Return the verdict on each worker by its name: those that wait for a slower one first, then the slowest.

    A wait for a slower worker has the line and the change of that worker.

    Args:
        workers: The measurements by worker.
    """
    judged = {name: judge_speed(measured) for name, measured in workers.items()}
    complete = {name: _with_culprit(verdict, judged) for name, verdict in judged.items()}
    return tuple(
        sorted(complete.items(), key=lambda one: (one[1].bottleneck is not Bottleneck.STRAGGLER, -one[1].step_seconds))
    )


def _with_culprit(verdict: PerformanceVerdict, others: Mapping[str, PerformanceVerdict]) -> PerformanceVerdict:
    """Return a verdict on a worker that waits for another one with the line and the change of that one."""
    causes = list(verdict.causes)
    for number, cause in enumerate(causes):
        culprit = others.get(cause.where) if cause.kind == Bottleneck.STRAGGLER.value else None
        own = next((one for one in culprit.causes if one.kind in _OWN_WORK), None) if culprit is not None else None
        if own is not None:
            where = f"{cause.where}, {own.kind}: {own.where}"
            causes[number] = replace(cause, where=where, change=f"in {cause.where}: {own.change}", lines=own.lines)
    return replace(verdict, causes=tuple(causes))


def judge_speed(measured: Measured) -> PerformanceVerdict:
    """Return the verdict on one worker.

    Args:
        measured: Its measurements.
    """
    missing = tuple(_missing(measured))
    if measured.steps < FEWEST_STEPS or measured.training_seconds <= 0:
        return PerformanceVerdict(
            Bottleneck.INCOMPLETE, _why_incomplete(measured), measured.steps, measured.training_seconds, missing=missing
        )
    causes = sorted(
        (
            cause
            for causes_of in (input_cause, line_causes, collection_causes, rank_causes)
            for cause in causes_of(measured)
            if cause.share >= NOTED_SHARE
        ),
        key=lambda cause: -cause.seconds,
    )[:MOST_CAUSES]
    bottleneck, headline = _bottleneck(measured, causes)
    return PerformanceVerdict(
        bottleneck,
        headline,
        measured.steps,
        measured.training_seconds,
        tuple(_phases(measured)),
        tuple(causes),
        missing,
        tuple(_notes(measured)),
    )


def _bottleneck(measured: Measured, causes: list[Cause]) -> tuple[Bottleneck, str]:
    hang = measured.facts.hang if measured.facts is not None else None
    if hang is not None and not hang.is_over:
        return Bottleneck.HANG, (
            f"no progress for {duration(hang.seconds)} in {hang.phase}, at {hang.place} in {hang.function}; "
            f"the past explains {duration(hang.limit_seconds)}"
        )
    total = measured.training_seconds
    compute = sum(map(measured.of, ("forward", "backward", "optimizer"))) / total
    first = causes[0] if causes else None
    by_gpu = _gpu_bottleneck(measured, first)
    if by_gpu is not None:
        return by_gpu
    if first and first.share >= BOUND_SHARE:
        return Bottleneck(first.kind), first.headline
    if _is_creeping(measured):
        return Bottleneck.MEMORY, "the memory of the training grows without end"
    if compute >= COMPUTE_SHARE:
        return Bottleneck.COMPUTE, f"{100 * compute:.0f} % of the step is forward, backward and optimizer"
    return _by_rest(measured)


def _by_rest(measured: Measured) -> tuple[Bottleneck, str]:
    """Return the verdict on a run without a cause: by the time in no phase."""
    share = measured.rest_seconds / measured.training_seconds
    if share < BOUND_SHARE:
        return Bottleneck.BALANCED, "no part of the step can be shortened by a fifth of it"
    text = f"{100 * share:.0f} % of the step"
    lines = measured.facts.lines if measured.facts is not None else ()
    if 2 * sum(each.samples for each in lines if each.phase == INSIDE) > sum(each.samples for each in lines):
        return Bottleneck.INCOMPLETE, f"{text} is mostly in a function that computes, or waits for a batch in its graph"
    if measured.facts is not None and measured.facts.lines:
        return Bottleneck.HOST, f"{text} is Python between the phases, spread over many lines"
    return Bottleneck.INCOMPLETE, f"{text} is in no phase, and its stacks were not sampled"


def _gpu_bottleneck(measured: Measured, first: Cause | None) -> tuple[Bottleneck, str] | None:
    """Return the verdict on a training on GPUs, if their use decides it: the host's times are not theirs."""
    device = measured.facts.device if measured.facts is not None else "cpu"
    if device not in _DEVICES:
        return None
    gpu = measured.machine.gpu_percent
    if gpu is not None and gpu >= BUSY_GPU_PERCENT:
        return Bottleneck.COMPUTE, f"the {'device' if device == 'xla' else 'GPU'} is busy for {gpu:.0f} % of the time"
    if device == "xla":
        return (
            Bottleneck.INCOMPLETE,
            "the training is on an XLA device, which computes later than the host's times show",
        )
    if gpu is None and (first is None or first.kind != Bottleneck.INPUT.value):
        return Bottleneck.INCOMPLETE, "the use of the GPU was not measured, and the host's times cannot show it"
    if gpu is not None and gpu < IDLE_GPU_PERCENT and first is None:
        return Bottleneck.HOST, f"the GPU is busy for {gpu:.0f} % of the time, and waits for Python and launches"
    return None


def _phases(measured: Measured) -> Iterator[PhaseShare]:
    total = measured.training_seconds
    for name in (*PHASES, "rest", CAPTURE, EVALUATION):
        if name == "rest":
            yield PhaseShare(
                name, measured.rest_seconds / measured.steps, measured.rest_seconds / total, measured.steps
            )
        elif name in measured.phases:
            seconds = measured.of(name)
            yield PhaseShare(name, seconds / measured.steps, seconds / total, measured.phases[name].steps)


def _why_incomplete(measured: Measured) -> str:
    if not measured.steps and measured.captured_steps:
        return "no step was timed: the run is of an older Trackside, or of another framework than PyTorch"
    if not measured.steps:
        return "no step was captured"
    return f"{measured.steps} steps were timed after the first ones, and {FEWEST_STEPS} are needed"


def _missing(measured: Measured) -> Iterator[str]:
    if not measured.steps:
        return
    facts = measured.facts
    if "data" not in measured.phases:
        yield "data: no torch DataLoader was used, and no wait of the loop was sampled; see the lines of the rest"
    if "forward" not in measured.phases:
        yield "forward: no stack was sampled in the call of a torch.nn.Module"
    if "backward" not in measured.phases and not _is_compiled(measured):
        yield "backward: torch.autograd.backward was not called"
    if facts is None or not facts.lines:
        yield "lines: no stack was sampled, or none so far"
    if facts is not None and facts.workers > 1 and measured.gradient_wait is None:
        yield "collectives: none was timed so far, of DistributedDataParallel or on a sampled step"
    if facts is not None and facts.device in _DEVICES and measured.machine.gpu_percent is None:
        yield _DEVICES[facts.device]
    if not measured.machine.samples:
        yield "machine: it was not sampled; start the training with `trackside run`"


def _is_compiled(measured: Measured) -> bool:
    """Return True if one function makes whole steps: forward and backward pass are one."""
    lines = measured.facts.lines if measured.facts is not None else ()
    return any(line.is_in_model and not line.place for line in lines)


def _notes(measured: Measured) -> Iterator[str]:
    machine, facts = measured.machine, measured.facts
    if facts is not None and facts.hang is not None:
        end = "; it went on afterwards" if facts.hang.is_over else ""
        waited = duration(facts.hang.seconds)
        yield f"after step {facts.hang.steps} nothing moved for {waited} at {facts.hang.place}{end}"
        yield "the stacks of all threads at that moment: profiler-output/performance/ in the run"
    if machine.cpu_percent is not None and machine.training_cpu_percent is not None and facts and facts.processors:
        own = machine.training_cpu_percent / facts.processors
        if machine.cpu_percent - own >= 30:
            yield f"the machine was busy to {machine.cpu_percent:.0f} %, and this training used {own:.0f} % of it"
    yield from _loader_notes(measured)
    yield from _queue_notes(measured)
    if _is_compiled(measured):
        yield "forward holds the whole function that trains: one compiled function computes, and updates weights"
    if measured.processor_wait is not None and measured.processor_wait >= NOTED_SHARE:
        yield (
            f"for {100 * measured.processor_wait:.0f} % of its time the training was ready, and other work on the "
            "machine had the processor"
        )
    if measured.overhead is not None:
        yield f"watching took {100 * measured.overhead:.1f} % of the training's time, its writer included"
    if machine.io_wait_percent is not None and machine.io_wait_percent >= 20:
        yield f"the processors waited for a disk for {machine.io_wait_percent:.0f} % of the time"
    if machine.disk_wait_percent is not None and machine.disk_wait_percent >= DISK_WAIT_PERCENT:
        yield f"processes of the training waited for a disk in {machine.disk_wait_percent:.0f} % of the samples"
    if machine.memory_percent is not None and machine.memory_percent >= 95:
        yield f"the machine's memory was in use to {machine.memory_percent:.0f} %"
    if _is_creeping(measured):
        grown = _block_medians(measured)
        yield f"the memory of the training grew from {grown[0] / 2**30:.1f} to {grown[-1] / 2**30:.1f} GiB"


def _loader_notes(measured: Measured) -> Iterator[str]:
    facts = measured.facts
    loader = facts.loaders[0] if facts is not None and facts.loaders else None
    if facts is None or loader is None or not loader.fetches:
        return
    makers = f"{loader.fetch_processes} workers" if loader.workers else "the training itself"
    ready = (
        "" if measured.batches_ready is None else f"; {measured.batches_ready:.1f} were ready when one was asked for"
    )
    yield (
        f"a batch took {milliseconds(loader.fetch_seconds)} to make, {milliseconds(loader.longest_fetch_seconds)} at "
        f"most, in {makers}{ready}"
    )
    if facts.pins:
        yield f"a copy of a batch to pinned memory took {milliseconds(facts.pin_seconds)}"


def _queue_notes(measured: Measured) -> Iterator[str]:
    for queue in measured.facts.queues if measured.facts is not None else ():
        place = f" at {queue.taken_at}" if queue.taken_at else ""
        made = f"; one thread takes {milliseconds(queue.make_seconds)} to make a batch" if queue.makes else ""
        ready = f"{queue.ready:.1f} batches were" if queue.ready >= 0 else "an unknown number of batches was"
        yield f"{queue.kind}{place}: {ready} ready when one was taken{made}"


def _is_creeping(measured: Measured) -> bool:
    """Return True if the training's memory grows over the second half of the run, and never shrinks much."""
    series = measured.machine.memory_series
    if len(series) < 4 * CREEP_BLOCKS or series[-1][0] - series[0][0] < CREEP_SECONDS:
        return False
    medians = _block_medians(measured)
    half = medians[len(medians) // 2 :]
    grown = half[-1] - half[0]
    rises = sum(later > earlier for earlier, later in pairwise(half))
    return grown >= max(CREEP_BYTES, CREEP_SHARE * half[0]) and rises >= len(half) - 1


def _block_medians(measured: Measured) -> list[float]:
    values = [value for _, value in measured.machine.memory_series]
    size = len(values) // CREEP_BLOCKS
    return [median(values[size * block : size * (block + 1)]) for block in range(CREEP_BLOCKS)]
