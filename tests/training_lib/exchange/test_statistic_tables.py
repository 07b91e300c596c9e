from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.run_layout import event_key
from trackside.exchange.statistic_tables import (
    SaveTimes,
    file_name,
    first_collections,
    one_number_names,
    run_name,
    selected,
    statistic_tables,
)
from trackside.records.step_file import encode_step, write_step
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, fake_trial, write_collections
from trackside.trial.trial import Trial


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        pytest.param("/runs/digits-7/debug-output", "digits-7", id="folder-of-a-run"),
        pytest.param("s3://bucket/jobs/digits 7/debug-output/", "digits_7", id="s3"),
        pytest.param("/runs/old", "old", id="bare"),
        pytest.param("s3://bucket/debug-output", "bucket", id="bucket-alone"),
        pytest.param("/debug-output", "debug-output", id="nothing-above"),
        pytest.param("", "run", id="nothing"),
    ],
)
def test_the_name_of_a_run(uri: str, name: str) -> None:
    assert run_name(uri) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("worker_0", "worker_0", id="usual"),
        pytest.param("..", "run", id="up"),
        pytest.param("../../etc/passwd", "_.._etc_passwd", id="elsewhere"),
        pytest.param("a\x00b/c\\d", "a_b_c_d", id="separators"),
        pytest.param(".hidden", "hidden", id="hidden"),
    ],
)
def test_a_text_as_the_name_of_a_file(text: str, name: str) -> None:
    assert file_name(text) == name


def test_a_table_for_each_mode_and_worker() -> None:
    trial = fake_trial({"w": {0: [1.0, 3.0], 1: [5.0, 7.0], 2: [0.0, 0.0]}}, modes={1: "EVAL"})
    tables = list(statistic_tables(trial, trial.tensor("w"), ("mean", "min")))
    assert [(table.mode, table.worker, table.steps.tolist()) for table in tables] == [
        ("TRAIN", "worker_0", [0, 2]),
        ("EVAL", "worker_0", [1]),
    ]
    values, mask = tables[0].columns["min"]
    assert (values.tolist(), mask.tolist()) == ([1.0, 0.0], [True, True])
    (only,) = statistic_tables(trial, trial.tensor("w", mode="eval"), ("mean",))
    assert (only.mode, only.mode_steps.tolist()) == ("EVAL", [1])


def test_statistics_that_were_saved_at_other_steps_leave_gaps() -> None:
    mean, largest = "smdebug/reductions/mean/w", "smdebug/reductions/max/w"
    trial = fake_trial({mean: {0: 1.0, 2: 2.0}, largest: {1: 9.0, 2: 8.0}})
    (table,) = statistic_tables(trial, trial.tensor("w"), ("mean", "max", "l2"))
    assert table.steps.tolist() == [0, 1, 2]
    assert set(table.columns) == {"mean", "max"}
    assert table.columns["mean"][1].tolist() == [True, False, True]
    assert table.columns["max"][1].tolist() == [False, True, True]


def test_what_is_a_scalar_and_where_it_belongs() -> None:
    tensors: dict[str, dict[int, Any]] = {"loss": {0: 1.0}, "one": {0: [[2.0]]}, "Net_fc.weight": {0: [1.0, 2.0]}}
    trial = fake_trial(tensors, collections={"all": [".*"], "mine": ["one"], "also": ["one"]})
    assert one_number_names(trial, trial.tensors()) == {"loss", "one"}
    assert first_collections(trial) == {"one": "also", "Net_fc.weight": "weights"}


def test_a_run_without_tensors_says_so() -> None:
    with pytest.raises(TensorNotSavedError, match="No tensor was saved yet"):
        selected(fake_trial({}), None)


@pytest.mark.parametrize(
    ("saved_at", "expected", "first"),
    [
        pytest.param([10.0, 11.0, 12.0], [10.0, 11.0, 12.0], 10.0, id="all-known"),
        pytest.param([10.0, None, 12.0], [10.0, 10.0, 12.0], 10.0, id="one-lacks"),
        pytest.param([None, None, 12.0], [12.0, 12.0, 12.0], 0.0, id="the-first-lack"),
        pytest.param([None, None, None], [0.0, 0.0, 0.0], 0.0, id="none-known"),
        pytest.param([float("nan"), 11.0, 12.0], [11.0, 11.0, 12.0], 0.0, id="not-a-time"),
    ],
)
def test_times_of_saving(saved_at: list[float | None], expected: list[float], first: float) -> None:
    store = MemoryStore()
    write_collections(store)
    for step, seconds in enumerate(saved_at):
        pairs = [("w", np.array([1.0]))]
        step_file = encode_step(
            pairs, step=step, mode="TRAIN", mode_step=step, worker="worker_0", wall_time=seconds or 1.0
        )
        write_step(store, step_file)
        if seconds is None:
            store.delete(event_key(step, "worker_0"))
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    times = SaveTimes(trial, store)
    assert times.of("worker_0", np.arange(3)).tolist() == expected
    assert times.first() == first
    assert times.at("worker_0", 2) == expected[2]
    assert times.of("another", np.arange(3)).tolist() == [first] * 3
