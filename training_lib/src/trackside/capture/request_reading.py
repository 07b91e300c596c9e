"""The capture request of this process, from TRACKSIDE_CAPTURE_REQUEST: the request itself, or its address."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Mapping
from functools import cache

from trackside.capture.ground.guard import Guard, describe
from trackside.capture.writing.restart import within_seconds
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError, Problem, StorageError, StorageUnavailableError
from trackside.environment import CaptureEnvironment

logger = logging.getLogger(__name__)

MOST_BYTES = 4 << 20  # what is larger is cut there, and so is no JSON
READ_SECONDS = 10.0  # how long training waits for it, once


def lies_elsewhere(text: str) -> bool:
    """Return True if `text` is an address.

    A process that only imports the framework must not fetch it over the network.
    """
    return bool(text.strip()) and not text.lstrip().startswith("{") and "/" in text


def is_being_spawned() -> bool:
    """Return True while `multiprocessing` runs the main script again in a child, before the child has its task.

    An optimizer that is built meanwhile does not mean that the process trains.
    """
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


def request_of(save: CaptureRequest | Mapping[str, int] | None, run: str, *, subject: str) -> CaptureRequest:
    """Return the request of a hook or a run in the script.

    Args:
        save: A whole request, or an interval of steps for each collection; None for the default.
        run: Address of the run, unless the environment names one.
        subject: Name of the object with the problems, for the message.

    Raises:
        ConfigurationError: With every problem at once.
    """
    problems: list[Problem] = []
    request = CaptureRequest()
    if isinstance(save, CaptureRequest):
        request = save
    elif save is not None:
        for name, interval in save.items():
            if not isinstance(interval, int) or interval < 1:
                problems.append(Problem(f"save[{name!r}]", f"must be a whole number from 1 on, but is {interval!r}."))
        if not problems:
            request = CaptureRequest(tuple(CollectionRequest(name, Schedule(every)) for name, every in save.items()))
    try:
        request = CaptureRequest.from_json(request.to_json())
    except ConfigurationError as error:
        problems += error.problems
    if not run and not CaptureEnvironment.read().run_uri:
        problems.append(Problem("run", "is missing.", "Name a new folder or s3://bucket/prefix for the run."))
    if problems:
        raise ConfigurationError(problems, subject=subject)
    return request


def with_request_of_run(request: CaptureRequest, text: str) -> CaptureRequest:
    """Return the request of the script merged with `text`, the one of the environment. Ignore `text` if it is wrong."""
    try:
        return request.merged_with(read_capture_request(text)) if text else request
    except (ConfigurationError, StorageError) as error:
        logger.warning("trackside: TRACKSIDE_CAPTURE_REQUEST is passed over: %s.", describe(error))
        return request


def read_capture_request(text: str) -> CaptureRequest:
    """Return the request that `text` holds: JSON, or the address of a JSON file; "" is the default request.

    A variable of a SageMaker job has at most 512 characters, hence the address. An address is read once in a process.

    Raises:
        ConfigurationError: With every problem at once.
        StorageError: The file cannot be read, or not within `READ_SECONDS`.
    """
    if not text.strip():
        return CaptureRequest()
    return _read_where_it_lies(text.strip()) if lies_elsewhere(text) else CaptureRequest.from_json(text)


class RequestReading:
    """The capture request of this process.

    A request at an address is read at the first sign that the process trains: helper processes import the framework
    too, and each would fetch it over the network.

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
        """Read a request that lies at an address. Return True if `request` has changed."""
        if not self.is_unread:
            return False
        self.is_unread = False
        self.request = self._read(self._text)
        return True

    def check(self) -> None:
        """Raise the problems of the request, once. Helper processes that never train stay silent.

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
            message = "the capture request cannot be read: %s. The default request is used instead."
            self._guard.warn_once("request", message, describe(error))
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
