"""The benchmarks of capture run to their end: a small trial of each. What they measure here means nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import capture_overhead_gpu
from tests.patience import HANGS_SECONDS

REPOSITORY = Path(__file__).parents[2]


def table(printed: str) -> list[list[str]]:
    """Its rows."""
    lines = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("|")]
    return [[column.strip() for column in line] for line in lines[2:]]


def ratio(text: str) -> float:
    return float(text.split(maxsplit=1)[0])


@pytest.mark.skipif(sys.platform != "linux", reason="processor time of others is read from /proc")
def test_participants_take_turns() -> None:
    order = ("tiny", "--kinds", "on", "loss@1", "--rounds", "2", "--steps", "20")
    command = [sys.executable, "-m", "benchmarks.turns", *order]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = table(done.stdout)
    assert [row[0] for row in rows] == ["bare", "bare again", "on", "loss@1", "loss@1, raw write"]
    assert all(ratio(row[2]) > 0.01 for row in rows)


def gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return what the benchmark printed, in this process, which has imported what it needs."""
    monkeypatch.setattr(sys, "argv", ["capture_overhead_gpu", *arguments])
    capture_overhead_gpu.main()
    return capsys.readouterr().out


def test_the_gpu_benchmark_on_the_cpu_eager_and_compiled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ("--device", "cpu", "--tiny", "--workloads", "mlp", "--only", "loss@1", "--blocks", "1", "--steps", "4")
    rows = table(gpu(capsys, monkeypatch, *order, "--backend", "aot_eager"))
    assert [row[1:3] for row in rows if "bare" not in row[2]] == [
        ["eager", "a/a"], ["eager", "loss@1"], ["compiled", "a/a"], ["compiled", "loss@1"],
    ]  # fmt: skip
    captured = rows[-2]
    assert captured[5:7] == ["0", "0"]  # graph breaks and graphs made anew, beyond those of bare
    assert "1 graphs" in rows[-1][2]
    assert all(ratio(row[3]) > 0.01 for row in rows if "bare" not in row[2])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu(capsys, monkeypatch, "--workloads", "mlp") == "not run: there is no CUDA GPU\n"
