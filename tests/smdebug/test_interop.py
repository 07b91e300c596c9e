"""We and the real smdebug 1.0.34 read each other's runs, and write the same bytes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trackside.contracts.capture_request import Schedule
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    INDEX_PREFIX,
    collections_key,
    event_key,
    index_key,
    parse_index_key,
)
from trackside.records.collections_file import CollectionRecord, decode_collections, encode_collections
from trackside.records.index_file import Index, ShapeEntry, decode_index, encode_index
from trackside.records.modes import MODE_NUMBERS
from trackside.records.step_file import encode_step, write_step
from trackside.records.tfevents import decode_record
from trackside.storage.local import LocalStore

WORKERS = ("worker_0", "worker_1")
COLLECTIONS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], int | None], ...] = (
    ("losses", ("[Ll]oss_(?!input).*output",), ("CrossEntropyLoss_output_0",), None),
    ("weights", ("^(?!gradient).*weight",), (), 2),
    ("gradients", ("^gradient",), (), 2),
)
# (step, mode, mode step): the global step counts over all modes.
STEPS = ((0, "TRAIN", 0), (2, "TRAIN", 2), (3, "EVAL", 0), (1004, "TRAIN", 1002), (1005, "PREDICT", 0))

Tensors = list[tuple[str, Any]]


def tensors_of(step: int, worker: str) -> Tensors:
    random = np.random.default_rng([step, WORKERS.index(worker)])
    return [
        ("CrossEntropyLoss_output_0", np.array(random.normal(), "f4")),
        ("Net_fc1.weight", random.normal(size=(4, 3)).astype("f4")),
        ("gradient/Net_fc1.weight", random.normal(size=(4, 3)).astype("f2")),
        ("smdebug/names äöü/文 [0]:1", random.integers(-5, 5, size=(2, 1, 2))),
        ("steps", np.array([step], "i4")),
        ("mask", random.integers(0, 2, size=5).astype("?")),
        ("pixels", random.integers(0, 256, size=(2, 2)).astype("u1")),
        ("spectrum", random.normal(size=2) + 1j),
        ("exact", np.array([1e-300, np.inf, -np.inf, np.nan])),
        ("labels", np.array(["cat", "größe"])),
    ]


def many_tensors() -> Tensors:
    """Shapes and types at random, the same ones every time; up to and beyond the lengths at which varints grow."""
    random = np.random.default_rng(1)
    kinds = ["f2", "f4", "f8", "i4", "i8", "u1", "?", "c16"]
    tensors: Tensors = []
    for place in range(200):
        sides = [*random.integers(1, 6, size=random.integers(0, 5)), *([300] if place % 20 == 0 else [])]
        name = "x" * int(random.integers(1, 200)) + f"_{place}/ß"
        tensors.append((name, (random.normal(size=tuple(sides)) * 100).astype(kinds[place % len(kinds)])))
    return tensors


def packed(value: Any) -> dict[str, Any]:
    if value.dtype.kind == "U":
        return {"dtype": "str", "shape": list(value.shape), "texts": value.reshape(-1).tolist()}
    return {
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "data": base64.b64encode(value.tobytes()).decode(),
    }


def order_for_smdebug(folder: Path) -> dict[str, Any]:
    """The run of this file, as `peer.py` is told to write it."""
    steps = [
        {
            "step": step,
            "worker": worker,
            "mode": mode,
            "mode_step": mode_step,
            "wall_time": 1_700_000_000.0 + step,
            "tensors": [[name, packed(value)] for name, value in tensors_of(step, worker)],
        }
        for step, mode, mode_step in STEPS
        for worker in WORKERS
    ]
    return {"folder": str(folder), "workers": WORKERS, "collections": COLLECTIONS, "steps": steps}


def write_with_ours(folder: Path) -> None:
    store = LocalStore(folder)
    for step, mode, mode_step in STEPS:
        for worker in WORKERS:
            files = encode_step(
                tensors_of(step, worker),
                step=step,
                mode=mode,
                mode_step=mode_step,
                worker=worker,
                wall_time=1_700_000_000.0 + step,
            )
            write_step(store, files)
    records = [
        CollectionRecord(
            name, regexes, names, schedules=dict.fromkeys(MODE_NUMBERS, Schedule(interval)) if interval else None
        )
        for name, regexes, names, interval in COLLECTIONS
    ]
    for worker in WORKERS:
        store.put(collections_key(worker), encode_collections(records, num_workers=len(WORKERS)))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ours")
    write_with_ours(folder)
    return folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory, peer: Any) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    assert peer("write", order_for_smdebug(folder)) == {"version": "1.0.34"}
    return folder


def expected_tensors() -> list[list[Any]]:
    return sorted(
        [
            [name, step, worker, mode, mode_step, packed(value)]
            for step, mode, mode_step in STEPS
            for worker in WORKERS
            for name, value in tensors_of(step, worker)
        ],
        key=repr,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_bytes_are_the_same(ours: Path, theirs: Path) -> None:
    our_files, their_files = files_of(ours), files_of(theirs)
    our_files.pop(END_MARKER_KEY, None)
    assert sorted(our_files) == sorted(their_files)
    assert [key for key, data in our_files.items() if their_files[key] != data] == []
    assert len(our_files) == 2 * len(STEPS) * len(WORKERS) + len(WORKERS)


def test_the_bytes_are_the_same_for_many_tensors(tmp_path: Path, peer: Any) -> None:
    step = {"step": 7, "worker": "worker_0", "mode": "GLOBAL", "mode_step": 7, "wall_time": 1.25}
    tensors = [[name, packed(value)] for name, value in many_tensors()]
    order = {"folder": str(tmp_path), "workers": [], "collections": [], "steps": [{**step, "tensors": tensors}]}
    peer("write", order)
    files = encode_step(many_tensors(), **step)  # type: ignore[arg-type]  # a dict of keywords
    assert files_of(tmp_path) == {files.event_key: files.event_bytes, files.index_key: files.index_bytes}


def test_the_bytes_are_the_same_where_only_shapes_are_saved(tmp_path: Path, peer: Any) -> None:
    step = {"step": 7, "worker": "worker_0", "mode": "EVAL", "mode_step": 2, "wall_time": 1.25, "tensors": []}
    order = {"folder": str(tmp_path), "workers": [], "collections": []}
    peer("write", {**order, "steps": [{**step, "shapes": [["fc/w", [1, 2]], ["fc/b", []]]}]})
    index = Index("EVAL", 2, None, shapes=(ShapeEntry("fc/w", "fc/w", (1, 2)), ShapeEntry("fc/b", "fc/b", ())))
    assert files_of(tmp_path) == {index_key(7, "worker_0"): encode_index(index)}


def test_the_real_smdebug_reads_our_run(ours: Path, peer: Any) -> None:
    LocalStore(ours).put(END_MARKER_KEY, b"")
    found = peer("read", {"folder": str(ours)})
    assert sorted(found["tensors"], key=repr) == expected_tensors()
    assert found["steps"] == [step for step, _, _ in STEPS]
    assert found["mode_steps"] == {"TRAIN": [0, 2, 1002], "EVAL": [0], "PREDICT": [0]}
    assert found["workers"] == list(WORKERS)
    assert found["all_loaded"] is True
    assert found["collections"] == {
        "losses": {
            "regexes": ["[Ll]oss_(?!input).*output"],
            "tensors": ["CrossEntropyLoss_output_0"],
            "save_interval": None,
        },
        "weights": {"regexes": ["^(?!gradient).*weight"], "tensors": ["Net_fc1.weight"], "save_interval": 2},
        "gradients": {"regexes": ["^gradient"], "tensors": ["gradient/Net_fc1.weight"], "save_interval": 2},
    }


def test_the_real_smdebug_reads_the_types_that_we_widen(tmp_path: Path, peer: Any) -> None:
    """Written as they are, it would fail on each of them, or return another type (int8)."""
    narrow: Tensors = [
        ("int8", np.array([-128, 127], "i1")),
        ("int16", np.array([-(2**15)], "i2")),
        ("uint16", np.array([2**16 - 1], "u2")),
        ("uint32", np.array([2**32 - 1], "u4")),
        ("uint64", np.array([2**63 - 1], "u8")),
        ("complex64", np.array([1 + 2j], "c8")),
    ]
    store = LocalStore(tmp_path)
    write_step(store, encode_step(narrow, step=0, mode="TRAIN", mode_step=0, worker="worker_0", wall_time=1.0))
    store.put(collections_key("worker_0"), encode_collections([CollectionRecord("losses")], num_workers=1))
    store.put(END_MARKER_KEY, b"")
    found = {name: value for name, *_, value in peer("read", {"folder": str(tmp_path)})["tensors"]}
    assert found.keys() == {name for name, _ in narrow}
    for name, value in narrow:
        read = np.frombuffer(base64.b64decode(found[name]["data"]), found[name]["dtype"])
        assert read.tolist() == value.tolist(), name


def test_we_read_a_run_of_the_real_smdebug(theirs: Path) -> None:
    store = LocalStore(theirs)
    found = []
    for key in store.list(INDEX_PREFIX):
        parsed = parse_index_key(key)
        assert parsed is not None
        step, worker = parsed
        index = decode_index(store.get(key), key=key)
        assert index.event_key == event_key(step, worker)
        for entry in index.entries:
            data = store.get(index.event_key, start=entry.start, length=entry.length)
            record = decode_record(data, key=index.event_key, offset=entry.start)
            assert (record.step, record.wall_time) == (step, 1_700_000_000.0 + step)
            assert record.name == entry.name
            found.append([record.name, step, worker, record.mode, record.mode_step, packed(record.value)])
    assert sorted(found, key=repr) == expected_tensors()


def test_we_read_the_collections_of_the_real_smdebug(theirs: Path) -> None:
    store = LocalStore(theirs)
    for worker in WORKERS:
        key = collections_key(worker)
        found = decode_collections(store.get(key), key=key)
        assert found.num_workers == len(WORKERS)
        assert [(c.name, c.include_regex, c.tensor_names) for c in found.collections] == [
            (name, regexes, names) for name, regexes, names, _ in COLLECTIONS
        ]
        gradients = found.named("gradients")
        assert gradients is not None
        assert gradients.schedules == dict.fromkeys(MODE_NUMBERS, Schedule(save_interval=2))
