"""What a training process was asked to save, by TRACKSIDE_CAPTURE_REQUEST: the request itself, or where it lies."""

from __future__ import annotations

import multiprocessing
from functools import cache

from trackside.capture.restart import within_seconds
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import StorageUnavailableError

MOST_BYTES = 4 << 20  # what is larger is cut there, and so is no JSON
READ_SECONDS = 10.0  # how long training waits for it, once


def lies_elsewhere(text: str) -> bool:
    """True where `text` is an address. A process that only imports the framework must not ask the network for it."""
    return bool(text.strip()) and not text.lstrip().startswith("{") and "/" in text


def is_being_spawned() -> bool:
    """True while `multiprocessing` runs the main script once more in a child, before the child knows what it is for:
    an optimizer that is built there says nothing.
    """
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


def read_capture_request(text: str) -> CaptureRequest:
    """`text` is JSON, or the address of a file with it (a variable of a SageMaker job has at most 512 characters); "":
    the default. An address is read once in a process.

    Errors: `ConfigurationError` with every problem at once; `StorageError` where the file cannot be read, or not in
    `READ_SECONDS`.
    """
    if not text.strip():
        return CaptureRequest()
    return _read_where_it_lies(text.strip()) if lies_elsewhere(text) else CaptureRequest.from_json(text)


@cache
def _read_where_it_lies(address: str) -> CaptureRequest:
    content = within_seconds(lambda: _content_of(address), READ_SECONDS)
    if content is None:
        raise StorageUnavailableError(f"{address} has not come within {READ_SECONDS:g} s.")
    return CaptureRequest.from_json(content)


def _content_of(address: str) -> bytes:
    from trackside.storage.open_store import open_store  # may bring boto3, which is not needed otherwise

    place, _, name = address.rpartition("/")
    return open_store(place or "/").get(name, length=MOST_BYTES)
