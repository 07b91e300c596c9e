"""Which values the settings take that say what judges runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stacks.setting_checks import between
from trackside.contracts.deployment.evaluators import EVALUATOR_MODES
from trackside.contracts.errors import did_you_mean

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


def _check_mode(value: str) -> None:
    if value not in EVALUATOR_MODES:
        modes = dict.fromkeys(EVALUATOR_MODES)
        raise ValueError(f"it must be one of {', '.join(EVALUATOR_MODES)}. {did_you_mean(value, modes)}".strip())


def _check_cpu(value: int) -> None:
    if value not in FARGATE_MEMORY_MB:
        raise ValueError(f"Fargate offers {', '.join(map(str, FARGATE_MEMORY_MB))}")


EVALUATOR_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "evaluator_mode": _check_mode,
    "evaluator_most_rule_jobs": between(1, 100),
    "fleet_least_workers": between(0, 1_000),
    "fleet_most_workers": between(1, 1_000),
    "fleet_runs_per_worker": between(1, 200),
    "fleet_cpu_units": _check_cpu,
    "fleet_memory_mb": between(1024, 122_880),
}


def fleet_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(setting, what is wrong with it beside the others). `values`: those that are of the right type."""
    least, most = values.get("fleet_least_workers", 1), values.get("fleet_most_workers", 10)
    if least > most:
        yield "fleet_least_workers", f"is more than fleet_most_workers, {most}."
    cpu, memory = values.get("fleet_cpu_units", 1024), values.get("fleet_memory_mb", 4096)
    if cpu not in FARGATE_MEMORY_MB:
        return
    lowest, highest, step = FARGATE_MEMORY_MB[cpu]
    if not lowest <= memory <= highest or (memory - lowest) % step:
        yield "fleet_memory_mb", f"must be {lowest} to {highest} in steps of {step} beside {cpu} units of a processor."
