"""Reading many steps at once says what reading each record alone says, bit for bit, and hears of the same damage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trackside.contracts.errors import RecordError, StorageUnavailableError
from trackside.contracts.run_layout import INDEX_PREFIX, event_key, index_key, parse_index_key
from trackside.records.index_file import decode_index
from trackside.records.tfevents import decode_record
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.tensors import tensors
from trackside.trial.tensors.statistics import REDUCTIONS, summarise, widened
from trackside.trial.tensors.tensors import PLACES
from trackside.trial.trial import REDUCTION_MARK, Trial

LOSS, WEIGHT, GRADIENT, FLAGS, LABELS = "Loss_output_0", "Net.weight", "gradient/Net.weight", "flags", "labels"
UNASKED = "other"
CHECKED = ("mean", "std", "l2", "zero_share")
MEAN = f"{REDUCTION_MARK}mean/Net.weight"


@dataclass(frozen=True)
class Oracle:
    """The run as one reads it record by record. Numbers by tensor, statistic, mode, worker and step."""

    numbers: Mapping[tuple[str, str, str, str], Mapping[int, float]]
    damaged: frozenset[str]

    @classmethod
    def of(cls, store: MemoryStore) -> Oracle:
        numbers: dict[tuple[str, str, str, str], dict[int, float]] = {}
        damaged = set()
        for key in store.list(INDEX_PREFIX):
            step, worker = parse_index_key(key) or (0, "")
            index = decode_index(store.get(key), key=key)
            found: dict[str, NDArray[np.float64] | None] = {}
            for entry in index.entries:
                try:
                    data = store.get(index.event_key or "", start=entry.start, length=entry.length)
                    value = decode_record(data, key=key, offset=entry.start).value
                except (RecordError, OSError):
                    damaged.update([index.event_key or ""] if entry.name != UNASKED else [])
                    found[entry.name] = None
                    continue
                summary = summarise(value)
                single = isinstance(summary, float)
                found[entry.name] = widened(np.array([[summary]]))[:, 0] if single else summary  # type: ignore[assignment]
            for tensor in (LOSS, WEIGHT, GRADIENT, FLAGS, LABELS):
                for statistic in CHECKED:
                    reductions = [f"{REDUCTION_MARK}{word}/{tensor}" for word in REDUCTIONS.get(statistic, ())]
                    source = next((name for name in (*reductions, tensor) if name in found), None)
                    row = found[source] if source else None
                    if row is not None:
                        numbers.setdefault((tensor, statistic, index.mode, worker), {})[step] = float(
                            row[PLACES[statistic]]
                        )
        return cls(numbers, frozenset(damaged))


def check(trial: Trial, oracle: Oracle, *, last_step: int) -> None:
    workers = sorted({worker for _, _, _, worker in oracle.numbers})
    for tensor in (LOSS, WEIGHT, GRADIENT, FLAGS, LABELS):
        for statistic in CHECKED:
            for mode in ("TRAIN", "EVAL"):
                columns = trial.columns(tensor, statistic, last_step=last_step, mode=mode)
                by_worker = {column.worker: column for column in columns}
                assert [column.worker for column in columns] == sorted(by_worker)
                for worker in workers:
                    numbers = oracle.numbers.get((tensor, statistic, mode, worker), {})
                    steps = sorted(step for step in numbers if step <= last_step)
                    column = by_worker.get(worker)
                    assert (column.steps.tolist() if column else []) == steps, (tensor, statistic, mode, worker)
                    if column is not None:
                        expected = np.array([numbers[step] for step in steps])
                        np.testing.assert_array_equal(column.values.view(np.uint64), expected.view(np.uint64))


STEP = st.fixed_dictionaries(
    {
        "gap": st.sampled_from([1, 1, 1, 1, 90]),
        "mode": st.sampled_from(["TRAIN"] * 4 + ["EVAL"]),
        "holds": st.sampled_from(["loss", "loss", "all", "all", "reduced", "none-of-it"]),
        "value": st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan"), float("inf")]),
        "shape": st.sampled_from([(3, 2)] * 5 + [(2, 3), (1,)]),
        "dtype": st.sampled_from(["f4"] * 5 + ["f8", "f2", "i8"]),
        "damage": st.sampled_from([""] * 12 + ["cut", "flipped", "gone", "longer"]),
        "workers": st.sampled_from([(0, 1)] * 6 + [(0,), (1,)]),
    }
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=40), st.integers(1, 3), st.data())
def test_columns_are_what_the_records_say_one_by_one(
    steps: list[dict[str, object]], parts: int, data: st.DataObject
) -> None:
    store = MemoryStore()
    write_collections(store, workers=("worker_0", "worker_1"))
    trial = Trial(store)
    step = -1
    late: list[tuple[int, dict[str, object]]] = []
    cuts = sorted(data.draw(st.lists(st.integers(0, len(steps)), min_size=parts, max_size=parts)))
    for place, what in enumerate(steps):
        step += int(str(what["gap"]))
        if len(what["workers"]) == 1 and data.draw(st.booleans()):  # type: ignore[arg-type]
            late.append((step, what))
        for rank in what["workers"]:  # type: ignore[attr-defined]
            save(store, step, rank, what)
        if place in cuts:
            trial.refresh()
            oracle = Oracle.of(store)
            for last_step in (step // 2, step):
                check(trial, oracle, last_step=last_step)
    for step_before, what in late:
        save(store, step_before, 1 - what["workers"][0], what)  # type: ignore[index]
    end_run(store)
    trial.refresh()
    oracle = Oracle.of(store)
    check(trial, oracle, last_step=step)
    trial.columns(LOSS, "mean", last_step=step, mode=None)
    assert {error.key for error in trial.damaged} == oracle.damaged


def save(store: MemoryStore, step: int, rank: int, what: dict[str, object]) -> None:
    worker, value = f"worker_{rank}", float(str(what["value"]))
    with np.errstate(all="ignore"):
        array = (np.arange(6.0).reshape(3, 2) + value).astype(np.float64)
        shaped = np.resize(array, what["shape"]).astype(str(what["dtype"]))  # type: ignore[call-overload]
        loss = np.float32(value)
    every = {LOSS: loss, WEIGHT: shaped, FLAGS: np.array([True, False]), LABELS: np.array(["a", "b"]), GRADIENT: array}
    holds = {
        "loss": {LOSS: loss},
        "all": every,
        "reduced": {LOSS: loss, MEAN: np.float32(value), GRADIENT: array},
        "none-of-it": {UNASKED: loss},
    }[str(what["holds"])]
    write_tensors(store, step, holds, mode=str(what["mode"]), worker=worker)
    key = event_key(step, worker)
    content = bytearray(store.get(key))
    if what["damage"] == "cut":
        store.put(key, content[: len(content) // 2])
    if what["damage"] == "flipped":
        content[len(content) // 2] ^= 0x10
        store.put(key, content)
    if what["damage"] == "gone":
        store.delete(key)
    if what["damage"] == "longer":
        store.put(key, content + b"more")


class Failing(MemoryStore):
    """Refuses the event files of some requests."""

    def __init__(self) -> None:
        super().__init__()
        self.gets = 0
        self.refused: frozenset[int] = frozenset()

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if key.startswith("events/"):
            self.gets += 1
            if self.gets in self.refused:
                raise StorageUnavailableError("out of order")
        return super().get(key, start=start, length=length)


@pytest.mark.parametrize("steps", [3, 40], ids=["few-steps", "many-steps"])
@pytest.mark.parametrize("refused", [1, 2, 3])
def test_after_an_outage_nothing_is_missing_and_nothing_double(steps: int, refused: int) -> None:
    store = Failing()
    for step in range(steps):
        write_tensors(store, step, {LOSS: float(step), WEIGHT: np.ones(3)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    store.refused = frozenset({refused})
    with pytest.raises(StorageUnavailableError):
        trial.columns(LOSS, "mean", last_step=steps, mode="TRAIN")
    for name in (LOSS, WEIGHT):
        (column,) = trial.columns(name, "mean", last_step=steps, mode="TRAIN")
        assert column.steps.tolist() == [*range(steps)]


def test_steps_that_are_read_later_join_those_that_were_read_before() -> None:
    """Whoever comes late reads by himself until he has caught up; from there on a step is fetched once for all."""
    store = Failing()
    write_collections(store)
    for step in range(300):
        write_tensors(store, step, {"a_mine": 1.0, "b_yours": 2.0})
    trial = Trial(store)
    trial.refresh()
    trial.columns("a_mine", "mean", last_step=299, mode="TRAIN")
    assert store.gets == 300
    trial.columns("b_yours", "mean", last_step=10, mode="TRAIN")
    trial.columns("b_yours", "mean", last_step=299, mode="TRAIN")
    assert store.gets == 600
    for step in range(300, 305):
        write_tensors(store, step, {"a_mine": 1.0, "b_yours": 2.0})
        trial.refresh()
        for name in ("a_mine", "b_yours"):
            assert len(trial.columns(name, "mean", last_step=step, mode="TRAIN")[0].steps) == step + 1
        assert store.gets == 601 + step - 300


def test_a_huge_neighbour_is_not_held_up_nor_read_unasked() -> None:
    store = MemoryStore()
    huge = np.ones(tensors.SMALL_RECORD_BYTES, np.float32)
    for step in range(20):
        write_tensors(store, step, {"gradient/a": 1.0, "gradient/huge": huge if step >= 10 else huge[:4]})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    sizes: list[int] = []
    get = store.get
    store.get = lambda key, *, start=0, length=None: (sizes.append(length or 0), get(key, start=start, length=length))[
        1
    ]
    assert len(trial.columns("gradient/a", "mean", last_step=20, mode="TRAIN")[0].steps) == 20
    assert sum(sizes) < tensors.SMALL_RECORD_BYTES
    assert len(trial.columns("gradient/huge", "mean", last_step=20, mode="TRAIN")[0].steps) == 20


def test_neighbours_that_become_huge_one_after_another_are_left_behind() -> None:
    """As the inputs of a model that plays games of other lengths. Each once led back to the start of the block."""
    store, huge = MemoryStore(), tensors.SMALL_RECORD_BYTES // 4
    names = [f"Net_input_{k}" for k in range(6)]
    for step in range(12):
        others = {name: np.ones(huge if k + 1 == step else 3, np.float32) for k, name in enumerate(names)}
        write_tensors(store, step, {LABELS: np.full(2, float(step), np.float32), **others})
    write_collections(store, extra={"labels": [LABELS], "model_inputs": names})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    (column,) = trial.columns(LABELS, "mean", last_step=11, mode="TRAIN")
    assert column.values.tolist() == list(range(12))
    for name in names:
        (column,) = trial.columns(name, "mean", last_step=11, mode="TRAIN")
        assert column.values.tolist() == [1.0] * 12


def test_a_step_of_many_large_tensors_is_read_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "MOST_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(tensors, "MOST_BYTES_AT_ONCE", 1 << 12)
    store = MemoryStore()
    names = [f"gradient/{i}" for i in range(10)]
    for step in range(3):
        write_tensors(store, step, {name: np.full(500, step, np.float32) for name in names})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    for name in names:
        assert trial.columns(name, "max", last_step=2, mode="TRAIN")[0].values.tolist() == [0, 1, 2]


@pytest.mark.parametrize("steps", [1, 20], ids=["one", "many"])
def test_a_step_that_was_written_again_is_found_by_what_its_index_says_now(steps: int) -> None:
    """A restarted job writes its last steps again, after we have read their index."""
    store = MemoryStore()
    write_collections(store)
    for step in range(steps):
        write_tensors(store, step, {LOSS: 1.0, WEIGHT: np.ones(3)})
    trial = Trial(store)
    trial.refresh()
    for step in range(steps):
        write_tensors(store, step, {"Net.bias": np.ones(7), LOSS: 5.0, WEIGHT: np.full((4, 4), 2.0)})
    assert trial.value(LOSS, step=0, worker="worker_0").tolist() == [5.0]
    for name, number in ((LOSS, 5.0), (WEIGHT, 2.0)):
        assert trial.columns(name, "mean", last_step=steps, mode="TRAIN")[0].values.tolist() == [number] * steps
    assert trial.damaged == ()


def test_a_step_that_was_written_again_without_the_tensor_is_damaged_and_the_rest_is_read() -> None:
    store = MemoryStore()
    write_collections(store)
    for step in range(20):
        write_tensors(store, step, {LOSS: 1.0, WEIGHT: np.ones(3)})
    trial = Trial(store)
    trial.refresh()
    write_tensors(store, 7, {WEIGHT: np.ones(5)})
    assert 7 not in trial.columns(LOSS, "mean", last_step=20, mode="TRAIN")[0].steps
    assert [error.key for error in trial.damaged] == [event_key(7, "worker_0")]


def test_a_record_of_another_tensor_is_damage() -> None:
    store = MemoryStore()
    write_tensors(store, 0, {"aaaa": 1.0, "bbbb": 2.0})
    key = index_key(0, "worker_0")
    store.put(key, store.get(key).replace(b'"aaaa"', b'"cccc"'))
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    assert trial.columns("cccc", "mean", last_step=0, mode="TRAIN") == ()
    with pytest.raises(RecordError, match="holds 'aaaa' where the index says 'cccc'"):
        trial.value("cccc", step=0, worker="worker_0")


def a_long_one(count: int) -> Iterator[tuple[int, dict[str, float]]]:
    for step in range(count):
        yield step, {f"t{i}.weight": float(step + i) for i in range(100)}


def test_the_numbers_of_scalars_take_a_few_bytes_each() -> None:
    def kept_by_reading(steps: int) -> int:
        import tracemalloc

        store = MemoryStore()
        for step, values in a_long_one(steps):
            write_tensors(store, step, values)
        end_run(store)
        trial = Trial(store)
        trial.refresh()
        tracemalloc.start()
        try:
            for name in trial.names:
                trial.columns(name, "mean", last_step=steps, mode="TRAIN")
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    kept_by_reading(10)  # what modules keep for themselves, which differs from Python to Python
    shorter, longer = kept_by_reading(200), kept_by_reading(400)
    assert (longer - shorter) / (200 * 100) < 40, (shorter, longer)
