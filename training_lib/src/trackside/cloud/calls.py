"""Calls of AWS, with the errors of this library. botocore is imported when the first client is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from trackside.aws_clients import SharedClient
from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    LocationNotFoundError,
    Problem,
    StorageError,
    StorageUnavailableError,
    TracksideError,
)
from trackside.extras import missing_extra

# Each protocol of AWS has words of its own for the same.
_DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_MISSING = ("ResourceNotFoundException", "NoSuchBucket", "ParameterNotFound", "ResourceNotFound")
_MISSING_WORDS = ("does not exist", "not found")  # in the message of a ValidationError
_SHOW_CALLER = "aws sts get-caller-identity   (shows whose credentials are used)"
_LOG_IN = "aws configure, aws sso login, export AWS_PROFILE=…, or a role of this machine"
_ELSEWHERE = "set AWS_REGION and AWS_PROFILE to where Trackside is deployed"


class Calls:
    """Calls of AWS's services. `client(service)` makes boto3's clients; each is made once."""

    def __init__(self, client: Callable[[str], Any] | None = None) -> None:
        self.client = cache(client or _connect)

    def call(self, service: str, operation: str, **request: Any) -> Any:
        """Return the answer of one operation.

        Raises:
            AccessDeniedError: AWS refused, or credentials are missing.
            ConfigurationError: boto3 is not installed, has no region, or an unknown profile.
            LocationNotFoundError: The resource does not exist.
            StorageUnavailableError: AWS cannot be reached, or failed.
        """
        try:
            from botocore.exceptions import BotoCoreError, ClientError
        except ModuleNotFoundError as error:
            raise missing_extra("aws") from error
        try:
            return getattr(self.client(service), operation)(**request)
        except ClientError as error:
            raise _translated(error.response.get("Error", {}), f"{service}:{operation}") from error
        except BotoCoreError as error:
            raise _own_error(error) from error

    @property
    def region(self) -> str:
        """The region of the calls."""
        return str(self.client("cloudformation").meta.region_name)


def _translated(error: dict[str, Any], what: str) -> StorageError:
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    if code in _DENIED:
        return AccessDeniedError(f"AWS refused {what}. {code}: {message}", advice=_SHOW_CALLER)
    is_missing = code in _MISSING or (
        code in {"ValidationError", "ValidationException"} and any(words in message for words in _MISSING_WORDS)
    )
    sentence = f"{what} failed. {code}: {message}"
    return LocationNotFoundError(sentence, advice=_ELSEWHERE) if is_missing else StorageUnavailableError(sentence)


def _own_error(error: Exception) -> TracksideError:
    """Return the error for a failure that boto3 reports without an answer of AWS."""
    from botocore import exceptions

    nobody = (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.SSOError,
        exceptions.TokenRetrievalError,
    )
    if isinstance(error, nobody):
        return AccessDeniedError(f"AWS was called without credentials. {error}", advice=_LOG_IN)
    variables = {exceptions.NoRegionError: "AWS_REGION", exceptions.ProfileNotFound: "AWS_PROFILE"}
    for kind, variable in variables.items():
        if isinstance(error, kind):
            problem = Problem(
                variable, f"{error}".rstrip(".") + ".", f"export {variable}=…, or write it into ~/.aws/config."
            )
            return ConfigurationError([problem], subject="The configuration of AWS")
    return StorageUnavailableError(f"AWS cannot be reached. {error}")


def _connect(service: str) -> Any:
    return SharedClient(service).get()
