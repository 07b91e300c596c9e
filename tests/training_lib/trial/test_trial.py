"""The trial reads a growing run: what is complete, what it holds, when it has ended, and what is damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.errors import (
    ConfigurationError,
    RecordError,
    RunNotFoundError,
    StorageUnavailableError,
    TensorNotSavedError,
)
from trackside.contracts.run_layout import event_key, index_key
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, fake_trial, write_collections, write_tensors
from trackside.trial.steps import step_completion
from trackside.trial.trial import Trial, open_trial

G = "gradient/Net_fc1.weight"
LOSS = "CrossEntropyLoss_output_0"


class CountingStore(MemoryStore):
    """Counts requests; fails the ones it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.fail_next_get = False

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.requests.append(f"get {key}")
        if self.fail_next_get:
            self.fail_next_get = False
            raise StorageUnavailableError("out of order")
        return super().get(key, start=start, length=length)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self.requests.append(f"list {prefix}>{start_after}")
        return super().list(prefix, start_after=start_after)

    def exists(self, key: str) -> bool:
        self.requests.append(f"exists {key}")
        return super().exists(key)

    def taken(self) -> Sequence[str]:
        requests, self.requests = self.requests, []
        return requests


def growing(workers: int = 1) -> tuple[CountingStore, Trial]:
    store = CountingStore()
    write_collections(store, workers=[f"worker_{rank}" for rank in range(workers)])
    return store, Trial(store)


def test_a_growing_run_shows_its_steps_as_they_come() -> None:
    store, trial = growing()
    trial.refresh()
    assert trial.steps() == ()
    write_tensors(store, 0, {LOSS: 2.0})
    assert trial.steps() == ()  # nothing moves under a reader between refreshes
    trial.refresh()
    write_tensors(store, 10, {LOSS: 1.0})
    trial.refresh()
    assert trial.steps() == (0, 10)
    assert list(trial.new_complete_steps(0)) == [10]
    assert not trial.has_ended


def test_the_end_is_seen_with_everything_before_it() -> None:
    store, trial = growing()
    trial.refresh()
    write_tensors(store, 0, {LOSS: 2.0})
    end_run(store)
    trial.refresh()
    assert trial.has_ended
    assert trial.steps() == (0,)


def test_a_step_written_while_the_end_is_being_seen_is_not_lost() -> None:
    class Racing(MemoryStore):
        """Between listing the index and seeing the marker, a step and the marker arrive."""

        raced = False

        def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
            before = list(super().list(prefix, start_after=start_after))
            if not self.raced and prefix == "":
                self.raced = True
                write_tensors(self, 10, {LOSS: 1.0})
                end_run(self)
                return iter([*before, "training_job_end.ts"])
            return iter(before)

    store = Racing()
    write_collections(store)
    write_tensors(store, 0, {LOSS: 2.0})
    trial = Trial(store)
    trial.refresh()
    assert trial.has_ended
    assert trial.steps() == (0, 10)


def test_a_killed_run_goes_on_until_somebody_marks_its_end() -> None:
    store, trial = growing()
    write_tensors(store, 0, {LOSS: 2.0})
    for _ in range(3):
        trial.refresh()
        assert not trial.has_ended
    end_run(store)
    trial.refresh()
    assert trial.has_ended


def test_the_end_is_seen_behind_tensorboard_files_of_the_original() -> None:
    store, trial = growing()
    write_tensors(store, 0, {LOSS: 2.0})
    store.put("tensorboard/TRAIN/000000000000_1_host.tfevents", b"x")
    trial.refresh()
    assert not trial.has_ended
    end_run(store)
    trial.refresh()
    assert trial.has_ended


def test_a_poll_with_nothing_new_is_one_listing_and_opening_reads_each_index_once() -> None:
    store, trial = growing()
    for step in range(5):
        write_tensors(store, step, {LOSS: 2.0, G: np.ones(3)})
    trial.refresh()
    assert len([r for r in store.taken() if r.startswith("get index/")]) == 5
    trial.refresh()
    assert store.taken() == [f"list >{index_key(4, 'worker_0')}"]
    write_tensors(store, 5, {LOSS: 2.0})
    trial.refresh()
    assert [r for r in store.taken() if r.startswith("get")] == [f"get {index_key(5, 'worker_0')}"]


def test_neighbours_come_together_once_two_tensors_are_asked_for() -> None:
    store, trial = growing()
    names = [f"gradient/Net_fc{i}.weight" for i in range(5)]
    for step in range(3):
        write_tensors(store, step, dict.fromkeys(names, 1.0))
        trial.refresh()
        store.taken()
        window = trial.window(step, now=0)
        for name in window.tensors("gradients"):
            for statistic in ("mean", "abs_max"):
                assert len(window.statistic(name, statistic)[0].values) == step + 1
        assert store.taken() == [f"get {event_key(step, 'worker_0')}"] * (1 if step else 2)


