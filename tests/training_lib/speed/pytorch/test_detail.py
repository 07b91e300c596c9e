"""Windows of detailed profiling in real trainings: the profiles, the results, and profilers of the script's own."""

from __future__ import annotations

import cProfile
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.patience import wait_until
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run.profiling_request import ProfilingRequest, Window
from trackside.contracts.run_layout import PROFILES
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.local.profile_request import request_profile
from trackside.speed.performance.details import OPERATORS, PYTHON, Detail, operator_rows, read_details
from trackside.speed.performance.trace_events import decode_trace
from trackside.storage.local import LocalStore


def slow_batch() -> torch.Tensor:
    batch = torch.randn(8, 20)
    for _ in range(50):
        batch = batch * 1.0
    return batch


NOTHING = ProfilingRequest()


class Training:
    """A training with a place for its run, or without one."""

    def __init__(self, run: Path | None, profiling: ProfilingRequest = NOTHING) -> None:
        self.adapter: PyTorchAdapter | None = None
        self.run = run
        if run is not None:
            request = CaptureRequest(profiling=profiling).to_json()
            environment = CaptureEnvironment(run_uri=str(run), capture_request=request, rank=0, world_size=1)
            self.adapter = PyTorchAdapter(environment)
            self.adapter.install()
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self) -> None:
        loss = self.model(slow_batch()).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def end(self) -> dict[str, Detail]:
        """End the run, and return its profiles by kind."""
        assert self.adapter is not None
        assert self.run is not None
        self.adapter.uninstall()
        return {one.kind: one for one in read_details(LocalStore(str(self.run / PROFILES)))}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    assert not torch.autograd._profiler_enabled()


BOTH = ProfilingRequest(operators=Window(10, 3), python=Window(20, 2))


@pytest.mark.parametrize("always_on", [True, False], ids=["short-way", "idle-way"])
def test_the_steps_are_profiled(run: Path, always_on: bool) -> None:
    training = Training(run, BOTH)
    assert training.adapter is not None
    if not always_on:
        training.adapter.session.statistics.switch_off(RuntimeError("for this test"))
    for _ in range(30):
        training.step()
    found = training.end()
    operators, functions = found[OPERATORS], found[PYTHON]
    assert (operators.first_step, operators.last_step) == (10, 12)
    assert (functions.first_step, functions.last_step) == (20, 21)
    calls = {row.name: row.calls for row in operators.rows}
    assert calls["aten::addmm"] == 3 * 2
    assert calls["aten::mul"] >= 3 * 50
    (slow,) = (row for row in functions.rows if row.name == "slow_batch")
    assert slow.calls == 2
    assert slow.place.startswith("test_detail.py:")
    assert slow.total_seconds >= slow.self_seconds > 0


def test_the_result_is_the_same(run: Path) -> None:
    watched, plain = Training(run, BOTH), None
    for _ in range(25):
        watched.step()
    watched.end()
    plain = Training(None)
    for _ in range(25):
        plain.step()
    assert all(map(torch.equal, watched.model.parameters(), plain.model.parameters()))


def test_a_running_training_takes_requests(run: Path) -> None:
    training = Training(run)
    for _ in range(5):
        training.step()
    for _ in range(2):  # the same request twice: two profiles
        wait_until(lambda: (run / PROFILES).is_dir() or training.step())
        before = len(list(run.rglob("*.pt.trace.json.gz")))
        request_profile(str(run), 2)

        def has_come() -> bool:
            training.step()
            return len(list(run.rglob("*.pt.trace.json.gz"))) > before  # noqa: B023 - called in this turn

        wait_until(has_come)
    found = training.end()
    assert found[OPERATORS].last_step == found[OPERATORS].first_step + 1


def test_a_window_at_the_end_is_kept(run: Path) -> None:
    training = Training(run, ProfilingRequest(operators=Window(5, 100), python=Window(8, 100)))
    for _ in range(10):
        training.step()
    found = training.end()
    assert (found[OPERATORS].first_step, found[OPERATORS].last_step) == (5, 9)
    assert found[PYTHON].last_step == 9


