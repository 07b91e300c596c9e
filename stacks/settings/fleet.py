"""Settings of the fleet: the workers on ECS that share all runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stacks.settings.setting import between, setting

# Megabytes of memory that Fargate offers with so much of a processor: least, most, step.
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-cpu-memory-error.html
FARGATE_MEMORY_MB: Mapping[int, tuple[int, int, int]] = {
    512: (1024, 4096, 1024),
    1024: (2048, 8192, 1024),
    2048: (4096, 16_384, 1024),
    4096: (8192, 30_720, 1024),
    8192: (16_384, 61_440, 4096),
    16_384: (32_768, 122_880, 8192),
}


def _check_cpu(value: int) -> None:
    if value not in FARGATE_MEMORY_MB:
        raise ValueError(f"Fargate offers {', '.join(map(str, FARGATE_MEMORY_MB))}")


@dataclass(frozen=True)
class FleetSettings:
    """The fleet, of the evaluator's mode `fleet`.

    least_workers    `fleet`: workers that always run; 0: none while nothing trains
    most_workers     workers at most
    runs_per_worker  runs that a worker judges at once
    cpu_units        of a worker; 1024 are one processor
    memory_mb        of a worker, as Fargate offers it with that processor
    """

    least_workers: int = setting(1, between(0, 1_000), key="fleet_least_workers")
    most_workers: int = setting(10, between(1, 1_000), key="fleet_most_workers")
    runs_per_worker: int = setting(8, between(1, 200), key="fleet_runs_per_worker")
    cpu_units: int = setting(1024, _check_cpu, key="fleet_cpu_units")
    memory_mb: int = setting(4096, between(1024, 122_880), key="fleet_memory_mb")


def fleet_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) of settings that do not go together. `values`: all, each of the right type."""
    least, most = values["fleet_least_workers"], values["fleet_most_workers"]
    if least > most:
        yield "fleet_least_workers", f"is more than fleet_most_workers, {most}."
    cpu, memory = values["fleet_cpu_units"], values["fleet_memory_mb"]
    if cpu not in FARGATE_MEMORY_MB:
        return
    lowest, highest, step = FARGATE_MEMORY_MB[cpu]
    if not lowest <= memory <= highest or (memory - lowest) % step:
        yield "fleet_memory_mb", f"must be {lowest} to {highest} in steps of {step} beside {cpu} units of a processor."
