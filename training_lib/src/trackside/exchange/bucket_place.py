"""A run in S3 as a place for files: copies on the server, and transfers of large files in parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from boto3.exceptions import Boto3Error
from boto3.s3 import inject
from botocore.exceptions import BotoCoreError, ClientError

from trackside.contracts.errors import StorageError
from trackside.exchange.places import RemotePlace
from trackside.storage.keys import complaint
from trackside.storage.s3 import S3Store

_TRANSFERS = frozenset({"copy", "download_file", "upload_file"})
MOST_BYTES_OF_ONE_COPY = 5 << 30  # S3's own limit of CopyObject


class BucketPlace(S3Store):
    """The objects below `s3://bucket/prefix`."""

    @classmethod
    def at(cls, uri: str) -> BucketPlace:
        """Return the place at `s3://bucket/prefix`."""
        bucket, _, prefix = uri.partition("://")[2].partition("/")
        return cls(bucket, prefix)

    def sizes(self, prefixes: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for prefix in prefixes:
            request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._base + prefix}
            more = True
            while more:
                page = self._call("list_objects_v2", request, f"Cannot list {prefix!r}", needs="s3:ListBucket")
                keys = ((entry["Key"][len(self._base) :], entry["Size"]) for entry in page.get("Contents", ()))
                found.update((key, size) for key, size in keys if not complaint(key))
                more = bool(page.get("IsTruncated"))
                request["ContinuationToken"] = page.get("NextContinuationToken")
        return found

    def copy_from(self, source: RemotePlace, key: str, *, size: int) -> None:
        """Copy an object of another bucket place on the server.

        Raises:
            StorageError: S3 failed.
        """
        assert isinstance(source, BucketPlace)  # noqa: S101 - there is one kind of remote place
        whence = {"Bucket": source._bucket, "Key": source._name(key)}
        request = {"CopySource": whence, "Bucket": self._bucket, "Key": self._name(key)}
        # Above the limit boto3 copies in parts, still on the server.
        operation = "copy_object" if size <= MOST_BYTES_OF_ONE_COPY else "copy"
        self._call(operation, request, f"Cannot copy {key!r}", needs="s3:PutObject and, on the source, s3:GetObject")

    def download(self, key: str, path: str) -> None:
        """Fetch an object into a file.

        Raises:
            StorageError: S3 failed.
        """
        request = {"Bucket": self._bucket, "Key": self._name(key), "Filename": path}
        self._call("download_file", request, f"Cannot read {key!r}", needs="s3:GetObject")

    def upload(self, key: str, path: str) -> None:
        """Store a file as an object.

        Raises:
            StorageError: S3 failed.
        """
        request = {"Bucket": self._bucket, "Key": self._name(key), "Filename": path}
        self._call("upload_file", request, f"Cannot store {key!r}", needs="s3:PutObject")

    def _call(self, operation: str, request: dict[str, Any], what: str, *, needs: str) -> Any:
        try:
            client = self._client
            if operation in _TRANSFERS:  # methods of boto3's clients, which are botocore's and these
                return getattr(inject, operation)(client, **request)
            return getattr(client, operation)(**request)
        except (ClientError, BotoCoreError) as error:
            raise self._translated(error, what, needs=needs) from error
        except Boto3Error as error:  # what the transfers wrap theirs in
            raise StorageError(f"{what} in {self.uri}. {error}") from error
