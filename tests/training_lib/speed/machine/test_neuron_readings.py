"""AWS's NeuronCores: reports that `neuron-monitor` printed on real machines, as other people recorded them.

INF2 is of an inf2.xlarge under load, in a public project's tests, which state that it was captured on the hardware in
August 2026; TRN1 is of a trn1.2xlarge, in W&B's tests of its own reader; TRN2 is the example of AWS's User Guide.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from trackside.environment import inherited
from trackside.speed.machine.gpu_readings import GpuState
from trackside.speed.machine.neuron_readings import OLD_SECONDS, NeuronCores, neuron_cores, states_of

INF2: dict[str, Any] = {
    "neuron_hardware_info": {
        "logical_neuroncore_config": 1, "neuron_device_count": 1, "neuron_device_memory_size": 34359738368,
        "neuron_device_type": "inferentia2", "neuroncore_per_device_count": 2, "neuroncore_version": "v2",
    },
    "neuron_runtime_data": [{"pid": 2199, "report": {
        "neuroncore_counters": {"period": 1.000665759, "neuroncores_in_use": {
            "0": {"effective_flops": 875590474948, "neuroncore_utilization": 89.40087251059674},
            "1": {"effective_flops": 0, "neuroncore_utilization": 0},
        }},
        "memory_used": {"neuron_runtime_used_bytes": {"host": 1166249984, "neuron_device": 141649980}},
    }}],
}  # fmt: skip
TRN1_MEMORY = {
    "0": {"constants": 196608, "model_code": 101125344, "model_shared_scratchpad": 0, "runtime_memory": 0,
          "tensors": 943608},
    "1": {"constants": 0, "model_code": 32768, "model_shared_scratchpad": 0, "runtime_memory": 0, "tensors": 0},
}  # fmt: skip
TRN1: dict[str, Any] = {
    "neuron_runtime_data": [{"pid": 1337, "neuron_runtime_tag": "1337", "error": "", "report": {
        "memory_used": {"period": 0.999155887, "neuron_runtime_used_bytes": {
            "host": 610705408, "neuron_device": 102298328, "usage_breakdown": {"neuroncore_memory_usage": TRN1_MEMORY},
        }},
        "neuroncore_counters": {"period": 0.999163146, "neuroncores_in_use": {
            "0": {"neuroncore_utilization": 1.3631567613356375}, "1": {"neuroncore_utilization": 0},
        }, "error": ""},
    }}],
    "instance_info": {"instance_type": "trn1.2xlarge", "error": ""},
    "neuron_hardware_info": {"neuron_device_count": 1, "neuroncore_per_device_count": 2, "error": ""},
}  # fmt: skip
TRN1_BYTES = sum(sum(parts.values()) for parts in TRN1_MEMORY.values())
TRN2 = {
    "neuron_runtime_data": [{"report": {"neuroncore_counters": {"neuroncores_in_use": {
        "0": {"neuroncore_utilization": 42.01, "flops": 1234567891011,
              "v3d": {"nc_v3.0": {"neuroncore_utilization": 21.01}, "nc_v3.1": {"neuroncore_utilization": 63.01}}},
        "1": {"neuroncore_utilization": 42.02, "flops": 1234567891021},
    }, "error": ""}}}],
    "neuron_hardware_info": {"neuron_device_memory_size": 103079215104, "neuroncore_per_device_count": 4},
}  # fmt: skip


def with_memory_size(report: dict[str, Any], size: int) -> dict[str, Any]:
    return {**report, "neuron_hardware_info": {**report["neuron_hardware_info"], "neuron_device_memory_size": size}}


def two_processes() -> dict[str, Any]:
    return with_memory_size({**TRN1, "neuron_runtime_data": TRN1["neuron_runtime_data"] * 2}, 1 << 30)


@pytest.mark.parametrize(
    ("report", "states"),
    [
        pytest.param(INF2, [GpuState(0, 89.40087251059674), GpuState(1, 0.0)], id="inf2-of-2026"),
        pytest.param(TRN1, [GpuState(0, 1.3631567613356375), GpuState(1, 0.0)], id="trn1-without-the-memory's-size"),
        pytest.param(
            with_memory_size(TRN1, 1 << 30),
            [GpuState(0, 1.3631567613356375, 100 * TRN1_BYTES / 2**30), GpuState(1, 0.0, 100 * TRN1_BYTES / 2**30)],
            id="both-cores-share-the-memory",
        ),
        pytest.param(
            two_processes(),
            [GpuState(0, 1.3631567613356375, 200 * TRN1_BYTES / 2**30), GpuState(1, 0.0, 200 * TRN1_BYTES / 2**30)],
            id="two-processes",
        ),
        pytest.param(TRN2, [GpuState(0, 42.01), GpuState(1, 42.02)], id="trn2-of-the-guide"),
        pytest.param({**INF2, "neuron_runtime_data": []}, [], id="no-process"),
        pytest.param({**INF2, "neuron_runtime_data": None}, [], id="null"),
        pytest.param({"neuron_runtime_data": [{"report": None, "error": "no such process"}]}, [], id="no-report"),
        pytest.param({"neuron_runtime_data": [{"report": {"neuroncore_counters": {"error": "x"}}}]}, [], id="error"),
        pytest.param({"neuron_runtime_data": [7]}, [], id="of-another-form"),
        pytest.param([], [], id="a-list"),
        pytest.param({}, [], id="empty"),
    ],
)
def test_reads_the_cores_of_a_report(report: object, states: list[GpuState]) -> None:
    assert states_of(json.dumps(report).encode()) == states


@pytest.mark.parametrize("text", [b"", b"{", b"neuron-monitor: no driver", b"\xff\xfe", b"7", b"null"])
def test_a_text_that_is_no_report_has_no_cores(text: bytes) -> None:
    assert states_of(text) == []


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_newest_whole_report_counts_until_it_is_old() -> None:
    output, end = os.pipe()
    clock = Clock()
    cores = NeuronCores(output, clock=clock)
    try:
        assert list(cores.read()) == []
        os.write(end, json.dumps(TRN1).encode() + b"\n" + json.dumps(INF2).encode()[:90])
        assert [core.busy_percent for core in cores.read()] == [1.3631567613356375, 0.0]
        os.write(end, json.dumps(INF2).encode()[90:] + b"\n")
        assert [core.busy_percent for core in cores.read()] == [89.40087251059674, 0.0]
        clock.now = OLD_SECONDS
        assert len(list(cores.read())) == 2
        clock.now += 1.0
        assert list(cores.read()) == []
    finally:
        os.close(end)
        os.close(output)


def test_a_program_that_has_ended_leaves_no_cores() -> None:
    output, end = os.pipe()
    os.close(end)
    assert list(NeuronCores(output).read()) == []
    os.close(output)


def test_a_machine_without_the_program_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert neuron_cores() is None


@pytest.mark.skipif(sys.platform != "linux", reason="Neuron is for Linux")
def test_the_program_is_started_by_its_configuration_and_ends_with_the_sampler(tmp_path: Path) -> None:
    program = tmp_path / "neuron-monitor"  # what AWS's does: reads the file of -c, prints a report at each period
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys, time\n"
        "assert json.load(open(sys.argv[2]))['period'] == '1s'\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        f"while True:\n    print({json.dumps(TRN1)!r}, flush=True)\n    time.sleep(0.02)\n"
    )
    program.chmod(0o755)
    script = (
        "import time\nfrom trackside.speed.machine.neuron_readings import neuron_cores\n"
        "cores = neuron_cores()\nuntil = time.monotonic() + 20\nfound = []\n"
        "while not found and time.monotonic() < until:\n    found = list(cores.read())\n"
        "print([core.busy_percent for core in found], flush=True)\ntime.sleep(60)"
    )
    environment = {**inherited(), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    sampler = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
    assert sampler.stdout is not None
    assert sampler.stdout.readline() == "[1.3631567613356375, 0]\n".replace(" 0]", " 0.0]")
    sampler.kill()
    sampler.wait()
    sampler.stdout.close()
    monitor = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 20
    while Path(f"/proc/{monitor}").exists() and time.monotonic() < until:
        if "State:\tZ" in Path(f"/proc/{monitor}/status").read_text():
            break
        time.sleep(0.01)
    else:
        assert not Path(f"/proc/{monitor}").exists()
