"""The machine's metrics: the real smdebug reads ours, and we read its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.smdebug.conftest import Peer
from tests.training_lib.profiling.samples import samples_in
from trackside.profiling.system_files import SystemFiles
from trackside.profiling.system_metrics import OpenFiles, SystemMetrics
from trackside.records.system_metrics_file import decode_system_metrics
from trackside.storage.local import LocalStore

MINUTE = 1_700_000_000.0
# The first and the last line of a file that SageMaker wrote (awslabs/sagemaker-debugger, tests/profiler/resources).
AWS = b"""{"Type": "cpu", "Name":"cpu0", "Dimension": "CPUUtilization", "Value":4.76,"NodeId":"algo-1","Timestamp":1591160699.4570894}
{"Type": "gpu", "Name":"gpu1", "Dimension": "GPUMemoryUtilization", "Value":47.76,"NodeId":"algo-1","Timestamp":1591170699.4570800}
"""  # noqa: E501 - as it was written


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of this machine over two minutes, as the sampler writes them."""
    folder = tmp_path_factory.mktemp("profiles")
    files = SystemFiles(str(folder), node="algo-1")
    metrics = SystemMetrics(OpenFiles(), process=os.getpid())
    for second in range(0, 120, 20):
        files.add(metrics.sample(), wall_time=MINUTE + second)
    files.close()
    return folder


def test_the_original_reads_every_sample_of_ours(profiles: Path, peer: Peer) -> None:
    order = {"folder": str(profiles), "start_us": MINUTE * 1e6, "end_us": (MINUTE + 120) * 1e6}
    events = peer("system_metrics", order)["events"]
    ours = [[s.kind, s.name, s.dimension, s.value, s.node, s.timestamp] for s in samples_in(LocalStore(profiles))]
    assert len(ours) > 50
    assert sorted(events) == sorted(ours)


def test_the_original_finds_a_part_of_the_time(profiles: Path, peer: Peer) -> None:
    order = {"folder": str(profiles), "start_us": (MINUTE + 50) * 1e6, "end_us": (MINUTE + 70) * 1e6}
    assert {event[5] for event in peer("system_metrics", order)["events"]} == {MINUTE + 60}


def test_we_read_the_original_s_own() -> None:
    first, last = decode_system_metrics(AWS, key="1591160699.algo-1.json")
    assert first == ("cpu", "cpu0", "CPUUtilization", 4.76, "algo-1", 1591160699.4570894)
    assert (last.kind, last.name, last.dimension, last.value) == ("gpu", "gpu1", "GPUMemoryUtilization", 47.76)
