"""The machine's metrics at one moment, in the words of SageMaker Debugger where it has any."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from trackside.speed.machine.gpu_readings import GpuReader, GpuState
from trackside.speed.machine.proc_readings import (
    CpuTime,
    ProcessState,
    cgroup_paths,
    cpu_times,
    disk_counts,
    limit_bytes,
    memory_used_percent,
    network_counts,
    pressure_us,
    process_state,
    throttled_us,
)

MOST_PROCESSES = 256  # of one training
_MOST_BYTES = 1 << 20  # of one file in /proc
_BYTES_A_CPU = 200  # at most, of a line in /proc/stat
_RESOURCES = ("cpu", "memory", "io")
_metric = tuple.__new__  # a named tuple's own is a function of Python


class Metric(NamedTuple):
    """One number of a sample: (`cpu`, `cpu0`, `CPUUtilization`, 4.76)."""

    type: str
    name: str
    dimension: str
    value: float


class OpenFiles:
    """Files of the kernel that stay open, for reading one costs less than opening it.

    Args:
        root: The folder in the place of /.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._descriptors: dict[str, int] = {}

    def read(self, path: str, *, most_bytes: int = _MOST_BYTES) -> bytes:
        """Return the content; b"" for a file that cannot be read."""
        try:
            descriptor = self._descriptors.get(path)
            if descriptor is None:
                descriptor = self._descriptors[path] = os.open(os.path.join(self._root, path), os.O_RDONLY)
            return os.pread(descriptor, most_bytes, 0) if descriptor >= 0 else b""
        except OSError:
            self._descriptors[path] = -1
            return b""

    def read_once(self, path: str) -> bytes:
        """Return the content of a file that may be gone the next time; b"" for one that cannot be read."""
        try:
            descriptor = os.open(os.path.join(self._root, path), os.O_RDONLY)
            try:
                return os.read(descriptor, _MOST_BYTES)
            finally:
                os.close(descriptor)
        except OSError:
            return b""


