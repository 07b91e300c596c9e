"""The memory that is free, by the files of Linux, and the copies for which there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackside.capture.ground.free_memory import KEPT_FREE_BYTES, LOOK_EVERY_BYTES, MemoryRoom, free_bytes

MIB, GIB = 1 << 20, 1 << 30
MEMINFO = "MemTotal:       24000000 kB\nMemFree:          100000 kB\nMemAvailable:    8388608 kB\n"
V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"
SECOND = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/pod/job\n"}
FIRST = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/1\n"}
LIMITED = {"proc/meminfo": MEMINFO, "proc/self/status": "VmSize:\t 4194304 kB\nVmData:\t 1048576 kB\n"}


def limits(data: str, space: str) -> str:
    return (
        f"Limit                     Soft Limit           Hard Limit           Units\n"
        f"Max data size             {data:21}unlimited            bytes\n"
        f"Max address space         {space:21}unlimited            bytes\n"
    )


@pytest.mark.parametrize(
    ("files", "free"),
    [
        pytest.param({}, None, id="no Linux"),
        pytest.param({"proc/meminfo": "MemTotal: 1 kB\n"}, None, id="an old kernel"),
        pytest.param({"proc/meminfo": "MemAvailable: many kB\nMemAvailable:\n"}, None, id="no number"),
        pytest.param({"proc/meminfo": MEMINFO}, 8 * GIB, id="a machine"),
        pytest.param(SECOND, 8 * GIB, id="a group without files"),
        pytest.param(
            SECOND | {f"{V2}/pod/job/memory.max": "max\n", f"{V2}/pod/job/memory.current": f"{GIB}\n"},
            8 * GIB,
            id="no limit",
        ),
        pytest.param(
            SECOND | {f"{V2}/pod/job/memory.max": f"{3 * GIB}\n", f"{V2}/pod/job/memory.current": f"{GIB}\n"},
            2 * GIB,
            id="a limit",
        ),
        pytest.param(
            SECOND
            | {
                f"{V2}/pod/job/memory.max": f"{3 * GIB}\n",
                f"{V2}/pod/job/memory.current": f"{3 * GIB}\n",
                f"{V2}/pod/job/memory.stat": f"anon {2 * GIB}\nfile 7\ninactive_file {GIB}\n",
            },
            GIB,
            id="files that are cached are no use of memory",
        ),
        pytest.param(
            SECOND
            | {
                f"{V2}/pod/job/memory.max": f"{6 * GIB}\n",
                f"{V2}/pod/job/memory.current": f"{GIB}\n",
                f"{V2}/pod/memory.max": f"{4 * GIB}\n",
                f"{V2}/pod/memory.current": f"{3 * GIB}\n",
            },
            GIB,
            id="the limit of the group around it",
        ),
        pytest.param(
            {
                **SECOND,
                "proc/self/cgroup": "0::/\n",
                f"{V2}/memory.max": f"{GIB}\n",
                f"{V2}/memory.current": f"{2 * GIB}",
            },
            0,
            id="more in use than allowed, seen from within",
        ),
        pytest.param(
            FIRST
            | {
                f"{V1}/docker/1/memory.limit_in_bytes": f"{2 * GIB}\n",
                f"{V1}/docker/1/memory.usage_in_bytes": f"{GIB}\n",
                f"{V1}/docker/1/memory.stat": f"total_inactive_file {GIB // 2}\n",
            },
            GIB * 3 // 2,
            id="version 1",
        ),
        pytest.param(
            FIRST | {f"{V1}/memory.limit_in_bytes": f"{2**63 - 4096}\n", f"{V1}/memory.usage_in_bytes": f"{GIB}\n"},
            8 * GIB,
            id="version 1 without a limit",
        ),
        pytest.param(LIMITED | {"proc/self/limits": limits("unlimited", "unlimited")}, 8 * GIB, id="no ulimit"),
        pytest.param(LIMITED | {"proc/self/limits": limits(f"{3 * GIB}", "unlimited")}, 2 * GIB, id="ulimit -d"),
        pytest.param(LIMITED | {"proc/self/limits": limits(f"{3 * GIB}", f"{5 * GIB}")}, GIB, id="ulimit -d and -v"),
        pytest.param(
            {"proc/self/limits": limits("unlimited", f"{GIB}")}, GIB, id="a ulimit, and nobody knows what is in use"
        ),
    ],
)
def test_what_is_free(files: dict[str, str], free: int | None, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="ascii")
    assert free_bytes(tmp_path) == free


def test_this_machine_has_some() -> None:
    free = free_bytes()
    assert free is None or free > 16 * MIB


@pytest.mark.parametrize(
    ("size", "free", "lacks"),
    [
        (LOOK_EVERY_BYTES, KEPT_FREE_BYTES + LOOK_EVERY_BYTES, ""),
        (LOOK_EVERY_BYTES, None, ""),
        (LOOK_EVERY_BYTES - 1, 0, ""),
        (
            LOOK_EVERY_BYTES,
            KEPT_FREE_BYTES + LOOK_EVERY_BYTES - 1,
            "a copy of 64 MiB of tensors is due, and 320 MiB of",
        ),
        (8 * GIB, 5 * GIB, "a copy of 8.0 GiB of tensors is due, and 5.0 GiB of memory are free. Save fewer tensors"),
    ],
)
def test_a_copy_for_which_there_is_no_memory(size: int, free: int | None, lacks: str) -> None:
    found = MemoryRoom(lambda: free).lacks(size)
    assert found.startswith(lacks)
    assert bool(found) == bool(lacks)


def test_it_looks_once_for_each_64_mib() -> None:
    looks: list[None] = []
    room = MemoryRoom(lambda: looks.append(None) or GIB)
    for _ in range(4 * 64):
        assert room.lacks(MIB) == ""
    assert len(looks) == 4