def test_a_large_neighbour_is_left_alone_until_it_is_asked_for() -> None:
    store, trial = growing()
    write_tensors(store, 0, {G: 1.0, "gradient/Net_huge.weight": np.zeros(1 << 18)})
    trial.refresh()
    read = sum(len(store.get(event_key(0, "worker_0"))) for _ in range(1))
    sizes: list[int | None] = []
    original = store.get
    store.get = lambda key, *, start=0, length=None: (
        sizes.append(length),
        original(key, start=start, length=length),
    )[1]
    trial.window(0, now=0).statistic(G, "mean")
    assert sum(size or 0 for size in sizes) < read / 100


def test_two_workers_a_step_is_complete_when_both_have_saved_it() -> None:
    store, trial = growing(workers=2)
    write_tensors(store, 0, {LOSS: 1.0}, worker="worker_0")
    trial.refresh()
    assert trial.steps() == ()
    write_tensors(store, 0, {LOSS: 3.0}, worker="worker_1")
    trial.refresh()
    assert trial.steps() == (0,)
    assert trial.workers == ("worker_0", "worker_1")
    columns = trial.window(0, now=0).statistic(LOSS, "mean")
    assert [(c.worker, float(c.values[0])) for c in columns] == [("worker_0", 1.0), ("worker_1", 3.0)]


def test_a_late_worker_is_still_found_and_takes_its_place_in_the_columns() -> None:
    store, trial = growing(workers=2)
    for step in (0, 10, 20):
        write_tensors(store, step, {LOSS: float(step)}, worker="worker_0")
    for step in (0, 20):  # step 10 of worker_1 comes last
        write_tensors(store, step, {LOSS: float(step)}, worker="worker_1")
    trial.refresh()
    assert trial.steps() == (0, 10, 20)  # as complete as it would ever be
    early = trial.window(20, now=0).statistic(LOSS, "mean")[1]
    write_tensors(store, 10, {LOSS: 10.0}, worker="worker_1")
    trial.refresh()
    late = trial.window(20, now=0).statistic(LOSS, "mean")[1]
    assert late.steps.tolist() == [0, 10, 20]
    assert late.values.tolist() == [0, 10, 20]
    assert early.steps.tolist() == [0, 20]  # what a rule was given does not change in its hands


def test_a_dead_worker_holds_the_run_up_for_a_bounded_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_completion, "INCOMPLETE_STEP_WINDOW", 10)
    store, trial = growing(workers=2)
    for step in range(25):
        write_tensors(store, step, {LOSS: 1.0}, worker="worker_0")
        trial.refresh()
    assert 10 <= len(trial.steps()) < 25
    store.taken()
    trial.refresh()
    (listing,) = store.taken()
    keys = list(store.list("", start_after=listing.partition(">")[2]))
    assert len([key for key in keys if key.startswith("index/")]) <= 11
    end_run(store)
    trial.refresh()
    assert len(trial.steps()) == 25


def test_without_a_collections_file_the_newest_step_waits() -> None:
    store = MemoryStore()
    trial = Trial(store)
    write_tensors(store, 0, {LOSS: 2.0})
    write_tensors(store, 5, {LOSS: 2.0, G: 1.0})
    trial.refresh()
    assert trial.steps() == (0,)
    assert trial.tensor_names(collection="gradients") == (G,)
    write_collections(store)
    trial.refresh()
    assert trial.steps() == (0, 5)


@pytest.mark.parametrize(
    ("name", "collection", "belongs"),
    [
        pytest.param("Net_fc1.weight", "weights", True, id="weight"),
        pytest.param("gradient/Net_fc1.weight", "weights", False, id="gradient-is-no-weight"),
        pytest.param("Net_fc1.bias", "biases", True, id="bias"),
        pytest.param("gradient/Net_fc1.bias", "biases", False, id="gradient-is-no-bias"),
        pytest.param("gradient/Net_fc1.bias", "gradients", True, id="gradient"),
        pytest.param("Net_gradient.weight", "gradients", False, id="a-layer-named-gradient"),
        pytest.param("CrossEntropyLoss_output_0", "losses", True, id="loss"),
        pytest.param("CrossEntropyLoss_input_0", "losses", False, id="input-of-the-loss"),
        pytest.param("mine_a", "mine", True, id="own-collection"),
        pytest.param("other_a", "mine", False, id="not-in-own-collection"),
        pytest.param("mine_a", "nobody-knows", False, id="unknown-collection"),
    ],
)
def test_collections(name: str, collection: str, belongs: bool) -> None:
    trial = fake_trial({name: {0: 1.0}}, collections={"mine": ["^mine_"]})
    assert (name in trial.tensor_names(collection=collection)) is belongs
    assert (collection in trial.parts.steps.collections_at(0)) is belongs


