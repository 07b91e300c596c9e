"""A store in an S3 bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackside.aws_clients import SharedClient
from trackside.contracts.errors import (
    AccessDeniedError,
    KeyNotFoundError,
    LocationNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from trackside.storage.keys import checked_key, checked_prefix, checked_range, complaint
from trackside.storage.store import Listed, Version

try:
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        CredentialRetrievalError,
        HTTPClientError,
        IncompleteReadError,
        NoCredentialsError,
        PartialCredentialsError,
    )
    from botocore.exceptions import ConnectionError as NoConnectionError
except ImportError as _missing:
    from trackside.extras import missing_extra  # for the message only

    raise missing_extra("aws") from _missing

_LARGEST_POSITION = 2**53  # above the largest object of S3; limits a damaged length to what HTTP can express

_NOT_MODIFIED = 304

_DENIED = {
    "AccessDenied",
    "AllAccessDisabled",
    "ExpiredToken",
    "Forbidden",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "403",
}
_WRONG_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301"}
_BUSY = {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout", "TooManyRequests"}


class S3Store:
    """A bucket's prefix as a store: bytes by key as objects below `s3://bucket/prefix`. The bucket must exist.

    - Each call makes one request and no HEAD. A list makes one for each page of 1,000 keys.
    - All stores and threads of the process share one client with timeouts and botocore's standard retries, made with
      the first request, unless `client` is given. Its region is AWS_REGION, or boto3's if that is not set; its
      credentials and endpoint are boto3's.
    - Keys are listed in order in general-purpose buckets, as S3 promises; not in directory buckets.
    """

    def __init__(self, bucket: str, prefix: str = "", client: Any = None) -> None:
        self._bucket = bucket
        self._base = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._given_client = client
        self._shared_client = SharedClient("s3")

    @property
    def uri(self) -> str:
        return f"s3://{self._bucket}/{self._base}".rstrip("/")

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        name = self._name(key)
        try:
            self._client.put_object(Bucket=self._bucket, Key=name, Body=bytes(data))
        except (ClientError, BotoCoreError) as error:
            raise self._translated(error, f"Cannot store {key!r}", needs="s3:PutObject") from error

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        checked_range(start, length)
        name = self._name(key)
        if length == 0:
            self._touch(key, name)
            return b""
        where = {"Range": _byte_range(start, length)} if start or length is not None else {}
        try:
            body = self._client.get_object(Bucket=self._bucket, Key=name, **where)["Body"]
            with body:
                return bytes(body.read())
        except (ClientError, BotoCoreError) as error:
            if _code(error) == "InvalidRange":  # the object ends before `start`
                return b""
            raise self._translated(error, f"Cannot read {key!r}", needs="s3:GetObject") from error

    def get_if_changed(self, key: str, *, tag: str, length: int | None = None) -> Version | None:
        condition = {"IfNoneMatch": tag} if tag else {}
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._name(key), **condition)
            with answer["Body"] as body:
                return Version(bytes(body.read(length)), str(answer["ETag"]))
        except (ClientError, BotoCoreError) as error:
            if tag and isinstance(error, ClientError) and _status(error) == _NOT_MODIFIED:
                return None
            raise self._translated(error, f"Cannot read {key!r}", needs="s3:GetObject") from error

    def exists(self, key: str) -> bool:
        try:
            self._touch(key, self._name(key))
        except KeyNotFoundError:
            return False
        return True

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        return (one.key for one in self._pages(checked_prefix(prefix), start_after))

    def objects(self, prefix: str = "") -> Iterator[Listed]:
        return self._pages(checked_prefix(prefix), "")

    def delete(self, key: str) -> None:
        name = self._name(key)
        try:
            self._client.delete_object(Bucket=self._bucket, Key=name)
        except (ClientError, BotoCoreError) as error:
            raise self._translated(error, f"Cannot delete {key!r}", needs="s3:DeleteObject") from error

    @property
    def _client(self) -> Any:
        return self._shared_client.get() if self._given_client is None else self._given_client

    def _name(self, key: str) -> str:
        return self._base + checked_key(key)

    def _touch(self, key: str, name: str) -> None:
        """Read one byte. It costs no more than a HEAD, and shows whether the bucket or the object is missing."""
        try:
            self._client.get_object(Bucket=self._bucket, Key=name, Range="bytes=0-0")["Body"].close()
        except (ClientError, BotoCoreError) as error:
            if _code(error) != "InvalidRange":  # an empty object is one
                raise self._translated(error, f"Cannot look for {key!r}", needs="s3:GetObject") from error

    def _pages(self, prefix: str, start_after: str) -> Iterator[Listed]:
        request = {"Bucket": self._bucket, "Prefix": self._base + prefix}
        if start_after:
            request["StartAfter"] = self._base + start_after
        while True:
            try:
                page = self._client.list_objects_v2(**request)
            except (ClientError, BotoCoreError) as error:
                raise self._translated(error, f"Cannot list {prefix!r}", needs="s3:ListBucket") from error
            for found in page.get("Contents", ()):
                key = found["Key"][len(self._base) :]
                if not complaint(key):  # folder markers and partial files are no keys
                    yield Listed(key, found["Size"], found["LastModified"].timestamp())
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _translated(self, error: Exception, what: str, *, needs: str) -> StorageError:
        """Return the error as one of `contracts.errors`."""
        kind, advice = _meaning(error, bucket=self._bucket, needs=needs)
        return kind(f"{what} in {self.uri}. {advice}")


def _byte_range(start: int, length: int | None) -> str:
    first = min(start, _LARGEST_POSITION)
    last = "" if length is None else min(first + length - 1, 2 * _LARGEST_POSITION)
    return f"bytes={first}-{last}"


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def _meaning(error: Exception, *, bucket: str, needs: str) -> tuple[type[StorageError], str]:
    """Return the kind of error, and its cure."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        return AccessDeniedError, f"{error}. Set up AWS credentials (aws configure, or a role)."
    if isinstance(error, HTTPClientError | NoConnectionError | IncompleteReadError):
        return StorageUnavailableError, f"{error} Check the network; trying again may help."
    return _meaning_of_code(_code(error), _status(error), bucket=bucket, needs=needs) or (StorageError, f"{error}")


def _meaning_of_code(code: str, status: int, *, bucket: str, needs: str) -> tuple[type[StorageError], str] | None:
    if code == "NoSuchBucket":
        return LocationNotFoundError, f"There is no bucket {bucket!r}. Create it, or check its name."
    if code in {"NoSuchKey", "404"}:
        return KeyNotFoundError, "There is no object of that key."
    if code in _DENIED or code.startswith("KMS."):
        more = " (without s3:ListBucket, S3 also answers so for a missing object)" if "Get" in needs else ""
        return AccessDeniedError, f"S3 refused ({code}). The caller needs {needs} on {bucket!r}{more}."
    if code in _WRONG_REGION:
        return (
            LocationNotFoundError,
            f"The bucket {bucket!r} lies in another region ({code}). Set AWS_REGION to its own.",
        )
    if code in _BUSY or status >= 500:
        return StorageUnavailableError, f"S3 is busy or out of order ({code or status}). Try again later."
    return None


def _status(error: Exception) -> int:
    response = error.response if isinstance(error, ClientError) else {}
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