@pytest.mark.parametrize("kind", ["torch.profiler", "autograd", "cProfile"])
def test_a_profiler_of_the_script_works_as_without_us(run: Path, kind: str) -> None:
    training = Training(run, ProfilingRequest(operators=Window(4, 8), python=Window(4, 8)))
    for _ in range(6):
        training.step()
    if kind == "cProfile":
        with cProfile.Profile() as own:
            training.step()
        names = {row.code.co_name for row in own.getstats() if not isinstance(row.code, str)}
        assert "slow_batch" in names
    else:
        make = torch.profiler.profile if kind == "torch.profiler" else torch.autograd.profiler.profile
        with make() as theirs:
            training.step()
        calls = {row.key: row.count for row in theirs.key_averages()}
        assert calls["aten::addmm"] == 2
    for _ in range(10):
        training.step()
    training.end()
    with torch.profiler.profile() as again:
        torch.ones(3).sum()
    assert any(row.key == "aten::sum" for row in again.key_averages())


@pytest.mark.parametrize(
    ("starts", "calls"), [((0.0, 0.16), 2), ((0.0, 0.32), 2), ((0.0, 0.04), 1)], ids=["touching", "apart", "within"]
)
def test_calls_of_a_moment_are_told_apart(starts: tuple[float, float], calls: int) -> None:
    """As PyTorch writes them: microseconds since a moment of its own, which lies months back."""
    durations = 0.16, 0.16 if calls == 2 else 0.08
    events = [
        {"ph": "X", "name": "aten::resolve_conj", "pid": 1, "tid": 1, "ts": 4999464762237.2 + start, "dur": duration}
        for start, duration in zip(starts, durations, strict=True)
    ]
    content = json.dumps({"baseTimeNanoseconds": 1790857026000000000, "traceEvents": events}).encode()
    (row,) = operator_rows(decode_trace(content, key="trace.json"))
    assert row.calls == calls


def test_torch_counts_the_same(tmp_path: Path) -> None:
    training = Training(None)
    training.step()
    with torch.profiler.profile() as theirs:
        for _ in range(3):
            training.step()
    path = tmp_path / "trace.json"
    theirs.export_chrome_trace(str(path))
    rows = {row.name: row for row in operator_rows(decode_trace(path.read_bytes(), key=path.name))}
    averages = [one for one in theirs.key_averages() if one.self_cpu_time_total > 0]
    assert len(averages) > 20
    for one in averages:
        row = rows[one.key]
        assert row.calls == one.count, one.key
        assert 1e6 * row.self_seconds == pytest.approx(one.self_cpu_time_total, rel=0.02, abs=3), one.key
        assert 1e6 * row.total_seconds == pytest.approx(one.cpu_time_total, rel=0.02, abs=3), one.key


def test_a_wrong_request_is_named_once_and_training_goes_on(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    training = Training(run)
    training.step()
    folder = run / PROFILES
    folder.mkdir(exist_ok=True)
    (folder / "profilerconfig.json").write_text('{"ProfilingParameters": {"PythonProfilingConfig": {"NumSteps": 0}}}')
    wait_until(lambda: training.step() or "NumSteps" in caplog.text)
    assert "must be a number from 1 on, but is 0" in caplog.text
    assert training.end() == {}


def test_the_file_of_a_job_is_followed(run: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    environment = CaptureEnvironment.read(
        {"TRACKSIDE_RUN": str(run), "TRAINING_JOB_NAME": "job", "SMPROFILER_CONFIG_PATH": os.fspath(config)}
    )
    assert environment.profiler_config == str(config)
    named = CaptureEnvironment.read({"TRAINING_JOB_NAME": "job"}).profiler_config
    assert named == "/opt/ml/input/config/profilerconfig.json"
    assert not CaptureEnvironment.read({}).profiler_config
