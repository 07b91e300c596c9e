"""Listing, reading and removing many objects on S3."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from smdebug import not_offered
from smdebug.analysis.utils import logger
from smdebug.core.utils import is_s3
from smdebug.exceptions import SMDebugError, SMDebugTypeError
from trackside.aws_clients import SharedClient
from trackside.contracts.errors import AccessDeniedError, StorageError

READS_AT_ONCE = 16
MOST_DELETED_AT_ONCE = 1000

T = TypeVar("T")


class ListRequest:
    """The keys to list: those with `Prefix` after `StartAfter`, folded at `Delimiter`."""

    def __init__(self, Bucket: str, Prefix: str = "", Delimiter: str = "", StartAfter: str = "") -> None:  # noqa: N803 - old names
        self.bucket, self.prefix, self.delimiter, self.start_after = Bucket, Prefix, Delimiter, StartAfter


class DeleteRequest:
    """The keys to remove: all with `Prefix`."""

    def __init__(self, Bucket: str, Prefix: str = "") -> None:  # noqa: N803 - old names
        self.bucket, self.prefix = Bucket, Prefix


class ReadObjectRequest:
    """The bytes to read of s3://bucket/key: from `start` on, `length` of them."""

    def __init__(self, path: str, start: int | None = None, length: int | None = None) -> None:
        self.is_s3, self.bucket, self.key = is_s3(path)
        if not self.is_s3:
            self.key = path
        self.download_entire_file = start is None
        self.start = 0 if start is None else start
        self.length = length


class S3Handler:
    """Requests to S3 by one shared client, with the region, credentials and endpoint of boto3's own configuration."""

    NUM_RETRIES = 5
    GET_OBJECTS_MULTIPROCESSING_THRESHOLD = 100
    MULTIPROCESSING_POOL_SIZE = READS_AT_ONCE

    @staticmethod
    def client() -> Any:
        return SharedClient("s3").get()

    @staticmethod
    def list_prefixes(list_requests: list[ListRequest]) -> list[list[str]]:
        """Return the keys of each request."""
        if not isinstance(list_requests, list):
            raise SMDebugTypeError("list_requests accepts a list of ListRequest objects.")
        return [S3Handler.list_prefix(request) for request in list_requests]

    @staticmethod
    def list_prefix(lr: ListRequest) -> list[str]:
        """Return keys, ascending; with a delimiter also their beginnings up to it. `[]` if they cannot be listed.

        Raises:
            SMDebugError: Credentials or permissions are missing.
        """
        return _without_failing(lambda: _listed(lr), f"list s3://{lr.bucket}/{lr.prefix}", list[str]())

    @staticmethod
    def get_object(object_request: ReadObjectRequest) -> bytes | None:
        """Return the bytes, or None if they cannot be read.

        Raises:
            SMDebugError: Credentials or permissions are missing.
        """
        request = object_request
        if not request.is_s3:
            raise SMDebugTypeError(f"{request.key!r} lies not on S3.")
        return _without_failing(lambda: _read(request), f"read s3://{request.bucket}/{request.key}", None)

    @staticmethod
    def get_objects(
        object_requests: list[ReadObjectRequest], use_multiprocessing: bool = True, n_process: int | None = None
    ) -> list[bytes | None]:
        """Return the bytes of each request. Many are read at the same time, in threads.

        Raises:
            SMDebugError: Credentials or permissions are missing.
        """
        if not isinstance(object_requests, list):
            raise SMDebugTypeError("get_objects accepts a list of ReadObjectRequest objects")
        if len(object_requests) < 2 or not use_multiprocessing:
            return list(map(S3Handler.get_object, object_requests))
        with ThreadPoolExecutor(n_process or READS_AT_ONCE) as pool:
            return list(pool.map(S3Handler.get_object, object_requests))

    @staticmethod
    def delete_prefix(path: str | None = None, delete_request: DeleteRequest | None = None) -> None:
        """Remove all objects with keys that begin with s3://bucket/prefix.

        Raises:
            SMDebugError: Both arguments are given, or the path is not on S3.
        """
        if path is not None and delete_request is not None:
            raise SMDebugError("Only one of path or delete_request can be passed")
        if path is not None:
            on_s3, bucket, prefix = is_s3(path)
            if not on_s3:
                raise SMDebugError("Given path is not an S3 location")
            delete_request = DeleteRequest(bucket or "", prefix or "")
        if delete_request is not None:
            S3Handler.delete_prefixes([delete_request])

    @staticmethod
    def delete_prefixes(delete_requests: Sequence[DeleteRequest] | None) -> None:
        """Remove all objects of several requests."""
        for request in delete_requests or ():
            keys = S3Handler.list_prefix(ListRequest(request.bucket, request.prefix))
            for first in range(0, len(keys), MOST_DELETED_AT_ONCE):
                some = [{"Key": key} for key in keys[first : first + MOST_DELETED_AT_ONCE]]
                answer = S3Handler.client().delete_objects(
                    Bucket=request.bucket, Delete={"Objects": some, "Quiet": True}
                )
                for error in answer.get("Errors", ()):
                    where = f"s3://{request.bucket}/{error.get('Key')}"
                    logger.warning(f"Cannot delete {where}: {error.get('Code')}: {error.get('Message')}")


def _listed(request: ListRequest) -> list[str]:
    pages = S3Handler.client().get_paginator("list_objects_v2")
    found = pages.paginate(
        Bucket=request.bucket, Prefix=request.prefix, Delimiter=request.delimiter, StartAfter=request.start_after
    )
    return list(itertools.chain.from_iterable(map(_keys, found)))


def _keys(page: dict[str, Any]) -> list[str]:
    folders = [each["Prefix"] for each in page.get("CommonPrefixes", ())]
    return [*folders, *(each["Key"] for each in page.get("Contents", ()))]


def _read(request: ReadObjectRequest) -> bytes:
    from trackside.storage.s3 import S3Store  # needs boto3

    store = S3Store(request.bucket or "")
    length = None if request.download_entire_file else request.length
    return store.get(request.key or "", start=request.start, length=length)


def _without_failing(call: Callable[[], T], what: str, otherwise: T) -> T:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

    try:
        return call()
    except (NoCredentialsError, PartialCredentialsError, AccessDeniedError) as error:
        raise SMDebugError(f"Cannot {what}: {error}") from error
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in {"AccessDenied", "InvalidAccessKeyId", "ExpiredToken"}:
            raise SMDebugError(f"Cannot {what}: {error}") from error
        logger.warning(f"Cannot {what}: {error}")
    except (BotoCoreError, StorageError) as error:
        logger.warning(f"Cannot {what}: {error}")
    return otherwise


__getattr__ = not_offered.attribute_of(__name__)
