"""The machine's metrics: the real smdebug reads ours, and we read its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from smdebug.profiler import LocalSystemMetricsReader

from tests.smdebug.conftest import Peer
from tests.training_lib.profiling.samples import samples_in
from trackside.exchange.machine_files import export_machine_samples
from trackside.records.machine.system_metrics_file import decode_system_metrics
from trackside.speed.machine.gpu_readings import GpuState
from trackside.speed.machine.system_files import SystemFiles
from trackside.speed.machine.system_metrics import OpenFiles, SystemMetrics
from trackside.speed.rules.load_balancing import LoadBalancing
from trackside.speed.rules.low_gpu_utilization import LowGpuUtilization
from trackside.speed.rules.throttled_gpu import ThrottledGpu
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.trial.trial import Trial

MINUTE = 1_700_000_000.0
# The first and the last line of a file that SageMaker wrote (awslabs/sagemaker-debugger, tests/profiler/resources).
AWS = b"""{"Type": "cpu", "Name":"cpu0", "Dimension": "CPUUtilization", "Value":4.76,"NodeId":"algo-1","Timestamp":1591160699.4570894}
{"Type": "gpu", "Name":"gpu1", "Dimension": "GPUMemoryUtilization", "Value":47.76,"NodeId":"algo-1","Timestamp":1591170699.4570800}
"""  # noqa: E501 - as it was written


class RecordedGpus:
    """What NVML returned of two GPUs, for machines without one."""

    def read(self) -> Iterator[GpuState]:
        """Implement `GpuReader.read`."""
        yield GpuState(0, busy_percent=12.0, memory_percent=40.0, power_watts=110.5, temperature_celsius=61.0)
        yield GpuState(1, busy_percent=97.0, memory_percent=81.0, power_watts=640.0, throttle_reasons=0x20)


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of this machine over two minutes, as the sampler writes them."""
    folder = tmp_path_factory.mktemp("profiles")
    sample_into(folder, is_compact=False)
    return folder


def sample_into(folder: Path, *, is_compact: bool) -> None:
    files = SystemFiles(str(folder), node="algo-1", is_compact=is_compact)
    metrics = SystemMetrics(OpenFiles(), process=os.getpid(), gpus=RecordedGpus())
    for second in range(0, 120, 20):
        files.add(metrics.sample(), wall_time=MINUTE + second)
    files.close()


def test_the_original_reads_every_sample_of_ours(profiles: Path, peer: Peer) -> None:
    order = {"folder": str(profiles), "start_us": MINUTE * 1e6, "end_us": (MINUTE + 120) * 1e6}
    events = peer("system_metrics", order)["events"]
    ours = [[s.kind, s.name, s.dimension, s.value, s.node, s.timestamp] for s in samples_in(LocalStore(profiles))]
    assert len(ours) > 50
    assert sorted(events) == sorted(ours)
    assert {(event[0], event[1], event[2], event[3]) for event in events} >= {
        ("gpu", "gpu0", "GPUUtilization", 12.0),
        ("gpu", "gpu1", "GPUMemoryUtilization", 81.0),
    }


@pytest.mark.parametrize("is_compact", [False, True])
def test_rules_judge_the_files_that_the_original_reads_and_ours(tmp_path: Path, *, is_compact: bool) -> None:
    sample_into(tmp_path, is_compact=is_compact)
    trial = Trial(MemoryStore(), profiles=lambda: LocalStore(tmp_path))
    window = replace(trial.window(0, now=MINUTE), is_last=True)
    rules = (LowGpuUtilization(patience=5), LoadBalancing(patience=5), ThrottledGpu(samples=5))
    found = {rule.rule_id: [finding.subject for finding in rule.check(window)] for rule in rules}
    assert found == {
        "low-gpu-utilization": ["gpu0 of algo-1"],
        "load-balancing": ["gpu0 of algo-1"],
        "throttled-gpu": ["gpu1 of algo-1"],
    }


def test_the_original_reads_what_an_export_made_of_compact_files(tmp_path: Path, peer: Peer) -> None:
    sample_into(tmp_path, is_compact=True)
    compact = samples_in(LocalStore(tmp_path))
    assert export_machine_samples(LocalStore(tmp_path), tmp_path) == len(compact) > 50
    order = {"folder": str(tmp_path), "start_us": MINUTE * 1e6, "end_us": (MINUTE + 120) * 1e6}
    events = peer("system_metrics", order)["events"]
    assert sorted(events) == sorted([s.kind, s.name, s.dimension, s.value, s.node, s.timestamp] for s in compact)
    without_cores = sum(sample.kind != "cpu" for sample in compact)
    read = Trial(MemoryStore(), profiles=lambda: LocalStore(tmp_path)).profile.all_metrics()
    assert sum(len(metric.times) for metric in read) == without_cores, "the export beside them is not read again"


def test_the_drop_in_reads_compact_files_and_an_export_only_once(tmp_path: Path) -> None:
    sample_into(tmp_path, is_compact=True)
    compact = samples_in(LocalStore(tmp_path))
    export_machine_samples(LocalStore(tmp_path), tmp_path)
    events = LocalSystemMetricsReader(tmp_path).get_events(0, 4e15)
    rows = [(e.type, e.name, e.dimension, e.value, e.node_id, e.timestamp) for e in events]
    assert sorted(rows) == sorted((s.kind, s.name, s.dimension, s.value, s.node, s.timestamp) for s in compact)


def test_the_original_finds_a_part_of_the_time(profiles: Path, peer: Peer) -> None:
    order = {"folder": str(profiles), "start_us": (MINUTE + 50) * 1e6, "end_us": (MINUTE + 70) * 1e6}
    assert {event[5] for event in peer("system_metrics", order)["events"]} == {MINUTE + 60}


def test_we_read_the_original_s_own() -> None:
    first, last = decode_system_metrics(AWS, key="1591160699.algo-1.json")
    assert first == ("cpu", "cpu0", "CPUUtilization", 4.76, "algo-1", 1591160699.4570894)
    assert (last.kind, last.name, last.dimension, last.value) == ("gpu", "gpu1", "GPUMemoryUtilization", 47.76)