class SystemMetrics:
    """Samples the machine. The first sample has no rates: they are differences to the one before.

    Args:
        files: The kernel's files.
        process: The process whose share, with its children's, is measured; None for none.
        gpus: The reader of accelerators; None without any.
        clock: Returns seconds, for rates.
    """

    def __init__(
        self,
        files: OpenFiles,
        *,
        process: int | None = None,
        gpus: GpuReader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files, self._process, self._gpus, self._clock = files, process, gpus, clock
        self._cpus: dict[str, CpuTime] = {}
        self._counts: dict[tuple[str, str, str], tuple[float, float]] = {}  # metric -> time, count
        self._processes: dict[int, ProcessState] = {}
        self._processes_at = 0.0
        self._tick_seconds = 1 / os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._stat_bytes = _BYTES_A_CPU * (1 + (os.cpu_count() or 1))
        self._groups = _group_files(files.read_once("proc/self/cgroup"))

    def sample(self, *, has_processes: bool = True) -> list[Metric]:
        """Return the present metrics. Nothing raises for a file that the machine lacks.

        Args:
            has_processes: True to look at the training's processes, which costs more than the rest.
        """
        now = self._clock()
        found = list(self._processors())
        used = memory_used_percent(self._files.read("proc/meminfo"))
        if used is not None:
            found.append(Metric("memory", "MemoryUsedPercent", "Platform", used))
        found += self._devices(now)
        found += self._container(now)
        if has_processes and self._process is not None:
            found += self._training(now)
        if self._gpus is not None:
            for gpu in self._gpus.read():
                found += _gpu_metrics(gpu)
        return found

    def _processors(self) -> Iterator[Metric]:
        before, now = self._cpus, cpu_times(self._files.read("proc/stat", most_bytes=self._stat_bytes))
        self._cpus = now
        for name, (busy, waiting, total) in now.items():
            then = before.get(name)
            if then is None or total <= then[2]:  # no tick of the clock has passed since
                continue
            share = 100 / (total - then[2])
            used, waited = share * (busy - then[0]), share * (waiting - then[1])
            used, waited = used if used > 0 else 0.0, waited if waited > 0 else 0.0  # a counter may be set back
            if name == "cpu":  # the original's readers sum up the cores themselves
                yield Metric("processors", "total", "CPUUtilizationTotal", used)
                yield Metric("processors", "total", "I/OWaitPercentageTotal", waited)
            else:
                yield _metric(Metric, ("cpu", name, "CPUUtilization", used))
                yield _metric(Metric, ("cpu", name, "I/OWaitPercentage", waited))

    def _devices(self, now: float) -> Iterator[Metric]:
        if text := self._files.read("proc/diskstats"):
            disks = disk_counts(text)
            yield from self._rate("i/o", "DiskReadBytesPerSecond", "Disk", disks.read_bytes, now)
            yield from self._rate("i/o", "DiskWriteBytesPerSecond", "Disk", disks.written_bytes, now)
            yield from self._rate("i/o", "DiskBusyPercent", "Disk", disks.busy_ms / 10, now)
        if text := self._files.read("proc/net/dev"):
            network = network_counts(text)
            yield from self._rate("network", "ReceiveBytesPerSecond", "Algorithm", network.received_bytes, now)
            yield from self._rate("network", "TransmitBytesPerSecond", "Algorithm", network.sent_bytes, now)
        for resource in _RESOURCES:
            stalled = pressure_us(self._files.read(f"proc/pressure/{resource}", most_bytes=256))
            if stalled is not None:
                yield from self._rate("pressure", resource, "PressurePercentage", stalled / 1e4, now)

    def _container(self, now: float) -> Iterator[Metric]:
        used, limit, throttling = self._groups
        limit_found = limit_bytes(self._files.read(limit))
        used_found = limit_bytes(self._files.read(used))
        if used_found is not None:
            yield Metric("container", "MemoryBytes", "Container", used_found)
            if limit_found:
                yield Metric("container", "ContainerMemoryUsedPercent", "Container", 100 * used_found / limit_found)
        throttled = throttled_us(self._files.read(throttling, most_bytes=4096))
        if throttled is not None:
            yield from self._rate("container", "ThrottledPercent", "Container", throttled / 1e4, now)

    def _training(self, now: float) -> Iterator[Metric]:
        before, found = self._processes, self._states(self._process or 0)
        elapsed, self._processes, self._processes_at = now - self._processes_at, found, now
        if not found:
            return
        yield Metric("process", "training", "ProcessMemoryBytes", sum(state.resident_bytes for state in found.values()))
        yield Metric("process", "training", "ProcessCount", len(found))
        waiting = sum(state.is_in_disk_wait for state in found.values())
        yield Metric("process", "training", "ProcessesInDiskWait", waiting)
        if before and elapsed > 0:
            ticks = sum(state.cpu_ticks - before.get(pid, (0, 0))[0] for pid, state in found.items())
            yield Metric("process", "training", "ProcessCPUUtilization", 100 * ticks * self._tick_seconds / elapsed)

    def _states(self, root: int) -> dict[int, ProcessState]:
        """Return the state of a process and its descendants."""
        found: dict[int, ProcessState] = {}
        waiting = [root]
        while waiting and len(found) < MOST_PROCESSES:
            pid = waiting.pop()
            state = process_state(self._files.read_once(f"proc/{pid}/stat"), page_bytes=self._page_bytes)
            if state is not None and pid not in found:
                found[pid] = state
                waiting += map(int, self._files.read_once(f"proc/{pid}/task/{pid}/children").split())
        return found

    def _rate(self, kind: str, name: str, dimension: str, count: float, now: float) -> Iterator[Metric]:
        """Yield the increase a second since the sample before. A counter that was reset has none."""
        key = (kind, name, dimension)
        then = self._counts.get(key)
        self._counts[key] = now, count
        if then is not None and now > then[0] and count >= then[1]:
            yield Metric(kind, name, dimension, (count - then[1]) / (now - then[0]))


def _gpu_metrics(gpu: GpuState) -> Iterator[Metric]:
    for dimension, value in (
        ("GPUUtilization", gpu.busy_percent),
        ("GPUMemoryUtilization", gpu.memory_percent),
        ("GPUPowerWatts", gpu.power_watts),
        ("GPUClockMHz", gpu.clock_mhz),
        ("GPUTemperature", gpu.temperature_celsius),
        ("GPUThrottleReasons", gpu.throttle_reasons),
    ):
        if value is not None:
            yield Metric("gpu", f"gpu{gpu.number}", dimension, float(value))


def _group_files(cgroup: bytes) -> tuple[str, str, str]:
    """Return the files of this container: memory in use, its limit, the time without a processor."""
    paths = cgroup_paths(cgroup)
    if "memory" in paths:
        memory, cpu = f"sys/fs/cgroup/memory{paths['memory']}", f"sys/fs/cgroup/cpu{paths.get('cpu', '')}"
        return f"{memory}/memory.usage_in_bytes", f"{memory}/memory.limit_in_bytes", f"{cpu}/cpu.stat"
    group = f"sys/fs/cgroup{paths.get('', '')}"
    return f"{group}/memory.current", f"{group}/memory.max", f"{group}/cpu.stat"
