"""The profile of a run for users: arrays that agree with the files, and the original's columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trackside
from tests.training_lib.profiling.samples import samples_in
from tests.training_lib.speed.rules.machines import gpus, loader, metric, steps
from trackside.storage.local import LocalStore
from trackside.storage.store import Store
from trackside.storage.subfolder import Subfolder
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors
from trackside.testing.rule_case import profile_store


@pytest.fixture
def run(tmp_path: Path) -> str:
    store = LocalStore(tmp_path / "run")
    tensors = Subfolder(store, "debug-output")
    write_collections(tensors)
    write_tensors(tensors, 0, {"Loss_output_0": 1.0})
    end_run(tensors)
    write_statistics(Subfolder(store, "statistics"), steps([0.02] * 40, data=[0.015] * 20))
    machine = {
        **gpus([10.0, 20.0, 30.0], [90.0] * 3, cpu=[50.0] * 3),
        **metric("cpu", "cpu0", "CPUUtilization", [40.0, 60.0]),
    }
    copy(profile_store(machine, loader(0)), Subfolder(store, "profiler-output"))
    return str(tmp_path / "run")


def copy(source: Store, target: Store) -> None:
    for key in source.list():
        target.put(key, source.get(key))


def test_metrics_are_arrays(run: str) -> None:
    profile = trackside.open_profile(run)
    (gpu,) = profile.metrics("GPUUtilization", name="gpu0")
    assert (gpu.kind, gpu.dimension, gpu.name, gpu.node) == ("gpu", "GPUUtilization", "gpu0", "algo-1")
    assert gpu.values.tolist() == [10.0, 20.0, 30.0]
    assert gpu.times.tolist() == [WALL_TIME, WALL_TIME + 1, WALL_TIME + 2]
    assert len(profile.metrics("GPUUtilization")) == 2
    assert len(profile.metrics("CPUUtilization")) == 1, "single cores too"
    assert profile.metrics(node="algo-2") == ()


def test_steps_have_their_phases_and_nan_where_one_is_missing(run: str) -> None:
    (found,) = trackside.open_profile(run).steps()
    assert (found.worker, found.steps[0], found.steps[-1]) == ("worker_0", 1, 40)
    assert found.seconds.tolist() == pytest.approx([0.02] * 40)
    assert set(found.phases) == {"data"}
    assert np.isnan(found.phases["data"]).tolist() == [False] * 20 + [True] * 20
    assert np.isnan(found.waits).all(), "unknown is not 0"


def test_the_verdict_is_that_of_the_command(run: str) -> None:
    verdicts = trackside.open_profile(run).verdicts()
    assert verdicts["worker_0"].bottleneck.value == "input-bound"


def test_columns_are_every_sample_in_the_words_of_the_original(run: str) -> None:
    columns = trackside.open_profile(run).to_columns()
    assert list(columns) == ["timestamp", "timestamp_us", "value", "system_metric", "dimension", "nodeID", "type"]
    samples = samples_in(LocalStore(Path(run) / "profiler-output"))
    ours = zip(columns["type"], columns["system_metric"], columns["dimension"], columns["value"], strict=True)
    assert sorted(ours) == sorted((s.kind, s.name, s.dimension, s.value) for s in samples)
    assert columns["timestamp_us"].tolist() == sorted(round(1e6 * (s.timestamp - WALL_TIME)) for s in samples)
    assert columns["timestamp"][0] == np.datetime64(int(WALL_TIME), "s")


def test_a_frame_of_pandas(run: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = trackside.open_profile(run).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame[frame["system_metric"] == "gpu1"]["value"].mean() == 90.0


def test_a_run_without_a_profile_has_none(tmp_path: Path) -> None:
    tensors = LocalStore(tmp_path / "run" / "debug-output")
    write_collections(tensors)
    write_tensors(tensors, 0, {"Loss_output_0": 1.0})
    profile = trackside.open_profile(str(tmp_path / "run"))
    assert (profile.metrics(), profile.steps()) == ((), ())
    assert {name: len(column) for name, column in profile.to_columns().items()} == dict.fromkeys(
        profile.to_columns(), 0
    )
    assert profile.verdicts()["worker_0"].bottleneck.value == "incomplete"
