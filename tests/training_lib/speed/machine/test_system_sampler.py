"""The sampler as a process: its files, and its end with its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.patience import HANGS_SECONDS, wait_until
from tests.training_lib.profiling.samples import samples_in
from trackside.environment import inherited
from trackside.speed.machine import system_sampler
from trackside.speed.machine.sampler_process import SamplerProcess
from trackside.speed.machine.system_files import SystemFiles
from trackside.speed.machine.system_metrics import Metric
from trackside.storage.local import LocalStore

MINUTE = 1_700_000_000.0
PARENT = """
import subprocess, sys, time
sampler = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
print(sampler.pid, flush=True)
time.sleep(600)
"""


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def sampler(folder: Path, *, interval_ms: int = 100, is_compact: bool = True) -> SamplerProcess:
    ticks = iter(range(0, 10**6, 10))
    return SamplerProcess(
        f"{folder}/profiler-output",
        process=os.getpid(),
        interval_ms=interval_ms,
        environment=inherited(),
        monotonic=lambda: float(next(ticks)),
        is_compact=is_compact,
    )


def test_writes_samples_until_it_is_ended(tmp_path: Path) -> None:
    one = sampler(tmp_path)
    one.tend()
    profiles = tmp_path / "profiler-output"
    wait_until(lambda: len(samples_in(LocalStore(profiles))) > 40)
    assert [path.suffix for path in files_of(profiles)] == [".open"], "the original's readers leave it alone"
    one.finish()
    one.finish()
    (file,) = files_of(profiles)
    assert file.relative_to(profiles).parts[:2] == ("system", "incremental")
    assert file.name.endswith(".algo-1.tms")
    samples = samples_in(LocalStore(profiles))
    assert {"cpu", "memory", "network", "i/o", "process"} <= {sample.kind for sample in samples}
    assert abs(samples[-1].timestamp - time.time()) < HANGS_SECONDS


def test_writes_lines_of_json_for_the_original_s_readers(tmp_path: Path) -> None:
    one = sampler(tmp_path, is_compact=False)
    one.tend()
    profiles = tmp_path / "profiler-output"
    wait_until(lambda: len(samples_in(LocalStore(profiles))) > 40)
    one.finish()
    (file,) = files_of(profiles)
    assert file.name.endswith(".algo-1.json")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {"cpu", "memory", "network", "i/o", "process"} <= {row["Type"] for row in rows}
    assert all(row.keys() == {"Type", "Name", "Dimension", "Value", "NodeId", "Timestamp"} for row in rows)


def test_is_not_started_without_an_interval(tmp_path: Path) -> None:
    one = sampler(tmp_path, interval_ms=0)
    one.tend()
    assert one.pid is None
    one.finish()
    assert files_of(tmp_path) == []


def test_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", system_sampler.__file__, str(tmp_path), "--interval-ms", "60000"]
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *command], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wait_until(lambda: "system_sampler" in Path(f"/proc/{pid}/cmdline").read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait(HANGS_SECONDS)
    parent.stdout.close()
    wait_until(lambda: is_gone(pid), "the end of the sampler")


def is_gone(pid: int) -> bool:
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def test_each_minute_has_a_file_of_whole_lines(tmp_path: Path) -> None:
    files = SystemFiles(str(tmp_path), node="algo-2", is_compact=False)
    for second in (0.0, 0.5, 59.0, 60.5):
        files.add([Metric("cpu", "cpu0", "CPUUtilization", second)], wall_time=MINUTE + second)
    assert [path.name for path in files_of(tmp_path)] == ["1700000000.algo-2.json"]
    files.close()
    found = files_of(tmp_path)
    first = found[0]
    assert [path.name for path in found] == ["1700000000.algo-2.json", "1700000060.algo-2.json"]
    assert first.parent.name == time.strftime("%Y%m%d%H", time.gmtime(MINUTE))
    assert [sample.value for sample in samples_in(LocalStore(tmp_path))] == [0.0, 0.5, 59.0, 60.5]
    assert first.read_text().endswith("}\n")


def test_each_ten_minutes_have_a_compact_file(tmp_path: Path) -> None:
    files = SystemFiles(str(tmp_path), node="algo-2")
    for second in (0.0, 599.5, 600.0, 600.5):
        files.add([Metric("cpu", "cpu0", "CPUUtilization", second / 10)], wall_time=MINUTE + second)
    files.close()
    assert [path.name for path in files_of(tmp_path)] == ["1700000000.algo-2.tms", "1700000600.algo-2.tms"]
    assert [sample.value for sample in samples_in(LocalStore(tmp_path))] == [0.0, 59.95, 60.0, 60.05]
