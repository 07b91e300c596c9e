"""What a training process was asked to save, by TRACKSIDE_CAPTURE_REQUEST: the request itself, or where it lies."""

from __future__ import annotations

import multiprocessing
from functools import cache

from trackside.capture.guard import Guard, describe
from trackside.capture.restart import within_seconds
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, StorageError, StorageUnavailableError

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


class AskedRequest:
    """The request of this process. One that lies elsewhere is read with the first sign that the process trains: its
    helpers import the framework too, and would each ask the network for it.

    Attributes:
        request: What is captured; nothing while the request is not read.
        is_unread: True while it is not read.
    """

    def __init__(self, text: str, guard: Guard) -> None:
        self._guard = guard
        self._misfit: ConfigurationError | None = None
        self._text, self.is_unread = text, lies_elsewhere(text)
        self.request = CaptureRequest(()) if self.is_unread else self._read(text)

    def read_at_last(self) -> bool:
        """Read a request that lies elsewhere. Return True if `request` is another one now."""
        if not self.is_unread:
            return False
        self.is_unread = False
        self.request = self._read(self._text)
        return True

    def check(self) -> None:
        """Raise the problems of the request, once: helper processes that never train stay silent.

        Raises:
            ConfigurationError: The request has problems.
        """
        misfit, self._misfit = self._misfit, None  # kept no longer: it refers to each frame on its way, when raised
        if misfit is not None:
            raise misfit

    def _read(self, text: str) -> CaptureRequest:
        try:
            return read_capture_request(text)
        except ConfigurationError as error:
            self._misfit = error
            return CaptureRequest(())
        except StorageError as error:
            what = "the capture request cannot be read: %s. What is saved by default is saved instead."
            self._guard.say_once("request", what, describe(error))
            return CaptureRequest()


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
