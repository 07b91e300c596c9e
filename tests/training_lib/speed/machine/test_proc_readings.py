"""Parsers of /proc, on text from several machines."""

from __future__ import annotations

import pytest

from trackside.speed.machine.proc_readings import (
    CpuTime,
    DiskCounts,
    NetworkCounts,
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

# Linux 6.18 on two cores; Linux 3.10 has no guest_nice.
STAT = b"cpu  100 20 30 500 50 0 5 5 0 0\ncpu0 60 10 20 250 40 0 3 2 0 0\ncpu1 40 10 10 250 10 0 2 3 0\nintr 56 0 0\n"
DISKS = b"""   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9
 254       0 vda 10 0 200 30 40 0 80 60 0 700 90 1 2 3 4 5 6
 254       1 vda1 10 0 200 30 40 0 80 60 0 700 90 1 2 3 4 5 6
 259       0 nvme0n1 1 0 8 1 1 0 16 1 0 900 1
 259       1 nvme0n1p1 1 0 8 1 1 0 16 1 0 900 1
"""
NETWORK = b"""Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0
  eth0: 100 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0
  ens5:7 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0
"""
PROCESS = (
    b"412 (python (x) y) S 1 412 412 0 -1 4194304 10 0 0 0 700 50 1 2 20 0 9 0 100 123456789 25 18446744073709551615"
)


def test_reads_processors() -> None:
    assert cpu_times(STAT) == {
        "cpu": CpuTime(160, 50, 710), "cpu0": CpuTime(95, 40, 385), "cpu1": CpuTime(65, 10, 325),
    }  # fmt: skip
    assert cpu_times(b"") == {}


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        pytest.param(b"MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  250 kB\n", 75.0, id="linux"),
        pytest.param(b"MemTotal:  1000 kB\nMemFree: 1 kB\n", None, id="before-3.14"),
        pytest.param(b"", None, id="none"),
    ],
)
def test_reads_memory(text: bytes, percent: float | None) -> None:
    assert memory_used_percent(text) == percent


def test_counts_each_disk_once_and_leaves_out_those_in_memory() -> None:
    assert disk_counts(DISKS) == DiskCounts(512 * 208, 512 * 96, 900)
    assert disk_counts(b"") == DiskCounts(0, 0, 0)


def test_counts_all_networks_but_the_loopback() -> None:
    assert network_counts(NETWORK) == NetworkCounts(107, 42)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        pytest.param(b"some avg10=0.10 avg60=0.05 avg300=0.01 total=12345\nfull avg10=0 total=9\n", 12345, id="some"),
        pytest.param(b"", None, id="a-kernel-without-pressure"),
        pytest.param(b"full avg10=0.00 total=9\n", None, id="full-alone"),
    ],
)
def test_reads_pressure(text: bytes, microseconds: int | None) -> None:
    assert pressure_us(text) == microseconds


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param(b"0::/kubepods/pod1\n", {"": "/kubepods/pod1"}, id="version-2"),
        pytest.param(b"0::/\n", {"": ""}, id="the-root"),
        pytest.param(b"4:memory:/a/b\n1:cpu,cpuacct:/c\n", {"memory": "/a/b", "cpu": "/c", "cpuacct": "/c"},
                     id="version-1"),
        pytest.param(b"", {}, id="none"),
    ],
)  # fmt: skip
def test_reads_groups(text: bytes, paths: dict[str, str]) -> None:
    assert cgroup_paths(text) == paths


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(b"8589934592\n", 8589934592, id="a-limit"),
        pytest.param(b"max\n", None, id="none-in-version-2"),
        pytest.param(b"9223372036854771712\n", None, id="none-in-version-1"),
        pytest.param(b"", None, id="no-file"),
    ],
)
def test_reads_limits(text: bytes, found: int | None) -> None:
    assert limit_bytes(text) == found


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        pytest.param(b"usage_usec 5\nnr_throttled 2\nthrottled_usec 70\n", 70, id="version-2"),
        pytest.param(b"nr_throttled 2\nthrottled_time 70000\n", 70, id="version-1"),
        pytest.param(b"usage_usec 5\n", None, id="no-limit"),
    ],
)
def test_reads_throttling(text: bytes, microseconds: int | None) -> None:
    assert throttled_us(text) == microseconds


@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param(PROCESS, ProcessState(750, 25 * 4096), id="a-name-with-brackets"),
        pytest.param(PROCESS.replace(b") S", b") D"), ProcessState(750, 25 * 4096, True), id="in-a-disk-wait"),
        pytest.param(b"", None, id="gone"),
        pytest.param(b"412 (x) Z 1", None, id="cut-off"),
    ],
)
def test_reads_processes(text: bytes, state: ProcessState | None) -> None:
    assert process_state(text, page_bytes=4096) == state
