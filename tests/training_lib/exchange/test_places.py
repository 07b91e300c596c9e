from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from trackside.contracts.errors import StorageError
from trackside.exchange.bucket_place import BucketPlace
from trackside.exchange.open_place import open_place
from trackside.exchange.places import FolderPlace, UnreadableFileError, bring

KEY = "events/000000000001/000000000001_worker_0.tfevents"


@pytest.fixture
def here(tmp_path: Path) -> FolderPlace:
    place = FolderPlace(tmp_path / "here")
    place.put(KEY, b"bytes")
    return place


@pytest.fixture
def existing(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path / "there")


def test_sizes_by_prefix(here: FolderPlace) -> None:
    here.put("index/a", b"1234")
    here.put("index-2/a", b"")
    assert here.sizes(["index/", "nothing/"]) == {"index/a": 4}
    assert list(here.sizes([""])) == [KEY, "index-2/a", "index/a"]


def test_a_link_replaces_what_lay_there(here: FolderPlace, existing: FolderPlace) -> None:
    existing.put(KEY, b"older and longer")
    assert bring(KEY, 5, source=here, target=existing) is None
    assert os.path.samefile(here.path(KEY), existing.path(KEY))


def test_a_file_that_is_linked_already_leaves_no_partial_behind(here: FolderPlace, existing: FolderPlace) -> None:
    for _ in range(2):
        bring(KEY, 5, source=here, target=existing)
    assert len(os.listdir(os.path.dirname(existing.path(KEY)))) == 1


def test_a_copy_where_links_are_not_wanted(here: FolderPlace, existing: FolderPlace) -> None:
    assert bring(KEY, 5, source=here, target=existing, may_link=False) == 5
    assert existing.get(KEY) == b"bytes"
    assert not os.path.samefile(here.path(KEY), existing.path(KEY))


def test_a_link_within_the_source_is_followed_to_its_file(here: FolderPlace, existing: FolderPlace) -> None:
    os.symlink(here.path(KEY), os.path.join(here.uri, "link"))
    assert bring("link", 5, source=here, target=existing) is None
    assert os.path.samefile(existing.path("link"), here.path(KEY))
    assert not os.path.islink(os.path.join(existing.uri, "link"))


def test_what_cannot_be_read(here: FolderPlace, existing: FolderPlace, tmp_path: Path) -> None:
    os.symlink("/etc/hostname", os.path.join(here.uri, "out"))
    os.mkfifo(os.path.join(here.uri, "pipe"))
    for key, why in (("out", "leads out"), ("pipe", "no regular file"), ("gone", "No such file")):
        with pytest.raises(UnreadableFileError, match=why):
            bring(key, 0, source=here, target=existing)
    assert not os.path.exists(existing.uri)


def test_a_target_that_cannot_be_written_is_an_error_of_its_own(here: FolderPlace, existing: FolderPlace) -> None:
    existing.put("events", b"a file where a folder is needed")
    with pytest.raises(StorageError, match="Cannot write"):
        bring(KEY, 5, source=here, target=existing)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.session.Session().client("s3")
        client.create_bucket(Bucket="runs")
        yield client


def test_within_s3_it_is_one_request_and_no_bytes_come_here(client: Any) -> None:
    source, target = BucketPlace("runs", "a", client), BucketPlace("runs", "b", client)
    source.put(KEY, b"bytes")
    sent: list[str] = []
    client.meta.events.register("before-call.s3", lambda model, **_: sent.append(model.name))
    assert bring(KEY, 5, source=source, target=target) == 5
    assert sent == ["CopyObject"]
    assert target.get(KEY) == b"bytes"


def test_listing_goes_on_over_pages(client: Any) -> None:
    place = BucketPlace("runs", "a", client)
    client.meta.events.register("provide-client-params.s3.ListObjectsV2", lambda params, **_: {**params, "MaxKeys": 2})
    for number in range(5):
        client.put_object(Bucket="runs", Key=f"a/index/{number:04d}", Body=b"12")
    client.put_object(Bucket="runs", Key="a/index/", Body=b"")  # what a console makes of a folder
    client.put_object(Bucket="runs", Key="a/index/x.tmp", Body=b"")
    sizes = place.sizes(["index/"])
    assert sizes == {f"index/{number:04d}": 2 for number in range(5)}


def test_objects_that_have_gone_are_unreadable(client: Any, existing: FolderPlace) -> None:
    place = BucketPlace("runs", "a", client)
    for target in (existing, BucketPlace("runs", "b", client)):
        with pytest.raises(UnreadableFileError, match="has gone"):
            bring(KEY, 5, source=place, target=target)


def test_a_bucket_that_is_not_there(client: Any, here: FolderPlace) -> None:
    nowhere = BucketPlace("nowhere", "a", client)
    with pytest.raises(StorageError, match="nowhere"):
        nowhere.sizes([""])
    with pytest.raises(StorageError, match="nowhere"):
        bring(KEY, 5, source=here, target=nowhere)


def test_places_by_address(client: Any, tmp_path: Path) -> None:
    assert isinstance(open_place(str(tmp_path)), FolderPlace)
    place = open_place("s3://runs/a/b/")
    assert (type(place), place.uri) == (BucketPlace, "s3://runs/a/b")
