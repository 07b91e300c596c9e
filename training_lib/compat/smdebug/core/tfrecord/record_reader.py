"""The records of a file -> payloads."""

from __future__ import annotations

import struct

from smdebug import not_offered
from smdebug.core.tfrecord import record_writer
from smdebug.core.tfrecord.record_writer import CHECKSUM_MAGIC_BYTES, masked_crc32c
from smdebug.exceptions import SMDebugError, SMDebugRuntimeError, SMDebugValueError
from trackside.contracts.errors import StorageError
from trackside.storage.open_store import open_store

u32 = record_writer.u32
_HEADER = struct.Struct("<QI")
_FOOTER_SIZE = 4


class Records:
    """The records in `data`, one after the other. `where` is the origin of `data`, for messages."""

    def __init__(self, data: bytes, *, where: str) -> None:
        self._view = memoryview(data)
        self._where = where
        self._position = 0

    def has_data(self) -> bool:
        """Return True if another record follows."""
        return self._position < len(self._view)

    def read_record(self, check: str = "minimal") -> bytes:
        """Return the next payload.

        Args:
            check: "minimal" (the length's check, and a footer that is the constant or the payload's CRC), "full" (the
                footer must be the CRC), anything else: the length's check only.

        Raises:
            SMDebugRuntimeError: The record is not intact.
            SMDebugError: No record is left.
        """
        view = self._view[self._position :]
        if not len(view):
            raise SMDebugError("There is no further record.")
        length, length_check = _HEADER.unpack_from(view) if len(view) >= _HEADER.size else (0, None)
        end = _HEADER.size + length
        if length_check is None or end + _FOOTER_SIZE > len(view):
            raise self._damaged("the file ends within a record")
        if length_check != masked_crc32c(bytes(view[:8])):
            raise self._damaged("the checksum of a record's length does not match")
        payload, (footer,) = bytes(view[_HEADER.size : end]), struct.unpack_from("<I", view, end)
        allowed = {"full": [payload], "minimal": [CHECKSUM_MAGIC_BYTES, payload]}.get(check)
        if allowed is not None and footer not in map(masked_crc32c, allowed):
            raise self._damaged("the footer of a record does not match")
        self._position += end + _FOOTER_SIZE
        return payload

    def _damaged(self, what: str) -> SMDebugRuntimeError:
        return SMDebugRuntimeError(f"{self._where}, byte {self._position}: {what}")


class RecordReader:
    """The records of a file, local or on S3.

    Raises:
        SMDebugValueError: It cannot be read.
    """

    def __init__(self, path: str) -> None:
        self._records = Records(content_of(path), where=path)

    def has_data(self) -> bool:
        """Return True if another record follows."""
        return self._records.has_data()

    def read_record(self, check: str = "minimal") -> bytes:
        """Return the next payload. Raises the errors of `Records.read_record`."""
        return self._records.read_record(check)

    def flush(self) -> None:
        raise SMDebugError("flush() should not be called on RecordReader")

    def close(self) -> None:
        """Do nothing: no file is held open."""


def content_of(path: str) -> bytes:
    """Return a whole file, local or on S3.

    Raises:
        SMDebugValueError: It cannot be read.
    """
    folder, _, name = path.rpartition("/")
    try:
        return open_store(folder or ("/" if path.startswith("/") else ".")).get(name)
    except StorageError as error:
        raise SMDebugValueError(f"failed to open {path}: {error}") from error


__getattr__ = not_offered.attribute_of(__name__)
