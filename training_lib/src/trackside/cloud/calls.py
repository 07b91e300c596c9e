"""Calls of AWS, with the errors of this library. boto3 is imported when the first client is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    LocationNotFoundError,
    Problem,
    StorageError,
    StorageUnavailableError,
)
from trackside.environment import aws_region

_DENIED = ("AccessDenied", "AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException")
# Of botocore's exceptions, by name: SSO's come from another module than the others.
_WITHOUT_CREDENTIALS = (
    "CredentialRetrievalError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "SSOTokenLoadError",
    "TokenRetrievalError",
    "UnauthorizedSSOTokenError",
)
_GET_CREDENTIALS = "export AWS_PROFILE=…, or log in (aws sso login)"
_MISSING = ("ResourceNotFoundException", "NoSuchBucket", "ParameterNotFound", "ResourceNotFound")


class Calls:
    """`client(service)` makes boto3's clients; each is made once."""

    def __init__(self, client: Callable[[str], Any] | None = None) -> None:
        self.client = cache(client or _connect)

    def ask(self, service: str, operation: str, **request: Any) -> Any:
        """The answer. Errors: `AccessDeniedError`, `LocationNotFoundError`, `StorageUnavailableError`."""
        from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

        try:
            return getattr(self.client(service), operation)(**request)
        except ClientError as error:
            raise _translated(error.response.get("Error", {}), f"{service}:{operation}") from error
        except NoRegionError as error:
            problem = Problem("the region", "neither AWS_REGION nor a profile names one.", "export AWS_REGION=…")
            raise ConfigurationError([problem], subject="The region of AWS") from error
        except BotoCoreError as error:
            if type(error).__name__ in _WITHOUT_CREDENTIALS:
                raise AccessDeniedError(f"AWS cannot be asked. {error}", advice=_GET_CREDENTIALS) from error
            raise StorageUnavailableError(f"AWS cannot be reached. {error}") from error

    @property
    def region(self) -> str:
        """Where the calls go."""
        return str(self.client("cloudformation").meta.region_name)


def _translated(error: dict[str, Any], what: str) -> StorageError:
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    if code in _DENIED:
        return AccessDeniedError(f"AWS refused {what}. {message}")
    is_missing = code in _MISSING or (code == "ValidationError" and "does not exist" in message)
    return (LocationNotFoundError if is_missing else StorageUnavailableError)(f"{what} failed. {code}: {message}")


def _connect(service: str) -> Any:
    try:
        import boto3.session
        from botocore.config import Config
    except ModuleNotFoundError as error:
        problem = Problem("AWS", "needs boto3, which is not installed.", "pip install 'trackside[aws]'")
        raise ConfigurationError([problem], subject="This installation") from error
    config = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=5, read_timeout=30)
    return boto3.session.Session(region_name=aws_region()).client(service, config=config)
