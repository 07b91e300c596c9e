"""AWS clients: made on first use, kept while the function is warm, patient with throttling, never waiting forever."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

# 3 attempts of at most 7 s, and pauses of at most 3 s, stay below the functions' 30 s; what still fails goes back to
# the queue, which is the better place to wait. Not "adaptive": docs/decisions/0020-retries-and-pace.md.
PATIENT = Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=2, read_timeout=5)

# To publish means something new each time. An answer that is late does not mean that it was not done, so
# this waits longer, and is tried again only by the queue.
ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=20)
ADDING_SERVICES = ("sns",)


@cache
def client(service: str) -> Any:
    """Return the client of that service."""
    return boto3.client(service, config=ONCE if service in ADDING_SERVICES else PATIENT)


def code_of(error: ClientError) -> str:
    """Return AWS's name of the error, such as `ValidationException`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def message_of(error: ClientError) -> str:
    """Return AWS's sentence about the error."""
    return str(error.response.get("Error", {}).get("Message", ""))


def is_missing(error: ClientError) -> bool:
    """Return True if the error means that a job does not exist: SageMaker has no error of its own for that."""
    is_missing = any(words in message_of(error).lower() for words in ("not found", "could not find"))
    return code_of(error) == "ResourceNotFound" or (code_of(error) == "ValidationException" and is_missing)
