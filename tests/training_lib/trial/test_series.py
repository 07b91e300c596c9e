"""A run as it is read in Python: tensors by name, over steps, by worker; while it grows; when parts are damaged."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import SimpleNamespace

import numpy as np
import pytest

from trackside.contracts.errors import ConfigurationError, RecordError, TensorNotSavedError
from trackside.contracts.run_layout import event_key, index_key
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, fake_trial, write_collections, write_tensors
from trackside.trial.tensors.statistics import STATISTICS
from trackside.trial.trial import Trial

WEIGHT, GRADIENT, LOSS = "Net_fc.weight", "gradient/Net_fc.weight", "Loss_output_0"


def a_run() -> Trial:
    return fake_trial(
        {
            WEIGHT: {step: np.full((2, 3), float(step), np.float32) for step in (0, 10, 20, 30)},
            GRADIENT: {step: np.full((2, 3), -1.0) for step in (0, 20)},
            LOSS: {0: 2.0, 10: 1.5, 20: 1.25, 30: 9.0},
        },
        modes={30: "EVAL"},
    )


def two_workers() -> tuple[MemoryStore, Trial]:
    store = MemoryStore()
    write_collections(store, workers=("worker_0", "worker_1"))
    for step in (0, 1):
        for rank in (0, 1):
            write_tensors(store, step, {WEIGHT: np.full(4, 10.0 * rank + step)}, worker=f"worker_{rank}")
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    return store, trial


def test_values_are_stacked() -> None:
    weight = a_run().tensor(WEIGHT)
    assert (weight.steps, weight.workers, len(weight)) == ((0, 10, 20, 30), ("worker_0",), 4)
    assert isinstance(weight.values, np.ndarray)
    assert weight.values.shape == (4, 2, 3)
    assert weight.values.dtype == np.float32
    assert weight.values[:, 0, 0].tolist() == [0, 10, 20, 30]
    assert weight.value(10).tolist() == np.full((2, 3), 10).tolist()
    assert weight.value()[0, 0] == 30


def test_values_of_several_shapes_are_a_tuple() -> None:
    values = fake_trial({"a": {0: np.zeros(2), 1: np.zeros(3)}}).tensor("a").values
    assert isinstance(values, tuple)
    assert [value.shape for value in values] == [(2,), (3,)]


@pytest.mark.parametrize(
    ("steps", "mode", "expected"),
    [
        pytest.param("10:30:10", None, [1.5, 1.25], id="steps"),
        pytest.param(slice(20, None), None, [1.25, 9.0], id="slice"),
        pytest.param(None, "eval", [9.0], id="mode"),
        pytest.param(range(25), "train", [2.0, 1.5, 1.25], id="both"),
    ],
)
def test_statistics_of_a_part(steps: slice | str | range | None, mode: str | None, expected: list[float]) -> None:
    loss = a_run().tensor(LOSS, steps=steps, mode=mode)
    assert loss.statistic("mean").values.tolist() == expected
    assert tuple(loss.statistic("mean").steps.tolist()) == loss.steps


def test_columns_for_pandas() -> None:
    columns = a_run().tensor(LOSS, steps="20:").to_columns()
    assert list(columns) == ["step", "worker", "mode", *STATISTICS]
    assert columns["step"].tolist() == [20, 30]
    assert columns["mode"].tolist() == ["TRAIN", "EVAL"]
    assert columns["mean"].tolist() == [1.25, 9.0]
    assert {len(column) for column in columns.values()} == {2}


def test_to_pandas_is_a_frame_of_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = a_run().tensor(LOSS)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    assert loss.to_pandas() == list(loss.to_columns())


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigurationError, match=r"pip install( --python \S+)? pandas"):
        a_run().tensor(LOSS).to_pandas()


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param({}, [LOSS, WEIGHT, GRADIENT], id="all"),
        pytest.param({"regex": "^Net"}, [WEIGHT], id="regex"),
        pytest.param({"collection": "gradients"}, [GRADIENT], id="collection"),
        pytest.param({"steps": "10"}, [LOSS, WEIGHT], id="steps-at-which-not-all-were-saved"),
        pytest.param({"mode": "EVAL", "regex": "weight"}, [WEIGHT], id="mode-and-regex"),
        pytest.param({"regex": "nothing"}, [], id="none"),
    ],
)
def test_tensors_by_filter(filters: dict[str, str], expected: list[str]) -> None:
    assert [series.name for series in a_run().tensors(**filters)] == expected


def test_collections_that_hold_something() -> None:
    assert a_run().collections == {"gradients": (GRADIENT,), "losses": (LOSS,), "weights": (WEIGHT,)}


def test_a_misspelt_tensor_says_which_was_meant() -> None:
    with pytest.raises(TensorNotSavedError, match=r"Did you mean 'Net_fc\.weight'"):
        a_run().tensor("Net_fc.wieght")


def test_an_unlike_name_lists_a_few_of_many() -> None:
    trial = fake_trial({f"tensor{number}": {0: 1.0} for number in range(50)})
    with pytest.raises(TensorNotSavedError) as caught:
        trial.tensor("???")
    assert "and 45 more" in str(caught.value)
    with pytest.raises(TensorNotSavedError, match="no tensor yet"):
        fake_trial({}).tensor("a")


@pytest.mark.parametrize(
    ("filters", "match"),
    [
        pytest.param({"worker": "worker_1"}, "Did you mean 'worker_0'", id="worker"),
        pytest.param({"collection": "gradient"}, "Did you mean 'gradients'", id="collection"),
        pytest.param({"mode": "test"}, "Modes: TRAIN", id="mode"),
        pytest.param({"regex": "("}, "no regular expression", id="regex"),
        pytest.param({"steps": "a"}, "names no steps", id="steps"),
    ],
)
def test_filters_that_there_cannot_be(filters: dict[str, str], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        a_run().tensors(**filters)


def test_steps_at_which_it_was_not_saved() -> None:
    with pytest.raises(TensorNotSavedError, match="at steps 0 to 30, every 10"):
        a_run().tensor(WEIGHT, steps=5).value()
    with pytest.raises(TensorNotSavedError, match="step 5"):
        a_run().tensor(WEIGHT).value(5)


def test_an_unknown_statistic() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'abs_mean'"):
        a_run().tensor(WEIGHT).statistic("absmean")


def test_texts_have_no_statistics() -> None:
    notes = fake_trial({"note": {0: np.array(["warm-up"])}}).tensor("note")
    assert notes.value().tolist() == ["warm-up"]
    assert notes.columns("mean") == ()
    with pytest.raises(TensorNotSavedError, match="no selected step holds numbers"):
        notes.statistic("mean")


def test_reductions_alone_have_statistics_and_no_values() -> None:
    trial = fake_trial({f"smdebug/reductions/abs_mean/{WEIGHT}": {0: 0.5, 1: 0.25}})
    weight = trial.tensor(WEIGHT)
    assert weight.statistic("abs_mean").values.tolist() == [0.5, 0.25]
    assert trial.parts.heads([weight]) == {}
    with pytest.raises(TensorNotSavedError, match="reductions only"):
        _ = weight.values


def test_of_several_workers_one_must_be_chosen() -> None:
    _, trial = two_workers()
    weight = trial.tensor(WEIGHT)
    for question in (lambda: weight.values, weight.value, lambda: weight.statistic("mean")):
        with pytest.raises(ConfigurationError, match="worker='worker_0'"):
            question()
    assert [column.worker for column in weight.columns("mean")] == ["worker_0", "worker_1"]
    assert [(v.step, v.worker, v.value[0]) for v in weight] == [
        (0, "worker_0", 0.0),
        (0, "worker_1", 10.0),
        (1, "worker_0", 1.0),
        (1, "worker_1", 11.0),
    ]
    chosen = trial.tensor(WEIGHT, worker="worker_1")
    assert chosen.statistic("mean").values.tolist() == [10.0, 11.0]
    assert chosen.workers == ("worker_1",)


def test_the_rest_of_a_damaged_run_is_read() -> None:
    store, _ = two_workers()
    key = event_key(1, "worker_0")
    store.put(key, store.get(key)[:-20])
    store.put(index_key(0, "worker_1"), b"{")
    trial = Trial(store)
    trial.refresh()
    weight = trial.tensor(WEIGHT)
    assert [(v.step, v.worker) for v in weight] == [(0, "worker_0"), (1, "worker_1")]
    assert {error.key for error in trial.damaged} == {key, index_key(0, "worker_1")}
    with pytest.raises(RecordError, match=key):
        _ = trial.tensor(WEIGHT, worker="worker_0").values


def test_heads_of_what_is_there_and_of_what_is_damaged() -> None:
    store = MemoryStore()
    write_tensors(store, 0, {"a": np.zeros((2, 3), np.float32), "b": 1, "n" * 3000: np.zeros(5)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    heads = trial.parts.heads(trial.tensors())
    assert {name[0]: (head.shape, head.dtype) for name, head in heads.items()} == {
        "a": ((2, 3), "float32"),
        "b": ((1,), "int64"),
        "n": ((5,), "float64"),
    }
    assert not trial.damaged
    key = event_key(0, "worker_0")
    store.put(key, store.get(key)[:60])
    assert "b" not in trial.parts.heads(trial.tensors())
    (damage,) = trial.damaged
    assert damage.key == key
    store.delete(key)
    assert trial.parts.heads(trial.tensors()) == {}


def test_follow_gives_each_step_once_until_the_end() -> None:
    store = MemoryStore()
    write_collections(store)
    write_tensors(store, 0, {LOSS: 2.0})
    trial = Trial(store)
    events: list[Callable[[], object]] = [
        lambda: None,
        lambda: [write_tensors(store, step, {LOSS: 1.0}) for step in (10, 20)],
        lambda: end_run(store),
    ]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        events.pop(0)()

    seen = [(step, len(trial.tensor(LOSS))) for step in trial.follow(poll_seconds=5, sleep=sleep)]
    assert seen == [(0, 1), (10, 3), (20, 3)]
    assert slept == [5, 5, 5]


def test_follow_ends_when_told() -> None:
    store = MemoryStore()
    write_collections(store)
    for step in range(5):
        write_tensors(store, step, {LOSS: 2.0})
    trial, seen = Trial(store), list[int]()
    for step in trial.follow(until=lambda: len(seen) == 2, after=0, sleep=lambda _: pytest.fail("slept")):
        seen.append(step)
    assert seen == [1, 2]


@pytest.mark.parametrize("poll_seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_follow_never_spins(poll_seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="seconds above 0"):
        a_run().follow(poll_seconds=poll_seconds)


def test_one_line_says_what_it_is() -> None:
    trial = a_run()
    assert repr(trial).endswith("ended, steps 0 to 30 (4 saved), 3 tensors, 1 worker(s)>")
    assert repr(trial.tensor(LOSS)) == "<TensorSeries 'Loss_output_0': 4 saved, steps 0 to 30, 1 worker(s)>"
    assert "no step saved" in repr(trial.tensor(LOSS, steps=5))
    assert "no step saved yet" in repr(fake_trial({}))


def test_in_a_notebook_it_is_a_short_escaped_table() -> None:
    name = "<img src=x onerror=alert(1)>"
    trial = fake_trial({name: {step: float(step) for step in range(60)}, **{f"t{i}": {0: 1.0} for i in range(60)}})
    for html in (trial._repr_html_(), trial.tensor(name)._repr_html_()):
        assert "<img" not in html
        assert "&lt;img src=x" in html
        assert "<script" not in html
        assert html.count("<tr>") == 1 + 50
        assert "50 of 6" in html


@pytest.mark.parametrize(("tensors", "steps"), [(20, 1000), (3000, 10)], ids=["long", "wide"])
def test_a_run_read_tensor_by_tensor_is_fetched_twice_at_most(tensors: int, steps: int) -> None:
    """Once for the first tensor, and once for all others. What was read ahead was once dropped beyond some number."""

    class Counting(MemoryStore):
        gets = 0

        def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
            self.gets += key.startswith("events/")
            return super().get(key, start=start, length=length)

    store = Counting()
    write_collections(store)
    for step in range(steps):
        write_tensors(store, step, {f"t{i}.weight": float(i) for i in range(tensors)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    for series in trial.tensors():
        assert len(series.statistic("mean").steps) == steps
    assert store.gets == 2 * steps


def test_one_column_alone_reads_one_tensor() -> None:
    """All hundred tensors of a run were once read and decoded for one of them."""
    store = Lengths()
    write_collections(store)
    for step in range(20):
        write_tensors(store, step, {f"t{i}.weight": np.full(4, i) for i in range(100)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    store.taken = 0
    assert trial.tensor("t50.weight").statistic("mean").values.tolist() == [50.0] * 20
    assert store.taken < 2 * store.stored / 100


class Lengths(MemoryStore):
    """Counts the bytes of event files, stored and read."""

    stored = taken = 0

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self.stored += len(data) if key.startswith("events/") else 0
        super().put(key, data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        data = super().get(key, start=start, length=length)
        self.taken += len(data) if key.startswith("events/") else 0
        return data


def test_a_notebook_reads_what_it_shows() -> None:
    store = MemoryStore()
    for step in range(400):
        write_tensors(store, step, {LOSS: float(step)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    for step in range(300):
        store.delete(event_key(step, "worker_0"))
    html = trial.tensor(LOSS)._repr_html_()
    assert trial.damaged == ()
    assert "<td>350</td>" in html
    assert "<td>349</td>" not in html


@pytest.mark.parametrize(
    ("steps", "mode", "worker", "expected"),
    [
        pytest.param("10:20", None, None, range(10, 20), id="range"),
        pytest.param("::25", None, None, range(0, 100, 25), id="stride"),
        pytest.param("7", "TRAIN", "worker_0", [7], id="one"),
        pytest.param("200:", None, None, [], id="none"),
    ],
)
def test_a_selection_limits_what_is_read(
    steps: str, mode: str | None, worker: str | None, expected: Iterable[int]
) -> None:
    store = MemoryStore()
    for step in range(100):
        write_tensors(store, step, {LOSS: float(step), WEIGHT: np.ones(3)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    for step in set(range(100)).difference(expected):
        store.delete(event_key(step, "worker_0"))
    for name, statistic in ((LOSS, "mean"), (LOSS, "l2"), (WEIGHT, "std")):
        columns = trial.tensor(name, steps=steps, mode=mode, worker=worker).columns(statistic)
        assert [step for column in columns for step in column.steps] == [*expected]
    assert trial.damaged == ()


def test_a_worker_that_was_chosen_is_read_alone() -> None:
    store, _ = two_workers()
    trial = Trial(store)
    trial.refresh()
    for step in (0, 1):
        store.delete(event_key(step, "worker_0"))
    assert trial.tensor(WEIGHT, worker="worker_1").statistic("mean").values.tolist() == [10.0, 11.0]
    assert trial.damaged == ()


def test_a_selection_of_what_is_read_already_reads_nothing() -> None:
    store = MemoryStore()
    for step in range(20):
        write_tensors(store, step, {LOSS: float(step)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    trial.tensor(LOSS).statistic("mean")
    for step in range(20):
        store.delete(event_key(step, "worker_0"))
    assert trial.tensor(LOSS, steps="5:7").statistic("max").values.tolist() == [5.0, 6.0]


def test_what_a_series_remembers_is_forgotten_when_the_run_grows() -> None:
    store = MemoryStore()
    write_collections(store, workers=["worker_0", "worker_1"])
    for worker in ("worker_0", "worker_1"):
        write_tensors(store, 0, {WEIGHT: 1.0}, worker=worker)
    write_tensors(store, 0, {WEIGHT: 1.0, LOSS: 1.0}, worker="worker_0")
    trial = Trial(store)
    trial.refresh()
    loss = trial.tensor(LOSS)
    assert (loss.steps, loss.workers) == ((0,), ("worker_0",))
    assert loss.value(0).tolist() == [1.0]
    for worker in ("worker_0", "worker_1"):
        write_tensors(store, 5, {LOSS: 2.0}, worker=worker)
    trial.refresh()
    assert (loss.steps, loss.workers) == ((0, 5), ("worker_0", "worker_1"))
    with pytest.raises(ConfigurationError, match="saved by 2 workers"):
        loss.value(0)
