"""State of the accelerators: a small interface, and NVIDIA's by the optional package nvidia-ml-py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple, Protocol

_DRIVER = "/proc/driver/nvidia"
_MILLIWATTS = 1000


class GpuState(NamedTuple):
    """State of one accelerator; None for a value that it does not offer."""

    number: int
    busy_percent: float | None = None
    memory_percent: float | None = None
    power_watts: float | None = None
    clock_mhz: float | None = None
    temperature_celsius: float | None = None
    throttle_reasons: int | None = None  # bits, as NVML counts them


class GpuReader(Protocol):
    """A reader of accelerators. To support another vendor, see `accelerators.py`."""

    def read(self) -> Iterator[GpuState]:
        """Yield the state of each accelerator. Nothing raises."""


class Nvml:
    """NVIDIA's accelerators.

    Args:
        nvml: The module `pynvml`, initialised.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._devices = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]

    def read(self) -> Iterator[GpuState]:
        """Yield the state of each accelerator; see `GpuReader`."""
        nvml = self._nvml
        for index, device in enumerate(self._devices):
            busy = self._value(lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu)  # noqa: B023 - called at once
            memory = self._value(lambda: _memory_percent(nvml.nvmlDeviceGetMemoryInfo(device)))  # noqa: B023 - as above
            power = self._value(lambda: nvml.nvmlDeviceGetPowerUsage(device) / _MILLIWATTS)  # noqa: B023 - as above
            clock = self._value(lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM))  # noqa: B023 - as above
            heat = self._value(lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU))  # noqa: B023
            reasons = self._value(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))  # noqa: B023 - above
            bits = None if reasons is None else int(reasons)
            yield GpuState(index, busy, memory, power, clock, heat, bits)

    def _value(self, read: Callable[[], Any]) -> float | None:
        try:
            return float(read())
        except self._nvml.NVMLError:  # this device does not offer it
            return None


def nvidia_gpus() -> Nvml | None:
    """Return the reader of NVIDIA's accelerators; None without any.

    Raises:
        Exception: The package nvidia-ml-py is missing, or the driver refuses.
    """
    if not os.path.exists(_DRIVER):
        return None
    nvml = import_module("pynvml")
    nvml.nvmlInit()
    return Nvml(nvml)


def _memory_percent(memory: Any) -> float:
    return 100 * float(memory.used) / float(memory.total)
