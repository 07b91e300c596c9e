"""The measurements beside the steps: read once each, up to a moment, while files grow and get their final names."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import OPEN_SUFFIX, system_metrics_key
from trackside.records.machine.performance_facts import PerformanceFacts, encode_performance
from trackside.storage.memory import MemoryStore
from trackside.trial.facts.run_profile import ARRIVAL_SECONDS, LOCAL_PAUSE_SECONDS, RunProfile

MINUTE = 1_700_000_000
KEY = system_metrics_key(MINUTE, hour="2023111422", node="algo-1")
STEPS = {
    "worker_0": (np.array([1, 2, 4]), np.array([10.0, 20.0, 40.0])),
    "worker_1": (np.array([1, 2]), np.array([11.0, 22.0])),
}


def line(second: float, value: float, *, name: str = "gpu0", dimension: str = "GPUUtilization") -> bytes:
    sample = {"Type": "gpu", "Name": name, "Dimension": dimension, "Value": value, "NodeId": "algo-1"}
    return json.dumps({**sample, "Timestamp": MINUTE + second}).encode() + b"\n"


class Clock:
    """Seconds that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Counting(MemoryStore):
    """A store that counts its requests, and may be out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.is_out = False

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.requests += 1
        if self.is_out:
            raise StorageUnavailableError("out of reach")
        return super().get(key, start=start, length=length)


def steps() -> Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    return STEPS


def values(profile: RunProfile, *, until: float = math.inf) -> list[float]:
    found = profile.machine("GPUUtilization", name="", until=until)
    return [float(value) for series in found for value in series.values]


def test_a_growing_file_is_read_on_and_its_final_name_is_the_same_file() -> None:
    store, clock = Counting(), Clock()
    profile = RunProfile(lambda: store, steps, monotonic=clock)
    store.put(KEY + OPEN_SUFFIX, line(0, 1) + line(1, 2) + line(2, 3)[:20])
    assert values(profile) == [1, 2], "the cut line is not there yet"
    store.put(KEY + OPEN_SUFFIX, line(0, 1) + line(1, 2) + line(2, 3))
    clock.now += LOCAL_PAUSE_SECONDS
    assert values(profile) == [1, 2, 3]
    store.delete(KEY + OPEN_SUFFIX)
    store.put(KEY, line(0, 1) + line(1, 2) + line(2, 3) + line(3, 4))
    clock.now += LOCAL_PAUSE_SECONDS
    assert values(profile) == [1, 2, 3, 4]
    read = store.requests
    clock.now += LOCAL_PAUSE_SECONDS
    assert values(profile) == [1, 2, 3, 4]
    assert store.requests == read, "a whole file is read once"


def test_nothing_is_read_before_the_first_request_nor_for_what_is_known() -> None:
    store, clock = Counting(), Clock()
    opened: list[int] = []
    profile = RunProfile(lambda: opened.append(1) or store, steps, monotonic=clock)
    assert not opened
    store.put(KEY + OPEN_SUFFIX, line(0, 1) + line(30, 2))
    assert values(profile, until=MINUTE + 10) == [1]
    read = store.requests
    clock.now += 100
    assert values(profile, until=MINUTE + 20) == [1]
    assert store.requests == read, "newer samples are known"


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        pytest.param(line(0, 1) + b"{}\n" + line(1, 2), [1], id="a-line-that-is-none"),
        pytest.param(line(0, 1) + b"\xff\xfe\n" + line(1, 2), [1], id="no-text"),
        pytest.param(b"", [], id="empty"),
        pytest.param(line(0, 1) + line(1, 2)[:30], [1], id="a-last-line-that-was-cut-off"),
        pytest.param(line(5, 2) + line(1, 1), [1, 2], id="out-of-order"),
    ],
)
def test_what_counts_of_a_file(damage: bytes, expected: list[float]) -> None:
    store = MemoryStore()
    store.put(KEY, damage)
    assert values(RunProfile(lambda: store, steps)) == expected


def test_an_outage_passes() -> None:
    store, clock = Counting(), Clock()
    profile = RunProfile(lambda: store, steps, monotonic=clock)
    store.put(KEY, line(0, 1))
    store.is_out = True
    assert values(profile) == []
    store.is_out = False
    clock.now += LOCAL_PAUSE_SECONDS
    assert values(profile) == [1]


def test_single_cores_of_ours_are_left_out_and_amazons_are_kept() -> None:
    store = MemoryStore()
    total = line(0, 5, name="total", dimension="CPUUtilizationTotal")
    core = line(0, 5, name="cpu0", dimension="CPUUtilization")
    store.put(KEY, core.replace(b": ", b":") + total.replace(b": ", b":"))
    assert RunProfile(lambda: store, steps).machine("CPUUtilization", name="", until=math.inf) == ()
    store.put(KEY, core)
    assert len(RunProfile(lambda: store, steps).machine("CPUUtilization", name="", until=math.inf)) == 1


@pytest.mark.parametrize(
    ("step", "ended_at"),
    [
        pytest.param(0, -math.inf, id="before"),
        pytest.param(2, 22.0, id="the-later-worker"),
        pytest.param(9, 40.0, id="after"),
    ],
)
def test_the_moment_of_a_step(step: int, ended_at: float) -> None:
    assert RunProfile(lambda: None, steps).ended_at(step) == ended_at - ARRIVAL_SECONDS


@pytest.mark.parametrize(("moment", "step"), [(5.0, 0), (10.0, 1), (39.0, 2), (100.0, 4)])
def test_the_step_at_a_moment(moment: float, step: int) -> None:
    assert RunProfile(lambda: None, steps).step_at(moment) == step


def test_a_run_without_recorded_steps_sees_all_that_has_arrived() -> None:
    assert RunProfile(lambda: None, dict).ended_at(3) == math.inf


def test_facts_of_each_worker_and_none_of_a_damaged_file() -> None:
    store, clock = MemoryStore(), Clock()
    profile = RunProfile(lambda: store, steps, monotonic=clock)
    store.put("performance/worker_0.json", encode_performance(PerformanceFacts(processors=4)))
    store.put("performance/worker_1.json", b"{")
    assert {worker: facts.processors for worker, facts in profile.facts().items()} == {"worker_0": 4}
