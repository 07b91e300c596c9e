"""Statistics that a run records at every step answer first, then what was saved; and nobody pays who does not ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from trackside.contracts.errors import ConfigurationError, TensorNotSavedError
from trackside.contracts.run_layout import STATISTICS, TENSORS, WATERMARKS, RunLocation, SegmentName
from trackside.evaluation.evaluator import evaluate
from trackside.records.block_file import encode_block
from trackside.records.modes import MODE_NUMBERS
from trackside.records.statistics_segment import (
    ROWS_KIND,
    SCHEMA_KIND,
    Schema,
    StatisticColumn,
    encode_header,
    encode_rows,
    encode_schema,
)
from trackside.records.watermark import Watermark
from trackside.rules.catalogue import default_request
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors, write_watermark
from trackside.trial.trial import Trial, open_trial

LOSS, GRADIENT = "Loss_output_0", "gradient/Net.weight"


def write_statistics(
    store: Store,
    rows: Mapping[int, float],
    *,
    tensor: str = LOSS,
    statistic: str = "mean",
    mode: str = "TRAIN",
    worker: str = "worker_0",
    started_ms: int = 1_700_000_000_000,
) -> None:
    """One segment of one column: {step: number}."""
    schema = Schema((StatisticColumn(tensor, statistic, "f8"),))
    steps = [*rows]
    payload = encode_rows(
        0,
        schema,
        steps=steps,
        mode_steps=steps,
        wall_times=[1.7e9] * len(steps),
        modes=[MODE_NUMBERS[mode]] * len(steps),
        values=np.array([*rows.values()]).reshape(-1, 1),
    )
    blocks = (
        encode_header(worker, number=0),
        encode_block(SCHEMA_KIND, encode_schema(0, schema), number=0),
        encode_block(ROWS_KIND, payload, number=0),
    )
    store.put(SegmentName(worker, started_ms, 0, 0).key, b"".join(blocks))


class Counting(MemoryStore):
    """Counts every question."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self.asked += 1
        return super().list(prefix, start_after=start_after)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.asked += 1
        return super().get(key, start=start, length=length)

    def exists(self, key: str) -> bool:
        self.asked += 1
        return super().exists(key)


def a_run(saved: Iterable[int] = (), *, workers: Iterable[str] = ("worker_0",)) -> MemoryStore:
    store = MemoryStore()
    write_collections(store, workers=tuple(workers))
    for step in saved:
        for worker in workers:
            write_tensors(store, step, {LOSS: float(step)}, worker=worker)
    return store


def a_trial(tensors: Store, statistics: Store, marks: Store | None = None) -> Trial:
    trial = Trial(tensors, statistics, marks)
    trial.refresh()
    return trial


@pytest.mark.parametrize(
    ("recorded", "saved", "last_step", "expected"),
    [
        pytest.param({0: 0.5, 1: 1.5}, [], 9, {0: 0.5, 1: 1.5}, id="recorded-only"),
        pytest.param({}, [0, 5], 9, {0: 0.0, 5: 5.0}, id="saved-only"),
        pytest.param({0: 0.5, 5: 5.5}, [0, 5], 9, {0: 0.5, 5: 5.5}, id="recorded-before-saved"),
        pytest.param({1: 1.5, 3: 3.5}, [0, 2, 3, 4], 9, {0: 0.0, 1: 1.5, 2: 2.0, 3: 3.5, 4: 4.0}, id="in-between"),
        pytest.param({1: 1.5, 3: 3.5}, [0, 2, 4], 2, {0: 0.0, 1: 1.5, 2: 2.0}, id="up-to-a-step"),
        pytest.param({7: 1.5}, [8], 2, {}, id="nothing-yet"),
    ],
)
def test_recorded_numbers_come_first_and_saved_tensors_fill_in(
    recorded: dict[int, float], saved: list[int], last_step: int, expected: dict[int, float]
) -> None:
    statistics = MemoryStore()
    if recorded:
        write_statistics(statistics, recorded)
    trial = a_trial(a_run(saved), statistics)
    for mode in ("TRAIN", None):
        columns = trial.columns(LOSS, "mean", last_step=last_step, mode=mode)
        assert [dict(zip(c.steps.tolist(), c.values.tolist(), strict=True)) for c in columns] == (
            [expected] if expected else []
        )
    assert trial.columns(LOSS, "mean", last_step=last_step, mode="EVAL") == ()
    assert trial.damaged == ()


