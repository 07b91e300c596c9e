"""Metrics of machines and seconds of steps, for tables of cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trackside.contracts.run.recorded_names import (
    BACKWARD_SECONDS,
    CAPTURE_SECONDS,
    DATA_PROCESSOR_WAIT_SECONDS,
    DATA_SECONDS,
    EVALUATION_SECONDS,
    PROCESSOR_WAIT_SECONDS,
    STEP_SECONDS,
)
from trackside.records.machine.performance_facts import LineSamples, LoaderFacts, PerformanceFacts
from trackside.testing.rule_case import Machine, Statistics

SECOND_STEP: Statistics = {STEP_SECONDS: {"mean": {0: 0.01, 1000: 0.01}}}  # a run as long as its samples


def sampled(values: Iterable[float]) -> dict[float, float]:
    """One value every second."""
    return {float(second): float(value) for second, value in enumerate(values)}


def gpus(*busy: Iterable[float], memory: Iterable[float] = (), cpu: Iterable[float] = ()) -> Machine:
    """Use of GPUs in percent, memory in use of each of them, and use of the processors."""
    found: dict[tuple[str, ...], Mapping[float, float]] = {}
    for number, values in enumerate(busy):
        found["gpu", f"gpu{number}", "GPUUtilization"] = sampled(values)
        if memory := list(memory):
            found["gpu", f"gpu{number}", "GPUMemoryUtilization"] = sampled(memory)
    if cpu := list(cpu):
        found["processors", "total", "CPUUtilizationTotal"] = sampled(cpu)
    return found


def metric(kind: str, name: str, dimension: str, values: Iterable[float]) -> Machine:
    """One metric, every second."""
    return {(kind, name, dimension): sampled(values)}


def steps(
    seconds: Iterable[float],
    *,
    data: Iterable[float] = (),
    backward: Iterable[float] = (),
    evaluation: Mapping[int, float] | None = None,
    capture: Iterable[float] = (),
    waits: Iterable[float] = (),
    waits_in_data: Iterable[float] = (),
) -> Statistics:
    """Seconds of steps and phases, from step 1 on."""
    columns = {
        STEP_SECONDS: numbered(seconds),
        DATA_SECONDS: numbered(data),
        BACKWARD_SECONDS: numbered(backward),
        EVALUATION_SECONDS: dict(evaluation or {}),
        CAPTURE_SECONDS: numbered(capture),
        PROCESSOR_WAIT_SECONDS: numbered(waits),
        DATA_PROCESSOR_WAIT_SECONDS: numbered(waits_in_data),
    }
    return {name: {"mean": values} for name, values in columns.items() if values}


def ranks(own: Mapping[str, float], *, step: float, count: int = 60) -> Statistics:
    """Steps of ranks that wait for one another in the backward pass."""
    everyone = dict.fromkeys(own, step)
    waits = {worker: step - seconds for worker, seconds in own.items()}
    return {
        STEP_SECONDS: {"mean": dict.fromkeys(range(1, count), everyone)},
        BACKWARD_SECONDS: {"mean": dict.fromkeys(range(1, count), waits)},
    }


def loader(
    workers: int, *, processors: int = 8, line: str = "", waited_share: float = 0.0
) -> dict[str, PerformanceFacts]:
    """Facts of a training with one DataLoader."""
    met = LoaderFacts(
        looped_at="train.py:30",
        created_at="train.py:20",
        dataset="Images",
        dataset_at="train.py:5",
        collate="slow_collate",
        collate_at="train.py:9",
        workers=workers,
        batch_size=8,
        prefetch_factor=0,
        is_pinned=False,
        is_iterable=False,
        fetch_waited_share=waited_share,
    )
    sampled_line = LineSamples("data", line, "slow_collate", "time.sleep(1)", "", False, 50)
    return {"worker_0": PerformanceFacts(processors=processors, loaders=(met,), lines=(sampled_line,) if line else ())}


def stacks(**samples: int) -> dict[str, PerformanceFacts]:
    """Facts of a training without a DataLoader, by the number of samples in each phase."""
    lines = [
        LineSamples(phase, "train.py:7", "batches", "read()", "", False, count) for phase, count in samples.items()
    ]
    return {"worker_0": PerformanceFacts(processors=8, lines=tuple(lines))}


def numbered(values: Iterable[float]) -> dict[int, float]:
    """These values, from step 1 on."""
    return {step: float(value) for step, value in enumerate(values, 1)}
