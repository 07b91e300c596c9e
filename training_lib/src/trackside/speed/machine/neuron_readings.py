"""State of AWS's NeuronCores (Trainium, Inferentia), from the program `neuron-monitor` of their tools.

It prints one JSON report a second. Its fields are those of the Neuron Monitor User Guide. It runs as a child of the
sampler, and ends with it: its next report meets a closed pipe. Cores that no process uses are in no report.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from trackside.speed.machine.gpu_readings import GpuState

PROGRAM = "neuron-monitor"
_PLACE = "/opt/aws/neuron/bin"  # where the package puts it, which may not be on the path
_METRICS = [{"type": "neuroncore_counters"}, {"type": "memory_used"}]
CONFIGURATION = {"period": "1s", "neuron_runtimes": [{"tag_filter": ".*", "metrics": _METRICS}], "system_metrics": []}
OLD_SECONDS = 10.0  # after which a report says nothing of now
_MOST_BYTES = 1 << 20  # of a report that is not yet whole


class NeuronCores:
    """AWS's NeuronCores.

    Args:
        output: The pipe from `neuron-monitor`; reading it does not wait.
        clock: Returns seconds.
    """

    def __init__(self, output: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._output, self._clock = output, clock
        self._rest = b""
        self._states: list[GpuState] = []
        self._read_at = clock()
        os.set_blocking(output, False)

    def read(self) -> Iterator[GpuState]:
        """Yield the state of each core in use, of the newest report; see `GpuReader`."""
        try:
            while new := os.read(self._output, 1 << 16):
                self._rest += new
        except OSError:  # nothing more for now
            pass
        *lines, self._rest = self._rest.split(b"\n")
        self._rest = self._rest if len(self._rest) < _MOST_BYTES else b""
        if lines:
            self._states, self._read_at = states_of(lines[-1]), self._clock()
        elif self._clock() - self._read_at > OLD_SECONDS:
            self._states = []
        yield from self._states


def neuron_cores() -> NeuronCores | None:
    """Start `neuron-monitor`, and return a reader of its reports; None on a machine without it."""
    program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=_PLACE)
    if program is None:
        return None
    settings = os.memfd_create(PROGRAM)  # Linux, like these machines: a file that nobody has to remove
    os.write(settings, json.dumps(CONFIGURATION).encode())
    process = subprocess.Popen(
        [program, "-c", f"/proc/self/fd/{settings}"],
        pass_fds=[settings],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    os.close(settings)
    atexit.register(_end, process)
    return NeuronCores(process.stdout.fileno()) if process.stdout is not None else None


def states_of(report: bytes) -> list[GpuState]:
    """Return the state of each core in a report; [] for a text that is none.

    The memory is that of a core's device, all of whose cores share it; older tools do not show its size.
    """
    with suppress(ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        return list(_states(json.loads(report)))
    return []


def _states(report: Mapping[str, Any]) -> Iterator[GpuState]:
    hardware = report.get("neuron_hardware_info") or {}
    device_bytes = hardware.get("neuron_device_memory_size")
    of_device = int(hardware.get("neuroncore_per_device_count") or 1)
    busy: dict[int, float] = {}
    used: dict[int, float] = defaultdict(float)  # by device
    for runtime in report.get("neuron_runtime_data") or ():  # a process each
        found = runtime.get("report") or {}
        cores = (found.get("neuroncore_counters") or {}).get("neuroncores_in_use") or {}
        for core, counters in cores.items():
            busy[int(core)] = max(busy.get(int(core), 0.0), float(counters["neuroncore_utilization"]))
        memory = (found.get("memory_used") or {}).get("neuron_runtime_used_bytes") or {}
        for core, parts in ((memory.get("usage_breakdown") or {}).get("neuroncore_memory_usage") or {}).items():
            used[int(core) // of_device] += sum(map(float, parts.values()))
    for core, percent in sorted(busy.items()):
        device = core // of_device
        yield GpuState(core, percent, 100 * used[device] / device_bytes if device_bytes and device in used else None)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
