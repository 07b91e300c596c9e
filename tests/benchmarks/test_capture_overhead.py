"""The benchmarks of capture run to their end: a small trial of each. What they measure here means nothing."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def table(printed: str) -> list[list[str]]:
    """Its rows."""
    lines = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("|")]
    return [[column.strip() for column in line] for line in lines[2:]]


def ratio(text: str) -> float:
    return float(text.split(maxsplit=1)[0])


def test_one_cell_on_the_cpu() -> None:
    order = ("mlp", "--steps", "20", "--blocks", "1", "--rounds", "1", "--only", "loss@1", "--by", "ours")
    command = [sys.executable, str(BENCHMARKS / "capture_overhead.py"), *order]
    done = subprocess.run(command, env=inherited(), capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = table(done.stdout)
    assert [row[:2] for row in rows] == [["a/a", "nobody"], ["loss@1", "Trackside"]]
    assert all(ratio(row[3]) > 0.1 and ratio(row[4]) > 0.1 for row in rows)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the benchmark in this process, which has imported what it needs; gives what it printed."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["capture_overhead_gpu.py", *arguments])
        importlib.import_module("capture_overhead_gpu").main()
        return capsys.readouterr().out

    return run


def test_the_gpu_benchmark_on_the_cpu_eager_and_compiled(on_gpu: Callable[..., str]) -> None:
    order = ("--device", "cpu", "--tiny", "--workloads", "mlp", "--only", "loss@1", "--blocks", "1", "--steps", "4")
    rows = table(on_gpu(*order, "--backend", "aot_eager"))
    assert [row[1:3] for row in rows if "bare" not in row[2]] == [
        ["eager", "a/a"], ["eager", "loss@1"], ["compiled", "a/a"], ["compiled", "loss@1"],
    ]  # fmt: skip
    captured = rows[-2]
    assert captured[5:7] == ["0", "0"]  # graph breaks and graphs made anew, beyond those of bare
    assert "1 graphs" in rows[-1][2]
    assert all(ratio(row[3]) > 0.01 for row in rows if "bare" not in row[2])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(on_gpu: Callable[..., str]) -> None:
    assert on_gpu("--workloads", "mlp") == "not run: there is no CUDA GPU\n"