def test_modes_have_their_own_steps_and_columns() -> None:
    trial = fake_trial({LOSS: {0: 3.0, 1: 9.0, 2: 2.0}}, modes={1: "EVAL"})
    assert trial.steps("TRAIN") == (0, 2)
    assert trial.steps("EVAL") == (1,)
    assert trial.window(2, now=0).statistic(LOSS, "mean")[0].values.tolist() == [3.0, 2.0]
    assert trial.window(1, now=0).statistic(LOSS, "mean")[0].values.tolist() == [9.0]
    assert trial.columns(LOSS, "mean", last_step=2, mode=None)[0].steps.tolist() == [0, 1, 2]


def test_a_window_shows_nothing_newer_than_its_step() -> None:
    trial = fake_trial({LOSS: {step: float(step) for step in range(200)}})
    assert trial.window(100, now=0).statistic(LOSS, "mean")[0].steps[-1] == 100
    assert trial.window(199, now=0).statistic(LOSS, "mean")[0].steps[-1] == 199
    assert trial.window(100, now=0).statistic(LOSS, "mean", last=3)[0].steps.tolist() == [98, 99, 100]
    assert trial.window(0, now=0).statistic(G, "mean") == ()


def test_a_rule_cannot_spoil_what_the_next_one_sees() -> None:
    column = fake_trial({LOSS: {0: 1.0, 1: 2.0}}).window(1, now=0).statistic(LOSS, "mean")[0]
    with pytest.raises(ValueError, match="read-only"):
        column.values[0] = 5


def test_a_saved_reduction_answers_before_the_whole_tensor() -> None:
    trial = fake_trial(
        {
            "smdebug/reductions/mean/Net_fc1.weight": {0: 7.0, 2: 8.0},
            "smdebug/reductions/abs_max/Net_fc2.weight": {0: 3.0},
            "Net_fc1.weight": {0: np.ones(4), 1: np.full(4, 2.0)},
        }
    )
    assert trial.names == ("Net_fc1.weight", "Net_fc2.weight")
    assert trial.tensor_names(collection="weights") == trial.names
    window = trial.window(2, now=0)
    assert window.statistic("Net_fc1.weight", "mean")[0].values.tolist() == [7.0, 2.0, 8.0]
    assert window.statistic("Net_fc1.weight", "max")[0].steps.tolist() == [0, 1]
    assert window.statistic("Net_fc2.weight", "abs_max")[0].values.tolist() == [3.0]
    assert window.statistic("Net_fc2.weight", "zero_share") == ()
    with pytest.raises(TensorNotSavedError, match="reductions only"):
        trial.value("Net_fc2.weight", step=0, worker="worker_0")


def test_values_come_whole_and_what_is_not_there_is_said() -> None:
    trial = fake_trial({G: {0: np.arange(6.0).reshape(2, 3)}, LOSS: {1: 1.0}})
    np.testing.assert_array_equal(trial.window(0, now=0).value(G, worker="worker_0"), np.arange(6.0).reshape(2, 3))
    with pytest.raises(TensorNotSavedError, match="step 1"):
        trial.value(G, step=1, worker="worker_0")
    with pytest.raises(TensorNotSavedError, match=r"Did you mean 'gradient/Net_fc1\.weight'"):
        trial.value("gradient/Net_fc1.weigth", step=0, worker="worker_0")
    with pytest.raises(ConfigurationError, match="Did you mean 'abs_mean'"):
        trial.window(0, now=0).statistic(G, "abs_men")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"meta": {"mode": "TRAIN"', id="truncated"),
        pytest.param(b"\x00\xff\x00", id="binary"),
    ],
)
def test_a_damaged_index_is_reported_once_and_the_rest_stays_readable(content: bytes) -> None:
    store, trial = growing()
    for step in range(3):
        write_tensors(store, step, {LOSS: float(step)})
    store.put(index_key(1, "worker_0"), content)
    for _ in range(3):
        trial.refresh()
    assert [error.key for error in trial.damaged] == [index_key(1, "worker_0")]
    assert trial.parts.steps.is_damaged(1)
    assert not trial.parts.steps.is_damaged(2)
    assert trial.steps() == (0, 1, 2)
    assert trial.window(2, now=0).statistic(LOSS, "mean")[0].steps.tolist() == [0, 2]


