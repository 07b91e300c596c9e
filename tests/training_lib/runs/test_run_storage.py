from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS
from trackside.runs import run_storage as module
from trackside.runs.run_storage import run_storage
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.storage.s3 import S3Store
from trackside.storage.store import Store
from trackside.storage.subfolder import Subfolder

SEGMENT = "statistics/worker_0/1763700000000-000000000-000000063.tss"


@pytest.fixture(params=["folder", "bucket", "folder of a bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield LocalStore(tmp_path / "run")
        return
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="runs-bucket")
        bucket = S3Store("runs-bucket", "jobs")
        yield Subfolder(bucket, "run") if request.param == "folder of a bucket" else S3Store("runs-bucket", "jobs/run")


def test_the_room_of_a_run_is_the_sum_of_its_listing(store: Store) -> None:
    for key, size in ((SEGMENT, 1000), (f"{TENSORS}/{END_MARKER_KEY}", 2), ("rule-output/verdicts.jsonl", 300)):
        store.put(key, bytes(size))
    found = run_storage(store)
    assert found is not None
    assert (found.size_bytes, found.objects, found.is_whole, found.started_at) == (1302, 3, True, 1_763_700_000.0)
    assert found.ended_at is not None
    assert found.ended_at > 1e9


def test_no_object_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(SEGMENT, b"x")
    monkeypatch.setattr(type(store), "get", lambda *_, **__: pytest.fail("read"))
    assert run_storage(store) is not None


def test_without_a_start_or_an_end_neither_is_known(store: Store) -> None:
    store.put("debug-output/index/000/0.json", b"abc")
    found = run_storage(store)
    assert found is not None
    assert (found.size_bytes, found.started_at, found.ended_at) == (3, None, None)


def test_of_a_run_of_many_objects_the_first_ones_are_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LISTED", 4)
    for place in range(4):
        store.put(f"statistics/{place}", b"ab")
    whole = run_storage(store)
    store.put("statistics/9", b"ab")
    part = run_storage(store)
    assert whole is not None
    assert part is not None
    assert (whole.size_bytes, whole.is_whole, part.size_bytes, part.is_whole) == (8, True, 8, False)


def test_a_store_that_lists_keys_alone_has_no_known_room() -> None:
    assert run_storage(MemoryStore()) is None
