"""The choice of the reader of a machine's accelerators."""

from __future__ import annotations

import os

from trackside.speed.machine.gpu_readings import GpuReader, nvidia_gpus

_AMD, _NEURON = "/dev/kfd", "/dev/neuron0"  # of their drivers


def gpu_reader() -> GpuReader | None:
    """Return the reader of this machine's accelerators; None without any, or without a package that it needs."""
    for open_reader in (nvidia_gpus, _amd_gpus, _neuron_cores):
        try:
            reader = open_reader()
        except Exception:  # noqa: BLE001, S112 - the machine's other metrics are worth having alone
            continue
        if reader is not None:
            return reader
    return None


def _amd_gpus() -> GpuReader | None:
    if not os.path.exists(_AMD):  # of ROCm: without it no training uses these cards
        return None
    from trackside.speed.machine.amd_readings import AmdGpus

    return AmdGpus() or None


def _neuron_cores() -> GpuReader | None:
    if not os.path.exists(_NEURON):
        return None
    from trackside.speed.machine.neuron_readings import neuron_cores

    return neuron_cores()
