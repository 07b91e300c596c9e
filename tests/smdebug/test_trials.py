"""What the drop-in does by itself: scripts of users, waiting, late files, runs on S3."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from moto import mock_aws
from smdebug import exceptions, modes
from smdebug.core.tensor import StepState
from smdebug.exceptions import MissingCollectionFiles, NoMoreData, StepUnavailable, TensorUnavailableForStep
from smdebug.rules import Rule, invoke_rule
from smdebug.trials import LocalTrial, S3Trial, create_trial

from trackside.contracts.run_layout import END_MARKER_KEY, collections_key, event_key, index_key
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.index_file import Index, IndexEntry, ShapeEntry, decode_index, encode_index
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore
from trackside.storage.s3 import S3Store
from trackside.storage.store import Store

LOSS, GRADIENT = "CrossEntropyLoss_output_0", "gradient/Linear0.weight"


def write_collections(store: Store, workers: int = 1, written: int | None = None) -> None:
    for rank in range(workers if written is None else written):
        record = CollectionRecord("gradients", ("^gradient",), (f"only/of_{rank}",))
        store.put(collections_key(f"worker_{rank}"), encode_collections([record], num_workers=workers))


def save(store: Store, step: int, worker: str = "worker_0") -> None:
    tensors = [(LOSS, np.array(1 / (step + 1), "f4")), (GRADIENT, np.full((2, 2), step, "f4"))]
    at = {"step": step, "mode": "TRAIN", "mode_step": step, "worker": worker, "wall_time": 1.0}
    write_step(store, encode_step(tensors, **at))  # type: ignore[arg-type]  # a dict of keywords


def end(store: Store) -> None:
    store.put(END_MARKER_KEY, b"")


class Waits:
    """Instead of sleeping, the next thing happens in the run."""

    def __init__(self, *events: Callable[[], object]) -> None:
        self.events = list(events)

    def __call__(self, seconds: float) -> None:
        assert seconds > 0
        self.events.pop(0)()


class Growing(Rule):
    def __init__(self, base_trial: LocalTrial) -> None:
        super().__init__(base_trial)
        self.judged: list[int] = []

    def set_required_tensors(self, step: int) -> None:
        self.req_tensors.add(GRADIENT, [step])

    def invoke_at_step(self, step: int) -> bool:
        self.judged.append(step)
        return bool(self.req_tensors.get() and step >= 4)


def test_a_rule_follows_a_live_run_to_its_end(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    waits = Waits(
        lambda: write_collections(store, 2, written=1),
        lambda: write_collections(store, 2),
        lambda: save(store, 0),
        lambda: save(store, 0, "worker_1"),
        lambda: [save(store, step, f"worker_{rank}") for step in (2, 4) for rank in (0, 1)],
        lambda: end(store),
    )
    trial = create_trial(str(tmp_path), sleep=waits)
    assert trial.workers() == ["worker_0", "worker_1"]
    assert {"only/of_0", "only/of_1"} == trial.collection("gradients").tensor_names
    assert isinstance(trial, LocalTrial)
    rule = Growing(trial)
    with pytest.raises(NoMoreData, match="Max step available is 4"):
        invoke_rule(rule)
    assert rule.judged == [0, 2, 4]
    assert not waits.events
    with pytest.raises(exceptions.RuleEvaluationConditionMet, match="rule Growing at step 4"):
        invoke_rule(rule, start_step=3, raise_eval_cond=True)


def test_a_loop_until_all_is_loaded_runs_once_on_a_run_that_has_ended(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write_collections(store)
    save(store, 0)
    end(store)
    trial, seen = create_trial(str(tmp_path)), []
    while not trial.loaded_all_steps:
        seen += trial.steps()
    assert seen == [0]


def test_a_run_that_ended_without_all_collections(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write_collections(store, 2, written=1)
    with pytest.raises(MissingCollectionFiles):
        create_trial(str(tmp_path), sleep=Waits(lambda: end(store)))


@pytest.mark.parametrize(
    ("happens", "is_lost"),
    [
        pytest.param(lambda store, data: store.put(event_key(0, "worker_0"), data), False, id="it comes late"),
        pytest.param(lambda store, data: end(store), True, id="the run ends"),
        pytest.param(lambda store, data: save(store, 1), True, id="its worker writes a later one"),
    ],
)
def test_an_event_file_that_comes_after_its_index(
    tmp_path: Path, happens: Callable[[Store, bytes], None], is_lost: bool
) -> None:
    store = LocalStore(tmp_path)
    write_collections(store)
    save(store, 0)
    data = store.get(event_key(0, "worker_0"))
    store.delete(event_key(0, "worker_0"))
    waits = Waits(lambda: happens(store, data))
    tensor = create_trial(str(tmp_path), sleep=waits).tensor(LOSS)
    if is_lost:
        with pytest.raises(TensorUnavailableForStep):
            tensor.value(0)
    else:
        assert tensor.value(0) == 1
    assert not waits.events


def test_value_and_shape_of_one_step_are_both_there(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write_collections(store)
    save(store, 0)
    key = index_key(0, "worker_0")
    index = decode_index(store.get(key), key=key)
    shapes = (ShapeEntry(GRADIENT, "Linear/kernel:0", (2, 2)),)
    store.put(key, encode_index(Index(index.mode, 0, index.event_key, index.entries, shapes)))
    tensor = create_trial(str(tmp_path)).tensor(GRADIENT)
    assert (tensor.original_name, tensor.shape(0), tensor.value(0).shape) == ("Linear/kernel:0", (2, 2), (2, 2))


def test_damage_is_told_and_the_rest_stays_readable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = LocalStore(tmp_path)
    write_collections(store)
    for step in range(3):
        save(store, step)
    store.put(index_key(1, "worker_0"), b"{")
    beyond = Index("TRAIN", 2, event_key(2, "worker_0"), (IndexEntry(LOSS, 0, 5),))
    store.put(index_key(2, "worker_0"), encode_index(beyond))
    end(store)
    trial = create_trial(str(tmp_path))
    assert trial.steps() == [0, 2]
    with pytest.raises(StepUnavailable):
        trial.tensor(LOSS).value(1)
    with pytest.raises(TensorUnavailableForStep):
        trial.tensor(LOSS).value(2)
    assert index_key(1, "worker_0") in caplog.text
    assert event_key(2, "worker_0") in caplog.text


@pytest.mark.parametrize("steps", [(-1, 2), (3, 3), (4, 2), ("0", 2)], ids=["negative", "empty", "reversed", "text"])
def test_impossible_ranges(tmp_path: Path, steps: tuple[int, int]) -> None:
    write_collections(LocalStore(tmp_path))
    with pytest.raises(AssertionError, match="range_steps"):
        create_trial(str(tmp_path), range_steps=steps)


def test_cached_values_are_kept_and_others_are_not(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write_collections(store)
    save(store, 0)
    kept, fresh = (create_trial(str(tmp_path), cache=cache).tensor(LOSS) for cache in (True, False))
    assert kept.value(0) is kept.value(0)
    assert fresh.value(0) is not fresh.value(0)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.session.Session().client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="runs")
        yield S3Store("runs", "a/debug-output", client=client)


def test_a_run_on_s3(bucket: S3Store) -> None:
    write_collections(bucket)
    save(bucket, 0)
    trial = create_trial(" s3://runs/a/debug-output ")
    assert isinstance(trial, S3Trial)
    assert (trial.name, trial.path) == ("debug-output", "s3://runs/a/debug-output/")
    assert trial.tensor(GRADIENT).value(0, mode=modes.TRAIN).tolist() == [[0, 0], [0, 0]]
    assert trial.has_passed_step(1) is StepState.NOT_YET_AVAILABLE
    end(bucket)
    assert trial.has_passed_step(1) is StepState.UNAVAILABLE
    assert trial.last_index_token == f"a/debug-output/{index_key(0, 'worker_0')}"


def finished_run(folder: Path) -> Any:
    store = LocalStore(folder)
    write_collections(store)
    for step in range(3):
        save(store, step)
    end(store)
    return create_trial(str(folder))


def pickled(one: Any) -> Any:
    return pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_trials_and_tensors_can_be_copied(tmp_path: Path, copied: Callable[[Any], Any]) -> None:
    trial = finished_run(tmp_path)
    trial.collection("mine").include("x")
    again = copied(trial)
    assert (again, again.steps(), again.tensor_names()) == (trial, trial.steps(), trial.tensor_names())
    assert again.collection("mine").include_regex == ["x"]
    name = trial.tensor_names()[0]
    assert copied(trial.tensor(name)).steps() == trial.tensor(name).steps()


def test_names_by_compiled_patterns(tmp_path: Path) -> None:
    trial = finished_run(tmp_path)
    name = trial.tensor_names()[0]
    assert trial.tensor_names(regex=re.compile(re.escape(name))) == [name]
    assert trial.tensor_names(regex=[re.compile("never"), re.escape(name)]) == [name]


@pytest.mark.parametrize(("action", "warns"), [(None, False), (" ", False), ('{"name": "stoptraining"}', True)])
def test_actions_are_not_carried_out_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, action: str | None, warns: bool
) -> None:
    class Never(Rule):
        def invoke_at_step(self, step: int) -> bool:
            return False

    write_collections(LocalStore(tmp_path))
    Never(create_trial(str(tmp_path)), action)
    assert ("rule request" in caplog.text) is warns


def test_a_dead_worker_is_waited_for_as_long_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW", "10")
    store = LocalStore(tmp_path)
    write_collections(store, 2)
    for step in range(10):
        save(store, step)
    trial = create_trial(str(tmp_path))
    assert trial.steps() == []
    save(store, 10)
    assert trial.steps() == list(range(6))


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(exceptions.NoMoreData(3, modes.TRAIN, last_step=2)))  # noqa: S301 - our own bytes
    assert (error.step, error.mode, error.last_step) == (3, modes.TRAIN, 2)


def test_the_profiler_says_why_it_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="profiles by itself, under other names"):
        create_trial(str(tmp_path), profiler=True)
