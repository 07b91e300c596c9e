"""What a training process was asked to save, by TRACKSIDE_CAPTURE_REQUEST: the request itself, or where it lies."""

from __future__ import annotations

from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, Problem, StorageError

MOST_BYTES = 4 << 20  # what is larger is cut there, and so is no JSON


def read_capture_request(text: str) -> CaptureRequest:
    """`text` is JSON, or the address of a file with it (a variable of a SageMaker job has at most 512 characters); "":
    the default. Errors: `ConfigurationError` with every problem at once, also where there is no such file.
    """
    if not text.strip():
        return CaptureRequest()
    if text.lstrip().startswith("{") or "/" not in text:
        return CaptureRequest.from_json(text)
    from trackside.storage.open_store import open_store  # may bring boto3, which is not needed otherwise

    place, _, name = text.strip().rpartition("/")
    try:
        return CaptureRequest.from_json(open_store(place or "/").get(name, length=MOST_BYTES).decode())
    except (StorageError, UnicodeDecodeError) as error:
        problem = Problem(text, f"cannot be read: {error}", "Is it there, and may the training role read it?")
        raise ConfigurationError([problem], subject="The capture request") from error
