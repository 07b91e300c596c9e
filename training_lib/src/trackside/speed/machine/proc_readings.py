"""Parsers of Linux's counters: processors, memory, disks, network, pressure, containers and processes. All are pure.

A parser returns counters since the boot of the machine, or present amounts. Rates are differences of two readings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SECTOR_BYTES = 512  # of /proc/diskstats, whatever the device has
_NO_DISK = (b"loop", b"ram", b"zram", b"dm-", b"md", b"sr")
_UNLIMITED_BYTES = 1 << 60  # a limit above it is none
_COUNTS = 8  # of a processor: guests, which follow, are part of `user`
_cpu_time = tuple.__new__  # a named tuple's own is a function of Python


class CpuTime(NamedTuple):
    """Time of one processor since boot, in clock ticks."""

    busy: int
    waiting: int  # idle, while a process waited for a disk
    total: int


class DiskCounts(NamedTuple):
    """Counts of all disks since boot."""

    read_bytes: int
    written_bytes: int
    busy_ms: int  # of the busiest disk


class NetworkCounts(NamedTuple):
    """Bytes of all network devices since boot, without the loopback."""

    received_bytes: int
    sent_bytes: int


class ProcessState(NamedTuple):
    """State of one process."""

    cpu_ticks: int
    resident_bytes: int
    is_in_disk_wait: bool = False


def cpu_times(stat: bytes) -> dict[str, CpuTime]:
    """Return the time of each processor by its name, `cpu` for all together, from /proc/stat."""
    end = stat.find(b"\n", stat.rfind(b"\ncpu") + 1)
    lines = stat[:end] if end >= 0 else stat
    fields = lines.decode("ascii", "replace").split()
    width = len(lines.partition(b"\n")[0].split())
    names = fields[::width] if width else []
    if width <= _COUNTS or len(fields) % width or not all(name.startswith("cpu") for name in names):
        return _uneven_cpu_times(lines)
    columns = [map(int, fields[place::width]) for place in range(1, _COUNTS + 1)]
    return {  # by columns, for a machine may have hundreds of processors
        name: _cpu_time(CpuTime, (busy := user + nice + system + a + b + c, waiting, busy + idle + waiting))
        for name, user, nice, system, idle, waiting, a, b, c in zip(names, *columns, strict=True)
    }


def _uneven_cpu_times(lines: bytes) -> dict[str, CpuTime]:
    """Return the same of lines that have not all equally many numbers, as of an old kernel."""
    found: dict[str, CpuTime] = {}
    for line in lines.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        name, *fields = line.split()
        user, nice, system, idle, waiting, *others = map(int, fields[:_COUNTS])
        busy = user + nice + system + sum(others)
        found[name.decode("ascii")] = CpuTime(busy, waiting, busy + idle + waiting)
    return found


def memory_used_percent(meminfo: bytes) -> float | None:
    """Return the share of the memory that no new process could have, in percent, from /proc/meminfo."""
    total = _kilobytes(meminfo, b"MemTotal:")
    available = _kilobytes(meminfo, b"MemAvailable:")
    return 100 * (total - available) / total if total and available is not None else None


def disk_counts(diskstats: bytes) -> DiskCounts:
    """Return the counts of whole disks, from /proc/diskstats: a partition follows its disk."""
    read = written = busy = 0
    disk = b" "
    for line in diskstats.split(b"\n"):
        fields = line.split()
        if len(fields) < 14 or fields[2].startswith(_NO_DISK) or fields[2].startswith(disk):
            continue
        disk = fields[2]
        read += int(fields[5]) * SECTOR_BYTES
        written += int(fields[9]) * SECTOR_BYTES
        busy = max(busy, int(fields[12]))
    return DiskCounts(read, written, busy)


def network_counts(devices: bytes) -> NetworkCounts:
    """Return the bytes of all devices but the loopback, from /proc/net/dev."""
    received = sent = 0
    for line in devices.split(b"\n"):
        name, colon, counts = line.partition(b":")
        fields = counts.split()
        if colon and name.strip() != b"lo" and len(fields) >= 9:
            received += int(fields[0])
            sent += int(fields[8])
    return NetworkCounts(received, sent)


def pressure_us(pressure: bytes) -> int | None:
    """Return the time in which some process waited for the resource, in microseconds, from /proc/pressure/*."""
    line, total, digits = pressure.partition(b"\n")[0].partition(b"total=")
    return int(digits) if line.startswith(b"some") and total else None


def cgroup_paths(cgroup: bytes) -> Mapping[str, str]:
    """Return the path of this process's group by controller, from /proc/self/cgroup; "" is the group of version 2."""
    found = {}
    for line in cgroup.decode("utf-8", "replace").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            found[controller] = path.rstrip("/")
    return found


def limit_bytes(text: bytes) -> int | None:
    """Return a limit of a container in bytes; None for no limit."""
    digits = text.strip()
    return int(digits) if digits.isdigit() and int(digits) < _UNLIMITED_BYTES else None


def throttled_us(cpu_stat: bytes) -> int | None:
    """Return the time in which a container had used up its processor limit, in microseconds, from its cpu.stat."""
    for line in cpu_stat.split(b"\n"):
        name, _, digits = line.partition(b" ")
        if name in {b"throttled_usec", b"throttled_time"} and digits.isdigit():
            return int(digits) if name == b"throttled_usec" else int(digits) // 1000
    return None


def process_state(stat: bytes, *, page_bytes: int) -> ProcessState | None:
    """Return the state of a process from /proc/<pid>/stat; None for one that is gone."""
    fields = stat.rpartition(b")")[2].split()  # a name may hold spaces and brackets
    if len(fields) < 22:
        return None
    return ProcessState(int(fields[11]) + int(fields[12]), int(fields[21]) * page_bytes, fields[0] == b"D")


def _kilobytes(meminfo: bytes, name: bytes) -> int | None:
    _, found, rest = meminfo.partition(name)
    digits = rest.split(None, 1)[0] if found and rest.strip() else b""
    return int(digits) if digits.isdigit() else None