def test_an_index_that_points_elsewhere_is_damaged() -> None:
    store, trial = growing()
    write_tensors(store, 0, {LOSS: 1.0})
    index = json.loads(store.get(index_key(0, "worker_0")))
    index["meta"]["event_file_name"] = "events/../../secret"
    store.put(index_key(0, "worker_0"), json.dumps(index).encode())
    trial.refresh()
    assert len(trial.damaged) == 1


@pytest.mark.parametrize("kept", [0, 5, 30])
def test_a_truncated_event_file_is_reported_once_and_the_rest_stays_readable(kept: int) -> None:
    store, trial = growing()
    for step in range(3):
        write_tensors(store, step, {LOSS: float(step), G: 1.0})
    store.put(event_key(1, "worker_0"), store.get(event_key(1, "worker_0"))[:kept])
    trial.refresh()
    for name in (LOSS, G):
        assert trial.window(2, now=0).statistic(name, "mean")[0].steps.tolist() == [0, 2]
    assert [error.key for error in trial.damaged] == [event_key(1, "worker_0")]
    assert trial.parts.steps.is_damaged(1)
    with pytest.raises(RecordError):
        trial.value(LOSS, step=1, worker="worker_0")


def test_a_missing_event_file_is_reported_and_the_rest_stays_readable() -> None:
    store, trial = growing()
    for step in range(2):
        write_tensors(store, step, {LOSS: float(step)})
    store.delete(event_key(0, "worker_0"))
    trial.refresh()
    assert trial.window(1, now=0).statistic(LOSS, "mean")[0].steps.tolist() == [1]
    assert "not there" in str(trial.damaged[0])


def test_an_outage_in_the_middle_of_a_refresh_changes_nothing_and_the_next_one_sees_all() -> None:
    store, trial = growing()
    trial.refresh()
    for step in range(3):
        write_tensors(store, step, {LOSS: float(step)})
    store.fail_next_get = True
    with pytest.raises(StorageUnavailableError):
        trial.refresh()
    assert trial.steps() == ()
    trial.refresh()
    assert trial.steps() == (0, 1, 2)
    store.fail_next_get = True
    with pytest.raises(StorageUnavailableError):
        trial.window(2, now=0).statistic(LOSS, "mean")
    assert trial.window(2, now=0).statistic(LOSS, "mean")[0].values.tolist() == [0, 1, 2]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_order_of_arrival_ends_in_the_same_columns(data: st.DataObject) -> None:
    steps = (0, 1, 2, 1000, 1001)
    turns = data.draw(st.permutations(["worker_0"] * 5 + ["worker_1"] * 5))  # each writes its own steps in order
    waiting = {worker: list(steps) for worker in turns}
    store, trial = growing(workers=2)
    for worker in turns:
        step = waiting[worker].pop(0)
        write_tensors(store, step, {LOSS: step + (worker == "worker_1") / 2}, worker=worker)
        if data.draw(st.booleans()):
            trial.refresh()
            for column in trial.columns(LOSS, "mean", last_step=1000, mode="TRAIN"):
                assert sorted(column.steps) == column.steps.tolist()
    end_run(store)
    trial.refresh()
    assert trial.steps() == steps
    columns = trial.columns(LOSS, "mean", last_step=5000, mode="TRAIN")
    assert [c.values.tolist() for c in columns] == [[0, 1, 2, 1000, 1001], [0.5, 1.5, 2.5, 1000.5, 1001.5]]


@pytest.mark.parametrize("below", ["", "debug-output"])
def test_opens_a_run_its_tensors_or_a_folder_of_the_original(tmp_path: Path, below: str) -> None:
    store = LocalStore(tmp_path / "debug-output")
    write_collections(store)
    write_tensors(store, 0, {LOSS: 1.5})
    end_run(store)
    trial = open_trial(str(tmp_path / below))
    assert trial.steps() == (0,)
    assert trial.has_ended
    assert trial.window(0, now=0).statistic(LOSS, "mean")[0].values.tolist() == [1.5]


@pytest.mark.parametrize("below", ["", "debug-output/"])
def test_opens_a_store(below: str) -> None:
    inner, store = MemoryStore(), MemoryStore()
    write_collections(inner)
    write_tensors(inner, 0, {LOSS: 1.5})
    for key in inner.list():
        store.put(below + key, inner.get(key))
    trial = open_trial(store)
    assert trial.steps() == (0,)
    assert trial.window(0, now=0).statistic(LOSS, "mean")[0].values.tolist() == [1.5]


def test_nothing_there_says_what_would_work(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="debug-output"):
        open_trial(str(tmp_path))