def test_tensors_are_not_fetched_at_steps_that_are_recorded() -> None:
    statistics, tensors = MemoryStore(), Counting()
    write_collections(tensors)
    for step in range(30):
        write_tensors(tensors, step, {LOSS: 1.0})
    write_statistics(statistics, {step: 2.0 for step in range(30) if step != 20})
    trial = a_trial(tensors, statistics)
    before = tensors.asked
    assert trial.columns(LOSS, "mean", last_step=29, mode="TRAIN")[0].values.tolist() == [2.0] * 20 + [1.0] + [2.0] * 9
    assert tensors.asked == before + 1
    assert trial.columns(LOSS, "std", last_step=29, mode="TRAIN")[0].values.tolist() == [0.0] * 30  # is not recorded


def test_a_column_for_each_worker() -> None:
    statistics = MemoryStore()
    write_statistics(statistics, {0: 10.0, 1: 11.0}, worker="worker_1")
    write_statistics(statistics, {0: 20.0}, worker="worker_2")
    trial = a_trial(a_run([0, 2], workers=("worker_0", "worker_1")), statistics)
    columns = trial.columns(LOSS, "mean", last_step=9, mode="TRAIN")
    assert {c.worker: c.values.tolist() for c in columns} == {
        "worker_0": [0.0, 2.0],
        "worker_1": [10.0, 11.0, 2.0],
        "worker_2": [20.0],
    }
    assert [c.worker for c in columns] == ["worker_0", "worker_1", "worker_2"]


def test_rows_that_come_later_take_their_place() -> None:
    statistics, tensors = MemoryStore(), a_run([0, 1, 2])
    write_statistics(statistics, {0: 0.5})
    trial = a_trial(tensors, statistics)
    window = trial.window(2, now=0)
    early = window.statistic(LOSS, "mean")[0]
    assert early.values.tolist() == [0.5, 1.0, 2.0]
    write_statistics(statistics, {1: 1.5}, started_ms=1_700_000_000_001)
    assert window.statistic(LOSS, "mean")[0].values.tolist() == [0.5, 1.0, 2.0]  # nothing moves between refreshes
    write_tensors(tensors, 3, {LOSS: 3.0})
    trial.refresh()
    assert trial.window(3, now=0).statistic(LOSS, "mean")[0].values.tolist() == [0.5, 1.5, 2.0, 3.0]
    assert window.statistic(LOSS, "mean", last=2)[0].values.tolist() == [1.5, 2.0]
    assert early.values.tolist() == [0.5, 1.0, 2.0]


def test_a_statistic_of_its_own_may_be_asked_for_and_an_unknown_one_not() -> None:
    statistics = MemoryStore()
    write_statistics(statistics, {0: 0.01}, tensor=GRADIENT, statistic="update_ratio")
    trial = a_trial(a_run([0]), statistics)
    assert trial.columns(GRADIENT, "update_ratio", last_step=0, mode="TRAIN")[0].values.tolist() == [0.01]
    assert trial.columns(LOSS, "update_ratio", last_step=0, mode="TRAIN") == ()  # of this tensor it is not recorded
    for statistic, fix in (("update_ratios", "Did you mean 'update_ratio'"), ("abs_men", "Did you mean 'abs_mean'")):
        with pytest.raises(ConfigurationError, match=fix):
            trial.columns(GRADIENT, statistic, last_step=0, mode="TRAIN")


