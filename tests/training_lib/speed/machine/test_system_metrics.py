"""Samples of a machine: rates between two readings, and nothing where a file is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trackside.speed.machine.gpu_readings import GpuState, Nvml
from trackside.speed.machine.system_metrics import OpenFiles, SystemMetrics

BEFORE = {
    "stat": "cpu  100 0 0 100 0 0 0 0\ncpu0 100 0 0 100 0 0 0 0\nintr 1\n",
    "meminfo": "MemTotal: 1000 kB\nMemAvailable: 400 kB\n",
    "diskstats": "254 0 vda 1 0 10 1 1 0 20 1 0 100 1\n",
    "net/dev": "eth0: 1000 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n",
    "pressure/cpu": "some avg10=0 total=1000000\n",
    "self/cgroup": "0::/\n",
    "7/stat": "7 (python) S 1 7 7 0 -1 0 0 0 0 0 100 0 0 0 20 0 1 0 1 1 10 1\n",
    "7/task/7/children": "8 ",
    "8/stat": "8 (worker) S 7 7 7 0 -1 0 0 0 0 0 10 0 0 0 20 0 1 0 1 1 5 1\n",
}
AFTER = {
    "stat": "cpu  175 0 0 115 10 0 0 0\ncpu0 175 0 0 115 10 0 0 0\nintr 1\n",
    "diskstats": "254 0 vda 1 0 30 1 1 0 20 1 0 600 1\n",
    "net/dev": "eth0: 3000 1 0 0 0 0 0 0 400 1 0 0 0 0 0 0\n",
    "pressure/cpu": "some avg10=0 total=1500000\n",
    "7/stat": "7 (python) S 1 7 7 0 -1 0 0 0 0 0 250 0 0 0 20 0 1 0 1 1 10 1\n",
    "8/stat": "8 (worker) D 7 7 7 0 -1 0 0 0 0 0 60 0 0 0 20 0 1 0 1 1 5 1\n",
}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / "proc" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def sampled(metrics: SystemMetrics) -> dict[str, float]:
    return {f"{metric.name} {metric.dimension}": metric.value for metric in metrics.sample()}


def test_rates_are_differences_of_two_samples(tmp_path: Path) -> None:
    write(tmp_path, BEFORE)
    metrics = SystemMetrics(OpenFiles(str(tmp_path)), process=7, clock=Clock())
    first = sampled(metrics)
    page = os.sysconf("SC_PAGE_SIZE")
    assert first == {
        "MemoryUsedPercent Platform": 60.0, "training ProcessMemoryBytes": 15 * page, "training ProcessCount": 2,
        "training ProcessesInDiskWait": 0,
    }  # fmt: skip
    write(tmp_path, AFTER)
    found = sampled(metrics)
    ticks = os.sysconf("SC_CLK_TCK")
    assert found == {
        **first,
        "total CPUUtilizationTotal": 75.0, "cpu0 CPUUtilization": 75.0,
        "total I/OWaitPercentageTotal": 10.0, "cpu0 I/OWaitPercentage": 10.0,
        "DiskReadBytesPerSecond Disk": 20 * 512, "DiskWriteBytesPerSecond Disk": 0.0, "DiskBusyPercent Disk": 50.0,
        "ReceiveBytesPerSecond Algorithm": 2000.0,  # and none for the sent bytes, for that counter was reset
        "cpu PressurePercentage": 50.0,
        "training ProcessCPUUtilization": pytest.approx(100 * 200 / ticks), "training ProcessesInDiskWait": 1,
    }  # fmt: skip


def test_a_machine_without_these_files_has_no_metrics(tmp_path: Path) -> None:
    metrics = SystemMetrics(OpenFiles(str(tmp_path)), process=7, clock=Clock())
    assert [*metrics.sample(), *metrics.sample()] == []


def test_reads_this_machine() -> None:
    metrics = SystemMetrics(OpenFiles(), process=os.getpid())
    dimensions = {metric.dimension for metric in (*metrics.sample(), *metrics.sample())}
    assert {"Platform", "Algorithm", "Disk", "ProcessMemoryBytes"} <= dimensions


class TwoGpus:
    def read(self) -> Iterator[GpuState]:
        yield GpuState(0, 97.0, 41.5, 310.0, 1980.0, 64.0, 4)
        yield GpuState(1, 3.0)


def test_accelerators_have_the_metrics_that_they_offer(tmp_path: Path) -> None:
    metrics = SystemMetrics(OpenFiles(str(tmp_path)), gpus=TwoGpus(), clock=Clock())
    assert sampled(metrics) == {
        "gpu0 GPUUtilization": 97.0, "gpu0 GPUMemoryUtilization": 41.5, "gpu0 GPUPowerWatts": 310.0,
        "gpu0 GPUClockMHz": 1980.0, "gpu0 GPUTemperature": 64.0, "gpu0 GPUThrottleReasons": 4.0,
        "gpu1 GPUUtilization": 3.0,
    }  # fmt: skip


def test_a_value_that_a_gpu_does_not_offer_is_absent() -> None:
    class NVMLError(Exception):
        pass

    def refuse(*_: Any) -> float:
        raise NVMLError("Not Supported")

    nvml = SimpleNamespace(
        NVMLError=NVMLError, NVML_CLOCK_SM=1, NVML_TEMPERATURE_GPU=0,
        nvmlDeviceGetCount=lambda: 1, nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=88, memory=12),
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(used=20, total=80),
        nvmlDeviceGetPowerUsage=refuse, nvmlDeviceGetClockInfo=refuse,
        nvmlDeviceGetTemperature=lambda *_: 55, nvmlDeviceGetCurrentClocksThrottleReasons=refuse,
    )  # fmt: skip
    assert list(Nvml(nvml).read()) == [GpuState(0, 88.0, 25.0, None, None, 55.0, None)]
