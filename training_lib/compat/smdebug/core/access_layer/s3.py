"""An object on S3."""

from __future__ import annotations

import re
from typing import Any

from smdebug import not_offered
from smdebug.core.access_layer.base import TSAccessBase
from trackside.storage.s3 import S3Store


class TSAccessS3(TSAccessBase):
    """An object of bytes, or of text with `binary` False, that `close` stores in one request. The bucket must exist.

    Errors are those of `trackside.contracts.errors.StorageError`.
    """

    def __init__(
        self,
        bucket_name: str,
        key_name: str,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        binary: bool = True,
    ) -> None:
        if aws_access_key_id or aws_secret_access_key:
            raise TypeError("Keys are not taken as arguments: set up boto3's own configuration, or a role.")
        self.bucket_name = bucket_name
        self.key_name = re.sub("/+", "/", key_name)
        self.binary = binary
        self.data: Any = bytearray() if binary else ""
        self.current_len = 0
        self.flushed = False
        self._store = S3Store(bucket_name)

    def write(self, _data: Any) -> list[int]:
        """Append data. Return [its position, its length]."""
        start = self.current_len
        self.data += _data
        self.current_len += len(_data)
        return [start, len(_data)]

    def close(self) -> None:
        """Store the object. Nothing happens the second time."""
        if self.flushed:
            return
        self._store.put(self.key_name, self.data if self.binary else self.data.encode("utf-8"))
        self.flushed = True

    def _fetch(self) -> Any:
        data = self._store.get(self.key_name)
        return data if self.binary else data.decode("utf-8")


__getattr__ = not_offered.attribute_of(__name__)
