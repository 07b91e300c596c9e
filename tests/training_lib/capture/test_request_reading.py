"""What the variable says: a request, or where it lies; and what if that cannot be read."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS, ends_early
from trackside.capture import request_reading
from trackside.capture.request_reading import lies_elsewhere, read_capture_request
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError, StorageError
from trackside.sagemaker.attachment import Attachment, put_objects
from trackside.storage.local import LocalStore

EVERY_STEP = CaptureRequest((CollectionRequest("losses", Schedule(1)), CollectionRequest("outputs", Schedule(1))))
ADDRESS = "s3://bucket/capture-request.json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(ADDRESS, True, id="S3"),
        pytest.param("/tmp/request.json", True, id="a file"),
        pytest.param('{"tensorboard": "s3://bucket/tensorboard"}', False, id="a request that names an address"),
        pytest.param("{broken", False, id="no JSON"),
        pytest.param("  ", False, id="nothing"),
    ],
)
def test_what_is_an_address(text: str, expected: bool) -> None:
    assert lies_elsewhere(text) is expected


def test_a_request_is_read_where_it_lies_once(tmp_path: Path) -> None:
    address = f"{tmp_path}/capture-request.json"
    put_objects(Attachment("", {}, {}, {address: EVERY_STEP.to_json()}))
    assert read_capture_request(address) == EVERY_STEP
    Path(address).unlink()
    assert read_capture_request(f" {address} ") == EVERY_STEP
    assert read_capture_request(EVERY_STEP.to_json()) == EVERY_STEP
    assert read_capture_request("") == CaptureRequest()


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        pytest.param(None, StorageError, "capture-request.json", id="absent"),
        pytest.param(b"\xff\xfe", ConfigurationError, "is not JSON", id="no UTF-8"),
        pytest.param(b"{", ConfigurationError, "is not JSON", id="no JSON"),
    ],
)
def test_a_request_that_cannot_be_read(
    tmp_path: Path, content: bytes | None, error: type[Exception], said: str
) -> None:
    if content is not None:
        (tmp_path / "capture-request.json").write_bytes(content)
    with pytest.raises(error, match=said):
        read_capture_request(f"{tmp_path}/capture-request.json")


def test_a_store_that_hangs_holds_training_up_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(LocalStore, "get", lambda *_, **__: over.wait(HANGS_SECONDS) and b"")
    monkeypatch.setattr(request_reading, "READ_SECONDS", 0.05)
    try:
        with ends_early(), pytest.raises(StorageError, match=r"has not come within 0\.05 s"):
            read_capture_request(f"{tmp_path}/capture-request.json")
    finally:
        over.set()