def test_its_names_count() -> None:
    statistics = MemoryStore()
    write_statistics(statistics, {0: 0.01, 1: 0.02}, tensor=GRADIENT, statistic="abs_mean")
    trial = a_trial(a_run([0, 1]), statistics)
    assert trial.names == (LOSS, GRADIENT)
    assert trial.tensor_names(collection="gradients") == (GRADIENT,)
    assert [series.name for series in trial.tensors()] == [LOSS, GRADIENT]
    assert [series.name for series in trial.tensors(steps="5:")] == []
    gradient = trial.tensor(GRADIENT)
    assert gradient.statistic("abs_mean").values.tolist() == [0.01, 0.02]
    assert trial.tensor(GRADIENT, steps="1:").statistic("abs_mean").values.tolist() == [0.02]
    with pytest.raises(TensorNotSavedError):
        gradient.value()
    columns = gradient.to_columns()
    assert columns["step"].tolist() == [0, 1]
    assert columns["mode"].tolist() == ["TRAIN", "TRAIN"]
    assert columns["abs_mean"].tolist() == [0.01, 0.02]
    assert np.isnan(columns["std"]).all()
    assert "0.02" in gradient._repr_html_()


def test_several_workers_that_are_recorded_only_must_be_told_apart() -> None:
    statistics = MemoryStore()
    for worker in ("worker_0", "worker_1"):
        write_statistics(statistics, {0: 1.0}, tensor=GRADIENT, worker=worker)
    trial = a_trial(a_run([0], workers=("worker_0", "worker_1")), statistics)
    with pytest.raises(ConfigurationError, match="Choose one: worker='worker_0'"):
        trial.tensor(GRADIENT).statistic("mean")
    assert len(trial.tensor(GRADIENT, worker="worker_1").statistic("mean").values) == 1


def test_nothing_is_asked_for_before_somebody_asks() -> None:
    statistics, tensors = Counting(), a_run([0])
    trial = a_trial(tensors, statistics)
    trial.refresh()
    assert trial.value(LOSS, step=0, worker="worker_0").tolist() == [0.0]
    assert (trial.steps(), trial.workers, trial.mode_of(0)) == ((0,), ("worker_0",), "TRAIN")
    assert trial.parts.steps.saved_collections_at(0) == frozenset({"losses"})
    assert statistics.asked == 0
    assert trial.names == (LOSS,)
    assert statistics.asked == 1


def test_a_marked_run_without_them_is_not_searched_for_them() -> None:
    statistics, tensors, marks = Counting(), a_run([0]), MemoryStore()
    write_watermark(marks, Watermark("worker_0", through=0, saved_steps=1))
    trial = a_trial(tensors, statistics, marks)
    assert trial.names == (LOSS,)
    asked = statistics.asked
    for step in range(1, 10):
        write_tensors(tensors, step, {LOSS: 1.0})
        write_watermark(marks, Watermark("worker_0", through=step, saved_steps=1 + step))
        trial.refresh()
        trial.window(step, now=0).statistic(LOSS, "mean")
    assert statistics.asked == asked
    write_statistics(statistics, {9: 9.5})
    name = SegmentName("worker_0", 1_700_000_000_000, 0, 0)
    write_watermark(marks, Watermark("worker_0", through=10, saved_steps=10, segments=(name,)))
    trial.refresh()
    assert trial.columns(LOSS, "mean", last_step=9, mode="TRAIN")[0].values.tolist()[-1] == 9.5


@pytest.mark.parametrize("is_marked", [True, False])
def test_the_end_of_the_run_is_looked_at_once(is_marked: bool) -> None:
    statistics, tensors, marks = Counting(), a_run([0, 1]), MemoryStore()
    if is_marked:
        write_watermark(marks, Watermark("worker_0", through=0, saved_steps=1))
    trial = a_trial(tensors, statistics, marks)
    assert trial.names == (LOSS,)
    write_statistics(statistics, {1: 1.5})
    end_run(tensors)
    trial.refresh()
    assert trial.columns(LOSS, "mean", last_step=9, mode="TRAIN")[0].values.tolist() == [0.0, 1.5]
    asked = statistics.asked
    trial.refresh()
    assert statistics.asked == asked


