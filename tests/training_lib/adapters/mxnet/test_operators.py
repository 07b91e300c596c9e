"""Windows of detailed profiling in trainings of MXNet: its operators. `make mxnet` runs it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training_lib.frameworks.captured_script import printed
from trackside.contracts.run.profiling_request import ProfilingRequest, Window
from trackside.contracts.run_layout import RunLocation
from trackside.speed.performance.details import OPERATORS, PYTHON, Detail, read_details
from trackside.storage.open_store import open_store

pytest.importorskip("mxnet", reason="in the environment that `make mxnet` builds")

# Not before: without MXNet pytest has begun that file and left it, and a half of it is there.
from tests.training_lib.adapters.mxnet.test_adapter import REQUEST, script

PROFILED = replace(REQUEST, profiling=ProfilingRequest(operators=Window(2, 3), python=Window(6, 2)))


def _details(run: Path) -> dict[str, Detail]:
    return {one.kind: one for one in read_details(open_store(RunLocation(str(run)).profiles))}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("", id="imperative"),
        pytest.param("net.hybridize()", id="hybridized"),
        pytest.param("net.hybridize(static_alloc=True, static_shape=True)", id="static"),
    ],
)
def test_the_operators_of_the_requested_steps(more: str, tmp_path: Path) -> None:
    captured, logged = printed(script(more=more), tmp_path / "run", PROFILED)
    assert captured == printed(script(more=more))[0]
    assert "trackside" not in logged
    found = _details(tmp_path / "run")
    operators = found[OPERATORS]
    assert (operators.first_step, operators.last_step) == (2, 4)
    calls = {row.name: row.calls for row in operators.rows}
    assert {"ImperativeBulk", "mean", "log_softmax"} <= set(calls)  # MXNet makes one operator of several
    assert calls["log_softmax"] == 3
    assert calls.get("FullyConnected", 0) == (0 if more else 3 * 3)  # of a hybridized network, they are in its bulks
    assert sum(count for name, count in calls.items() if "sgd" in name) >= 3, calls
    assert "DeleteVariable" not in calls
    assert all(0 <= row.self_seconds <= row.total_seconds + 1e-9 for row in operators.rows)
    assert (found[PYTHON].first_step, found[PYTHON].last_step) == (6, 7)
    assert not list(Path(tempfile.gettempdir()).glob("trackside-operators-*"))


OWN = """
import os
def profiled(step):
    from mxnet import profiler
    if step == {first}:
        profiler.set_config(profile_all=True, filename="{file}")
        profiler.set_state("run")
    if step == {first} + 2:
        nd.waitall()
        profiler.set_state("stop")
        profiler.dump()
"""


@pytest.mark.parametrize("first", [1, 3], ids=["before ours", "within ours"])
def test_the_scripts_own_profiler_goes_first(first: int, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    text = script(more=OWN.format(first=first, file=own))
    text = text.replace("    with autograd", "    profiled(number)\n    with autograd")
    printed(text, tmp_path / "run", PROFILED)
    names = {event["name"] for event in json.loads(own.read_text())["traceEvents"]}
    assert "FullyConnected" in names
    assert OPERATORS not in _details(tmp_path / "run")


def test_a_profiler_that_runs_from_the_start_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_PROFILER_AUTOSTART", "1")
    monkeypatch.chdir(tmp_path)  # it writes profile.json
    printed(script(), tmp_path / "run", PROFILED)
    assert OPERATORS not in _details(tmp_path / "run")
