"""Reductions, shapes, collections and late names: what lies beside the tensors, between us and the real smdebug."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trackside.contracts.run_layout import END_MARKER_KEY, collections_key, event_key, index_key
from trackside.records.collections_file import CollectionRecord, decode_collections, encode_collections
from trackside.records.index_file import Index, IndexEntry, ShapeEntry, encode_index
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore
from trackside.trial.trial import open_trial

WORKER = "worker_0"
REDUCTIONS = ("min", "max", "mean", "std", "variance", "sum", "prod", "l1", "l2")
VALUE = np.array([[-3.0, 1.0], [0.5, 2.0]], "f4")


def reduced(name: str, is_abs: bool) -> Any:
    """What a hook would save, as the frameworks hand it over: without a dimension."""
    value = np.abs(VALUE) if is_abs else VALUE
    numbers = {
        "std": np.std(value),
        "variance": np.var(value),
        "l1": np.abs(value).sum(),
        "l2": np.linalg.norm(value),
    }
    return np.array(numbers[name] if name in numbers else getattr(np, name)(value), "f4")


def packed(value: Any) -> dict[str, Any]:
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": base64.b64encode(value.tobytes()).decode()}


def number(answer: dict[str, Any]) -> float:
    return float(np.frombuffer(base64.b64decode(answer["data"]), answer["dtype"])[0])


def order(folder: Path, **step: Any) -> dict[str, Any]:
    at = {"step": 5, "worker": WORKER, "mode": "TRAIN", "mode_step": 5, "wall_time": 1.5, "tensors": []}
    return {"folder": str(folder), "workers": [WORKER], "collections": [], "steps": [{**at, **step}]}


def close(store: LocalStore, *records: CollectionRecord) -> None:
    store.put(collections_key(WORKER), encode_collections(records, num_workers=1))
    store.put(END_MARKER_KEY, b"")


@pytest.mark.parametrize("keeps_colons", [pytest.param(True, id="TensorFlow"), pytest.param(False, id="others")])
def test_reductions_are_the_same_bytes_and_read_both_ways(tmp_path: Path, peer: Any, keeps_colons: bool) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    saved = [(name, is_abs, reduced(name, is_abs)) for name in REDUCTIONS for is_abs in (False, True)]
    base = "dense/kernel:0" if keeps_colons else "dense/kernel"
    told = [["dense/kernel:0", name, is_abs, packed(value)] for name, is_abs, value in saved]
    peer("write", {**order(theirs, reductions=told), "keeps_colons": keeps_colons})
    LocalStore(theirs).put(END_MARKER_KEY, b"")
    pairs = [(f"smdebug/reductions/{'abs_' * is_abs}{name}/{base}", value) for name, is_abs, value in saved]
    store = LocalStore(ours)
    write_step(store, encode_step(pairs, step=5, mode="TRAIN", mode_step=5, worker=WORKER, wall_time=1.5))
    close(store)
    for key in (event_key(5, WORKER), index_key(5, WORKER)):
        assert store.get(key) == LocalStore(theirs).get(key)

    questions = [[base, "reduction_value", {"step_num": 5, "reduction_name": n, "abs": a}] for n, a, _ in saved]
    answers = peer("answers", {"folder": str(ours), "questions": [*questions, [base, "value", {"step_num": 5}]]})
    assert [number(answer) for answer in answers["answers"][:-1]] == [float(value) for _, _, value in saved]
    assert answers["answers"][-1] == {"error": "TensorUnavailableForStep"}

    trial = open_trial(str(theirs))
    assert trial.names == (base,)
    ours_by_theirs = {"mean": ("mean", False), "abs_mean": ("mean", True), "l2": ("l2", False), "max": ("max", False)}
    for statistic, (name, is_abs) in ours_by_theirs.items():
        (column,) = trial.columns(base, statistic, last_step=5, mode=None)
        assert column.values.tolist() == [float(reduced(name, is_abs))]


def test_a_value_of_theirs_with_its_shape_is_read_whole(tmp_path: Path, peer: Any) -> None:
    """Their own reader loses the value where a shape lies beside it; ours must not."""
    shapes = [["w", [2, 2], "w:0"], ["only shape", [7, 1]]]
    peer("write", order(tmp_path, tensors=[["w", packed(VALUE)]], shapes=shapes))
    LocalStore(tmp_path).put(END_MARKER_KEY, b"")
    trial = open_trial(str(tmp_path))
    np.testing.assert_array_equal(trial.value("w", step=5, worker=WORKER), VALUE)
    answers = peer("answers", {"folder": str(tmp_path), "questions": [["w", "value", {"step_num": 5}]]})["answers"]
    assert answers == [{"error": "TensorUnavailableForStep"}]


def test_shapes_of_ours_are_read_by_theirs(tmp_path: Path, peer: Any) -> None:
    store = LocalStore(tmp_path)
    files = encode_step([("w", VALUE)], step=5, mode="TRAIN", mode_step=5, worker=WORKER, wall_time=1.5)
    index = Index(
        "TRAIN",
        5,
        files.event_key,
        entries=(IndexEntry("w", 0, len(files.event_bytes)),),
        shapes=(ShapeEntry("only shape", "its/name:0", (7, 1)),),
    )
    store.put(files.event_key, files.event_bytes)
    store.put(files.index_key, encode_index(index))
    close(store)
    questions = [["only shape", "shape", {"step_num": 5}], ["w", "shape", {"step_num": 5}]]
    answers = peer("answers", {"folder": str(tmp_path), "questions": questions})["answers"]
    assert answers == [[7, 1], [2, 2]]


def documents() -> list[dict[str, Any]]:
    schedule = {"save_interval": 10, "save_steps": [7, 9], "start_step": 5, "end_step": 50}
    plain: dict[str, Any] = {"include_regex": [], "tensor_names": [], "save_config": None, "reduction_config": None}
    reductions = {"save_raw_tensor": True, "reductions": "min,l1_norm,abs_max,abs_l2_norm", "save_shape": True}
    return [
        {**plain, "name": "empty", "save_histogram": True},
        {**plain, "name": "named", "tensor_names": ["b", "a", "größe"], "save_histogram": False},
        {**plain, "name": "regexes", "include_regex": ["a,b", "^x\\.(?=y)", "größe"], "save_histogram": True},
        {**plain, "name": "scheduled", "save_config": {"TRAIN": schedule}, "save_histogram": True},
        {**plain, "name": "reduced", "reduction_config": reductions, "save_histogram": True},
    ]


def test_collections_of_theirs_come_back_byte_for_byte(tmp_path: Path, peer: Any) -> None:
    peer("write", {**order(tmp_path), "collection_documents": documents(), "workers": [WORKER, "worker_1"]})
    for worker in (WORKER, "worker_1"):
        key = collections_key(worker)
        data = LocalStore(tmp_path).get(key)
        found = decode_collections(data, key=key)
        assert [c.name for c in found.collections] == [document["name"] for document in documents()]
        assert encode_collections(found.collections, num_workers=found.num_workers) == data


def test_collections_of_ours_are_theirs(tmp_path: Path, peer: Any) -> None:
    source = {"collections": {d["name"]: d for d in documents()}, "_meta": {"num_workers": 1}}
    records = decode_collections(json.dumps(source).encode(), key="k").collections
    store = LocalStore(tmp_path)
    write_step(store, encode_step([("a", VALUE)], step=0, mode="TRAIN", mode_step=0, worker=WORKER, wall_time=1.5))
    close(store, *records)
    found = peer("answers", {"folder": str(tmp_path), "questions": []})["documents"]
    data = store.get(collections_key(WORKER))
    assert found == json.loads(data)["collections"]


def late_run() -> list[tuple[int, list[tuple[str, Any]]]]:
    return [(0, [("relu_0", VALUE)]), (3, [("relu_0", VALUE), ("relu_late", VALUE), ("other_late", VALUE)])]


def test_names_that_come_late_are_found_by_regex(tmp_path: Path, peer: Any) -> None:
    """A collections file is written once, at the first step: later names are in nobody's list."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    record = CollectionRecord("relus", include_regex=("relu",), tensor_names=("relu_0",))
    for step, tensors in late_run():
        files = encode_step(tensors, step=step, mode="TRAIN", mode_step=step, worker=WORKER, wall_time=1.5)
        write_step(LocalStore(ours), files)
        told = [[name, packed(value)] for name, value in tensors]
        peer(
            "write",
            {
                **order(theirs, step=step, mode_step=step, tensors=told),
                "collections": [["relus", ["relu"], ["relu_0"], None]],
            },
        )
    close(LocalStore(ours), record)
    LocalStore(theirs).put(END_MARKER_KEY, b"")
    by_theirs = peer("read", {"folder": str(ours)})["collections"]["relus"]["tensors"]
    by_ours = open_trial(str(theirs)).tensor_names(collection="relus")
    assert by_theirs == list(by_ours) == ["relu_0", "relu_late"]


@pytest.mark.parametrize("worker", ["_job-worker_replica-0_task-1_device-GPU-0", "ps_0", "worker_11"])
def test_workers_named_otherwise(tmp_path: Path, peer: Any, worker: str) -> None:
    """TensorFlow's device strings, its parameter servers."""
    folder = tmp_path / "theirs"
    peer("write", {**order(folder, worker=worker, tensors=[["w", packed(VALUE)]]), "workers": [worker]})
    store = LocalStore(folder)
    store.put(END_MARKER_KEY, b"")
    trial = open_trial(str(folder))
    assert trial.workers == (worker,)
    np.testing.assert_array_equal(trial.value("w", step=5, worker=worker), VALUE)
    files = encode_step([("w", VALUE)], step=5, mode="TRAIN", mode_step=5, worker=worker, wall_time=1.5)
    assert (files.event_bytes, files.index_bytes) == (store.get(files.event_key), store.get(files.index_key))