@pytest.mark.parametrize(
    ("below", "is_found"),
    [
        pytest.param("run", True, id="run"),
        pytest.param("run/", True, id="run-with-slash"),
        pytest.param(f"run/{TENSORS}", True, id="tensors-of-a-run"),
        pytest.param("smdebug", False, id="folder-of-the-original"),
    ],
)
def test_they_are_found_beside_the_tensors(tmp_path: Path, below: str, is_found: bool) -> None:
    for folder in (tmp_path / "run" / TENSORS, tmp_path / "smdebug"):
        store = LocalStore(folder)
        write_collections(store)
        write_tensors(store, 0, {LOSS: 1.0})
    write_statistics(LocalStore(tmp_path / "run" / STATISTICS), {0: 0.5})
    write_statistics(LocalStore(tmp_path / STATISTICS), {0: 99.0})  # nobody's
    trial = open_trial(f"{tmp_path}/{below}")
    expected = [0.5] if is_found else [1.0]
    assert trial.columns(LOSS, "mean", last_step=0, mode="TRAIN")[0].values.tolist() == expected


def test_a_relative_folder_of_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_collections(LocalStore(TENSORS))
    write_tensors(LocalStore(TENSORS), 0, {LOSS: 1.0})
    write_statistics(LocalStore(STATISTICS), {0: 0.5})
    trial = open_trial(TENSORS)
    assert trial.columns(LOSS, "mean", last_step=0, mode="TRAIN")[0].values.tolist() == [0.5]


def test_a_store_of_a_whole_run() -> None:
    tensors, store = a_run([0]), MemoryStore()
    for key in tensors.list():
        store.put(f"{TENSORS}/{key}", tensors.get(key))
    statistics = MemoryStore()
    write_statistics(statistics, {0: 0.5})
    for key in statistics.list():
        store.put(f"{STATISTICS}/{key}", statistics.get(key))
    trial = open_trial(store)
    trial.refresh()
    assert trial.window(0, now=0).statistic(LOSS, "mean")[0].values.tolist() == [0.5]


def test_rules_judge_what_was_recorded() -> None:
    """The loss is saved at few steps, and is no number in between."""
    stores = {f"/run/{name}": MemoryStore() for name in (TENSORS, STATISTICS, WATERMARKS, "rule-output")}
    write_collections(stores[f"/run/{TENSORS}"])
    for step in range(0, 50, 10):
        write_tensors(stores[f"/run/{TENSORS}"], step, {LOSS: 1.0})
    end_run(stores[f"/run/{TENSORS}"])
    write_statistics(stores[f"/run/{STATISTICS}"], dict.fromkeys(range(45), 1.0))
    for statistic in ("nonfinite_count", "nan_count"):
        write_statistics(
            stores[f"/run/{STATISTICS}"],
            {step: float(step == 30) for step in range(45)},
            statistic=statistic,
            started_ms=1_700_000_000_001 + len(statistic),
        )
    summary = evaluate(
        RunLocation("/run"),
        default_request(),
        [],
        poll_seconds=1,
        clock=lambda: 0.0,
        sleep=lambda _: None,
        should_stop=lambda: False,
        stores={**stores, "/run": MemoryStore()}.__getitem__,
    )
    assert [(issue.rule_id, issue.step) for issue in summary.issues] == [("exploding-tensor", 30)]


def test_damage_in_them_is_told_and_what_was_saved_still_answers() -> None:
    statistics = MemoryStore()
    write_statistics(statistics, {0: 0.5})
    (key,) = statistics.list()
    statistics.put(key, statistics.get(key)[:-5] + b"XXXXX")
    trial = a_trial(a_run([0, 1]), statistics)
    assert trial.columns(LOSS, "mean", last_step=9, mode="TRAIN")[0].values.tolist() == [0.0, 1.0]
    assert [error.key for error in trial.damaged] == [key]
